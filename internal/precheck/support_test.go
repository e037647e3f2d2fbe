package precheck_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pdfcpu/pdfcpu/pkg/api"
	"github.com/pdfcpu/pdfcpu/pkg/pdfcpu/model"
	"github.com/stretchr/testify/require"
	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
)

func inspect(t *testing.T, data []byte, limits precheck.Limits, skip ...precheck.Check) string {
	t.Helper()
	found, hopeless := precheck.Inspect(t.Context(), bytes.NewReader(data), int64(len(data)), limits, skip)
	if !hopeless {
		require.Zero(t, found)
		return ""
	}
	require.NotEmpty(t, found.Message)
	return found.Reason()
}

// paper is white, with the noise of a scanner if there is to be some.
func paper(width, height, noise int) *image.Gray {
	m := image.NewGray(image.Rect(0, 0, width, height))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range m.Pix {
		m.Pix[i] = 250
		if noise > 0 {
			m.Pix[i] -= uint8(random.IntN(noise))
		}
	}
	return m
}

// written is a page with a word on it: strokes of two pixels in a place of 40 by 16.
func written(m draw.Image) draw.Image {
	b := m.Bounds()
	x, y := b.Dx()/3, b.Dy()-b.Dy()/4
	for n := range 6 {
		draw.Draw(m, image.Rect(x+n*7, y, x+n*7+2, y+16), image.NewUniform(color.Black), image.Point{}, draw.Src)
	}
	return m
}

// printed is a page with a word of that shade on it.
func printed(m *image.Gray, shade uint8) *image.Gray {
	for n := range 6 {
		draw.Draw(m, image.Rect(300+n*7, 900, 302+n*7, 916), image.NewUniform(color.Gray{Y: shade}), image.Point{}, draw.Src)
	}
	return m
}

// shaded is a page that lay on the glass a little away from it on one side.
func shaded(m *image.Gray) *image.Gray {
	for y := range m.Rect.Dy() {
		for x := range m.Rect.Dx() {
			m.Pix[y*m.Stride+x] -= uint8(x * 10 / m.Rect.Dx())
		}
	}
	return m
}

func encoded(t testing.TB, encode func(b *bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, encode(&b))
	return b.Bytes()
}

func asPNG(t testing.TB, m image.Image) []byte {
	t.Helper()
	return encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, m) })
}

func asJPEG(t testing.TB, m image.Image) []byte {
	t.Helper()
	return encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, m, nil) })
}

func asTIFF(t testing.TB, m image.Image, how *tiff.Options) []byte {
	t.Helper()
	return encoded(t, func(b *bytes.Buffer) error { return tiff.Encode(b, m, how) })
}

func asBMP(t testing.TB, m image.Image) []byte {
	t.Helper()
	return encoded(t, func(b *bytes.Buffer) error { return bmp.Encode(b, m) })
}

// writer puts a PDF together.
type writer struct {
	bytes.Buffer

	offsets []int
}

func (w *writer) object(format string, args ...any) {
	if w.Len() == 0 {
		w.WriteString("%PDF-1.4\n%\xE2\xE3\xCF\xD3\n")
	}
	w.offsets = append(w.offsets, w.Len())
	fmt.Fprintf(w, "%d 0 obj\n", len(w.offsets))
	fmt.Fprintf(w, format, args...)
	w.WriteString("\nendobj\n")
}

func (w *writer) end() []byte {
	xref := w.Len()
	fmt.Fprintf(w, "xref\n0 %d\n0000000000 65535 f \n", len(w.offsets)+1)
	for _, off := range w.offsets {
		fmt.Fprintf(w, "%010d 00000 n \n", off)
	}
	fmt.Fprintf(w, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(w.offsets)+1, xref)
	return w.Bytes()
}

const textContent = "BT /F1 12 Tf 72 720 Td (Invoice 4711) Tj ET"

// pdfOf is a PDF with that many pages, of which each has the content; without any, a page has none.
func pdfOf(pages int, content string) []byte {
	var w writer
	w.object("<< /Type /Catalog /Pages 2 0 R >>")
	var kids strings.Builder
	for n := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", 5+n)
	}
	w.object("<< /Type /Pages /Count %d /Kids [ %s] /Resources << /Font << /F1 4 0 R >> >> /MediaBox [0 0 612 792] >>", pages, kids.String())
	w.object("<< /Length %d >>\nstream\n%s\nendstream", len(content), content)
	w.object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	for range pages {
		if content == "" {
			w.object("<< /Type /Page /Parent 2 0 R >>")
		} else {
			w.object("<< /Type /Page /Parent 2 0 R /Contents 3 0 R >>")
		}
	}
	return w.end()
}

// wrongLength is a PDF whose content says that it is nothing, as readers find out and mend.
func wrongLength(t testing.TB, data []byte) []byte {
	t.Helper()
	was := fmt.Sprintf("/Length %d", len(textContent))
	is := "/Length 0" + strings.Repeat(" ", len(was)-len("/Length 0"))
	require.Contains(t, string(data), was)
	return bytes.Replace(data, []byte(was), []byte(is), 1)
}

// nothingDeflated is a PDF whose content is a stream of no bytes, as some libraries write it.
func nothingDeflated(t testing.TB) []byte {
	t.Helper()
	const spaces = 40
	was := fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", spaces, strings.Repeat(" ", spaces))
	is := "<< /Filter /FlateDecode /Length 0"
	is += strings.Repeat(" ", len(was)-len(is)-len(">>\nstream\n\nendstream")) + ">>\nstream\n\nendstream"
	data := pdfOf(1, strings.Repeat(" ", spaces))
	require.Contains(t, string(data), was)
	return bytes.Replace(data, []byte(was), []byte(is), 1)
}

// pdfAround is a page that shows one JPEG, as scanners write them.
func pdfAround(jpg []byte, width, height int) []byte {
	var w writer
	w.object("<< /Type /Catalog /Pages 2 0 R >>")
	w.object("<< /Type /Pages /Count 1 /Kids [3 0 R] >>")
	w.object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /XObject << /Im0 5 0 R >> >> >>")
	const content = "q 612 0 0 792 0 0 cm /Im0 Do Q"
	w.object("<< /Length %d >>\nstream\n%s\nendstream", len(content), content)
	w.object("<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8 /Filter /DCTDecode /Length %d >>\nstream\n%s\nendstream",
		width, height, len(jpg), jpg)
	return w.end()
}

func library() *model.Configuration {
	api.DisableConfigDir()
	return model.NewDefaultConfiguration()
}

// compact rewrites a PDF with object streams and a cross-reference stream.
func compact(t testing.TB, data []byte) []byte {
	t.Helper()
	c := library()
	c.WriteObjectStream, c.WriteXRefStream = true, true
	return encoded(t, func(b *bytes.Buffer) error { return api.Optimize(bytes.NewReader(data), b, c) })
}

// encrypt is the PDF under a password of the user's, which may be empty, and one of the owner's.
func encrypt(t testing.TB, data []byte, user string, aes bool, bits int) []byte {
	t.Helper()
	c := library()
	c.UserPW, c.OwnerPW, c.EncryptUsingAES, c.EncryptKeyLength = user, "owner", aes, bits
	return encoded(t, func(b *bytes.Buffer) error { return api.Encrypt(bytes.NewReader(data), b, c) })
}

// fixtures are real documents, where there are some.
func fixtures(t testing.TB) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	paths, err := filepath.Glob("../../../shared/fixtures/documents/*")
	require.NoError(t, err)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		found[filepath.Base(path)] = data
	}
	return found
}
