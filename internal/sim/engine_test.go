package sim

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCannedSaysThatItIsSimulated(t *testing.T) {
	doc, err := inspect(tiffOf(printed("a"), printed("b")))
	require.NoError(t, err)
	pages, err := Canned{}.Read(t.Context(), doc)
	require.NoError(t, err)
	require.Len(t, pages, 2)
	require.Equal(t, 960, pages[0].Width)
	require.True(t, strings.HasPrefix(pages[0].Lines[0].text(), "This is a simulated answer;"))
	require.Equal(t, "Page: 2 of 2", pages[1].Lines[len(pages[1].Lines)-1].text())
	for _, w := range pages[0].words() {
		require.InDelta(t, 0.99, w.Confidence, 0.01)
	}
}

func TestCannedKeepsLongReferencesOnThePage(t *testing.T) {
	_, pages, err := newScanner(Canned{}).reference(t.Context(), "s3://bucket/"+strings.Repeat("long name ", 60))
	require.NoError(t, err)
	for _, line := range pages[0].Lines {
		b := line.box()
		require.LessOrEqual(t, b.Left+b.Width, 1.0)
	}
}

const sampleTSV = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n" +
	"1\t1\t0\t0\t0\t0\t0\t0\t1000\t500\t-1\t\n" +
	"2\t1\t1\t0\t0\t0\t100\t50\t400\t40\t-1\t\n" +
	"4\t1\t1\t1\t1\t0\t100\t50\t400\t40\t-1\t\n" +
	"5\t1\t1\t1\t1\t1\t100\t50\t150\t40\t96.5\tHello\n" +
	"5\t1\t1\t1\t1\t2\t300\t50\t200\t40\t80\tworld\n" +
	"4\t1\t1\t1\t2\t0\t100\t150\t400\t40\t-1\t\n" +
	"5\t1\t1\t1\t2\t1\t100\t150\t150\t40\t95\t \n" +
	"1\t2\t0\t0\t0\t0\t0\t0\t200\t100\t-1\t\n"

func TestParseTSVNormalises(t *testing.T) {
	pages, err := parseTSV([]byte(sampleTSV))
	require.NoError(t, err)
	require.Equal(t, []Page{
		{Width: 1000, Height: 500, Lines: []Line{{Words: []Word{
			{Text: "Hello", Box: Box{Left: 0.1, Top: 0.1, Width: 0.15, Height: 0.08}, Confidence: 0.965},
			{Text: "world", Box: Box{Left: 0.3, Top: 0.1, Width: 0.2, Height: 0.08}, Confidence: 0.8},
		}}}},
		{Width: 200, Height: 100},
	}, pages)
	require.InDelta(t, 0.4, pages[0].Lines[0].box().Width, 1e-9)
}

func TestParseTSVRefusesNonsense(t *testing.T) {
	for name, tsv := range map[string]string{
		"word before page": "5\t1\t1\t1\t1\t1\t1\t1\t1\t1\t90\tx\n",
		"page of no size":  "1\t1\t0\t0\t0\t0\t0\t0\t0\t0\t-1\t\n",
		"no number":        "1\t1\t0\t0\t0\t0\t0\tz\t0\t0\t-1\t\n",
	} {
		_, err := parseTSV([]byte(tsv))
		require.Error(t, err, name)
	}
}

func FuzzParseTSV(f *testing.F) {
	f.Add(sampleTSV)
	f.Add("1\t1\t0\t0\t0\t0\t0\t0\tNaN\tInf\t-1\t\n")
	f.Fuzz(func(t *testing.T, tsv string) {
		pages, err := parseTSV([]byte(tsv))
		if err != nil {
			return
		}
		for _, p := range pages {
			for _, l := range p.Lines {
				require.NotEmpty(t, l.Words)
				for _, w := range l.Words {
					b := w.Box
					require.True(t, b.Left >= 0 && b.Top >= 0 && b.Left+b.Width <= 1.0000001 && b.Top+b.Height <= 1.0000001)
					require.True(t, w.Confidence >= 0 && w.Confidence <= 1)
				}
			}
		}
	})
}

func realTesseract(t *testing.T) *Tesseract {
	t.Helper()
	engine, err := NewTesseract()
	if err != nil {
		t.Skipf("needs tesseract: %v", err)
	}
	return engine
}

func TestTesseractReadsAPage(t *testing.T) {
	p := launch(t, Options{Kind: KindTextract, Engine: realTesseract(t)})
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	data := pngOf(t, printed("Invoice number: 4711", "Total amount due"))
	got := p.textract(t, "DetectDocumentText", `{"Document":{"Bytes":"`+encode(data)+`"}}`)
	require.Equal(t, 200, got.status, got.raw)
	require.Contains(t, got.raw, `"Text":"Invoice number: 4711"`)
	require.Contains(t, got.raw, `"Text":"Total amount due"`)
	confidence, ok := at(t, got.body, "Blocks", 1, "Confidence").(float64)
	require.True(t, ok)
	require.Greater(t, confidence, 50.0)
	require.LessOrEqual(t, confidence, 100.0)
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestTesseractReadsEveryPageOfATIFF(t *testing.T) {
	doc, err := inspect(tiffOf(printed("first page here"), printed("second page here")))
	require.NoError(t, err)
	pages, err := realTesseract(t).Read(t.Context(), doc)
	require.NoError(t, err)
	require.Len(t, pages, 2)
	require.Equal(t, "first page here", pages[0].Lines[0].text())
	require.Equal(t, "second page here", pages[1].Lines[0].text())
}

func TestTesseractStopsWithItsContext(t *testing.T) {
	engine := realTesseract(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := engine.Read(ctx, Document{Format: FormatPNG, Data: pngOf(t, printed("x")), Pages: 1})
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, documentsFault(err), "an aborted reading must not blame the document")
}

func TestTesseractRefusesPDFWithoutADrawer(t *testing.T) {
	_, err := (&Tesseract{program: "tesseract", slots: make(chan struct{}, 1)}).Read(t.Context(), Document{Format: FormatPDF})
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "poppler-utils")
}

func TestTesseractBlamesABrokenPDF(t *testing.T) {
	engine := realTesseract(t)
	if engine.drawer == "" {
		t.Skip("needs pdftoppm")
	}
	_, err := engine.Read(t.Context(), Document{Format: FormatPDF, Data: []byte("%PDF-1.4\nnothing"), Pages: 1})
	require.ErrorIs(t, err, ErrBroken)
}

func TestMissingTesseractSaysHowToInstallIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := NewTesseract()
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.ErrorContains(t, err, "apt-get install tesseract-ocr")
}
