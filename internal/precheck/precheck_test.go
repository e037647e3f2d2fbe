package precheck_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pdfcpu/pdfcpu/pkg/api"
	"github.com/stretchr/testify/require"
	"golang.org/x/image/tiff"

	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
)

// valid are documents with something on them, each in one of the ways in which such are written.
func valid(t testing.TB) map[string][]byte {
	t.Helper()
	text := pdfOf(3, textContent)
	page := written(paper(1000, 1400, 0))
	noisy := written(paper(1000, 1400, 12))
	clear := image.NewNRGBA(image.Rect(0, 0, 600, 800)) // see-through, and so are its colours black
	bilevel := image.NewPaletted(image.Rect(0, 0, 800, 800), color.Palette{color.White, color.Black})
	all := map[string][]byte{
		"pdf":                          text,
		"pdf compact":                  compact(t, text),
		"pdf with junk before it":      append([]byte("junk of a mail\r\n"), text...),
		"pdf with junk behind it":      append(bytes.Clone(text), make([]byte, 200_000)...),
		"pdf that ends with its mark":  bytes.TrimRight(text, "\n"),
		"pdf without its last mark":    bytes.TrimSuffix(bytes.TrimRight(text, "\n"), []byte("%%EOF")),
		"pdf cut in its last lines":    text[:bytes.Index(text, []byte("startxref"))+11],
		"pdf cut in its trailer":       text[:bytes.Index(text, []byte("trailer"))+9],
		"pdf with a broken xref":       bytes.Replace(text, []byte("0000000000 65535 f"), []byte("0000000000 6553x f"), 1),
		"pdf with an odd startxref":    bytes.Replace(text, []byte("startxref\n"), []byte("startxref\n9"), 1),
		"pdf, empty password, RC4":     encrypt(t, text, "", false, 128),
		"pdf, empty password, AES":     encrypt(t, text, "", true, 128),
		"pdf, empty password, AES256":  encrypt(t, text, "", true, 256),
		"pdf of one written scan":      pdfAround(asJPEG(t, page), 1000, 1400),
		"png":                          asPNG(t, page),
		"png with noise":               asPNG(t, noisy),
		"png on nothing":               asPNG(t, written(clear)),
		"png of a palette":             asPNG(t, written(bilevel)),
		"jpeg":                         asJPEG(t, page),
		"jpeg with noise":              asJPEG(t, noisy),
		"jpeg with junk behind it":     append(asJPEG(t, page), make([]byte, 1000)...),
		"tiff":                         asTIFF(t, page, nil),
		"tiff, deflate":                asTIFF(t, page, &tiff.Options{Compression: tiff.Deflate, Predictor: true}),
		"bmp":                          asBMP(t, page),
		"large png":                    asPNG(t, written(paper(2100, 2200, 0))),
		"light print":                  asPNG(t, printed(paper(1000, 1400, 0), 235)),
		"faded print on thermal paper": asPNG(t, printed(paper(1000, 1400, 4), 205)),
		"light print, jpeg":            asJPEG(t, printed(paper(1000, 1400, 0), 225)),
		"grey on black":                asPNG(t, printed(image.NewGray(image.Rect(0, 0, 1000, 1400)), 30)),
		"pdf with a wrong length":      wrongLength(t, text),
		"bmp without its padding":      asBMP(t, page)[:len(asBMP(t, page))-2],
		"gif":                          encoded(t, func(b *bytes.Buffer) error { return gif.Encode(b, bilevel, nil) }),
	}
	maps.Copy(all, fixtures(t))
	return all
}

func TestNothingValidIsRefused(t *testing.T) {
	generous := precheck.Limits{
		Types: []precheck.Type{precheck.PDF, precheck.PNG, precheck.JPEG, precheck.TIFF, precheck.BMP, precheck.GIF},
		Bytes: 10 << 20, Pages: 48, LeastSide: 50, MostSide: 10_000, Pixels: 40_000_000,
	}
	for name, data := range valid(t) {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, inspect(t, data, generous))
			require.Empty(t, inspect(t, data, precheck.Limits{}))
		})
	}
}

func TestHopelessDocuments(t *testing.T) {
	text := pdfOf(3, textContent)
	page := written(paper(1000, 1400, 0))
	png, jpg, tif := asPNG(t, page), asJPEG(t, page), asTIFF(t, page, nil)
	images := []precheck.Type{precheck.PNG, precheck.JPEG}
	for name, c := range map[string]struct {
		data   []byte
		limits precheck.Limits
		reason precheck.Check
	}{
		"empty": {nil, precheck.Limits{}, precheck.Empty},

		"pdf for an image":              {text, precheck.Limits{Types: images}, precheck.TypeRead},
		"text":                          {[]byte("Dear Sir or Madam"), precheck.Limits{Types: images}, precheck.TypeRead},
		"html in a pdf":                 {[]byte("<html>404</html>"), precheck.Limits{Types: []precheck.Type{precheck.PDF}}, precheck.TypeRead},
		"archive":                       {[]byte("PK\x03\x04 some.txt"), precheck.Limits{Types: []precheck.Type{precheck.DOCX}}, precheck.TypeRead},
		"old office":                    {[]byte("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"), precheck.Limits{Types: []precheck.Type{precheck.DOCX}}, precheck.TypeRead},
		"too many bytes":                {text, precheck.Limits{Bytes: int64(len(text)) - 1}, precheck.Size},
		"pdf cut in half":               {text[:len(text)/2], precheck.Limits{}, precheck.Truncated},
		"pdf without end":               {text[:bytes.Index(text, []byte("\nxref"))], precheck.Limits{}, precheck.Truncated},
		"compact pdf cut":               {compact(t, text)[:600], precheck.Limits{}, precheck.Truncated},
		"pdf with pages behind its end": {slices.Concat(text, []byte("9 0 obj\n<< /Length 9999 >>\nstream\n"), make([]byte, 2000)), precheck.Limits{}, precheck.Truncated},
		"png cut":                       {png[:len(png)-20], precheck.Limits{}, precheck.Truncated},
		"png without end":               {png[:len(png)-12], precheck.Limits{}, precheck.Truncated},
		"jpeg cut":                      {jpg[:len(jpg)-2], precheck.Limits{}, precheck.Truncated},
		"jpeg cut in its head":          {jpg[:100], precheck.Limits{}, precheck.Truncated},
		"tiff cut":                      {tif[:len(tif)-200], precheck.Limits{}, precheck.Truncated},
		"tiff cut in half":              {tif[:len(tif)/2], precheck.Limits{}, precheck.Truncated},
		"bmp cut":                       {asBMP(t, page)[:len(asBMP(t, page))/2], precheck.Limits{}, precheck.Truncated},
		"webp cut":                      {[]byte("RIFF\x40\x00\x00\x00WEBPVP8 \x34\x00\x00\x00"), precheck.Limits{}, precheck.Truncated},
		"docx cut":                      {[]byte("PK\x03\x04 word/document.xml"), precheck.Limits{}, precheck.Truncated},
		"password, RC4":                 {encrypt(t, text, "secret", false, 128), precheck.Limits{}, precheck.Encrypted},
		"password, RC4, 40":             {encrypt(t, text, "secret", false, 40), precheck.Limits{}, precheck.Encrypted},
		"password, AES":                 {encrypt(t, text, "secret", true, 128), precheck.Limits{}, precheck.Encrypted},
		"password, AES 256":             {encrypt(t, text, "secret", true, 256), precheck.Limits{}, precheck.Encrypted},
		"too many pages":                {text, precheck.Limits{Pages: 2}, precheck.Pages},
		"too many pages, compact":       {compact(t, text), precheck.Limits{Pages: 2}, precheck.Pages},
		"too many pages in a tiff":      {twoPages(t, tif), precheck.Limits{Pages: 1}, precheck.Pages},
		"png too wide":                  {png, precheck.Limits{MostSide: 1399}, precheck.Dimensions},
		"jpeg too small":                {jpg, precheck.Limits{LeastSide: 1001}, precheck.Dimensions},
		"tiff with many pixels":         {tif, precheck.Limits{Pixels: 1_399_999}, precheck.Dimensions},
		"bmp too wide":                  {asBMP(t, page), precheck.Limits{MostSide: 1000}, precheck.Dimensions},

		"blank png":                {asPNG(t, paper(1000, 1400, 0)), precheck.Limits{}, precheck.Blank},
		"blank png with noise":     {asPNG(t, paper(1000, 1400, 12)), precheck.Limits{}, precheck.Blank},
		"blank png of a palette":   {asPNG(t, image.NewPaletted(image.Rect(0, 0, 99, 99), color.Palette{color.White, color.Black})), precheck.Limits{}, precheck.Blank},
		"see-through png":          {asPNG(t, image.NewNRGBA(image.Rect(0, 0, 99, 99))), precheck.Limits{}, precheck.Blank},
		"blank jpeg":               {asJPEG(t, paper(1000, 1400, 3)), precheck.Limits{}, precheck.Blank},
		"blank tiff":               {asTIFF(t, paper(1000, 1400, 12), nil), precheck.Limits{}, precheck.Blank},
		"blank bmp":                {asBMP(t, paper(1000, 1400, 12)), precheck.Limits{}, precheck.Blank},
		"blank large png":          {asPNG(t, paper(2100, 2200, 12)), precheck.Limits{}, precheck.Blank},
		"pdf without content":      {pdfOf(2, ""), precheck.Limits{}, precheck.Blank},
		"compact, without content": {compact(t, pdfOf(2, "")), precheck.Limits{}, precheck.Blank},
		"pdf with idle content":    {pdfOf(1, "q 1 0 0 1 0 0 cm Q % nothing\n"), precheck.Limits{}, precheck.Blank},
		"pdf of nothing, deflated": {nothingDeflated(t), precheck.Limits{}, precheck.Blank},
		"blank with a shadow":      {asPNG(t, shaded(paper(1000, 1400, 6))), precheck.Limits{}, precheck.Blank},
		"pdf of one blank scan":    {pdfAround(asJPEG(t, paper(1000, 1400, 0)), 1000, 1400), precheck.Limits{}, precheck.Blank},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "precheck_"+string(c.reason), inspect(t, c.data, c.limits))
			require.Empty(t, inspect(t, c.data, c.limits, precheck.Checks()...), "every check can be left out")
			require.NotEqual(t, "precheck_"+string(c.reason), inspect(t, c.data, c.limits, c.reason))
		})
	}
}

// Of real documents half is not enough.
func TestHalfOfADocument(t *testing.T) {
	for name, data := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "precheck_truncated", inspect(t, data[:len(data)/2], precheck.Limits{}))
		})
	}
}

// twoPages makes a TIFF whose only directory follows itself, at another place.
func twoPages(t *testing.T, one []byte) []byte {
	t.Helper()
	two := bytes.Clone(one)
	at := int(two[4]) | int(two[5])<<8 | int(two[6])<<16 | int(two[7])<<24
	entries := int(two[at]) | int(two[at+1])<<8
	next := at + 2 + 12*entries
	directory := bytes.Clone(two[at : next+4])
	to := len(two)
	two[next], two[next+1], two[next+2], two[next+3] = byte(to), byte(to>>8), byte(to>>16), byte(to>>24)
	return append(two, directory...)
}

// The pages are counted by what is there; what the file says of them alone refuses nothing.
func TestPagesAreCountedAsTheLibraryDoes(t *testing.T) {
	for name, data := range valid(t) {
		n, err := api.PageCount(bytes.NewReader(data), library())
		if err != nil || !bytes.HasPrefix(data, []byte("%PDF")) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			require.Empty(t, inspect(t, data, precheck.Limits{Pages: n}))
			switch name {
			case "pdf with a broken xref", "pdf with an odd startxref", "pdf cut in its last lines", "pdf cut in its trailer":
				return // the library mends them, and we do not have to
			}
			if n > 1 {
				require.Equal(t, "precheck_pages", inspect(t, data, precheck.Limits{Pages: n - 1}))
			}
		})
	}
	lying := bytes.Replace(pdfOf(3, textContent), []byte("/Count 3"), []byte("/Count 9"), 1)
	require.Empty(t, inspect(t, lying, precheck.Limits{Pages: 5}))
}

// broken is a source that fails, or that is slow.
type broken struct {
	data []byte
	do   func(off int64) error
}

func (b *broken) ReadAt(p []byte, off int64) (int, error) {
	if err := b.do(off); err != nil {
		return 0, err
	}
	return bytes.NewReader(b.data).ReadAt(p, off)
}

func TestWhatCannotBeReadIsNotRefused(t *testing.T) {
	cut := pdfOf(3, textContent)[:300]
	read := func(ctx context.Context, do func(int64) error) bool {
		_, hopeless := precheck.Inspect(ctx, &broken{cut, do}, int64(len(cut)), precheck.Limits{}, nil)
		return hopeless
	}
	require.True(t, read(t.Context(), func(int64) error { return nil }))
	require.False(t, read(t.Context(), func(int64) error { return errors.New("disk") }))
	require.False(t, read(t.Context(), func(int64) error { panic("a bug") }))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, read(ended, func(int64) error { return nil }))
}

// Small files that unpack to much, or lead in circles, take neither memory nor time.
func TestHostileDocuments(t *testing.T) {
	circle := bytes.Replace(pdfOf(3, textContent), []byte("/Kids [ 5 0 R 6"), []byte("/Kids [ 5 0 R 2"), 1)
	deep := fmt.Appendf(nil, "%%PDF-1.4\n1 0 obj\n%s\nendobj\nxref\n0 1\n0000000000 65535 f \ntrailer\n%s\nstartxref\n9\n%%%%EOF",
		bytes.Repeat([]byte("["), 100_000), bytes.Repeat([]byte("<</A "), 100_000))
	huge := asPNG(t, image.NewGray(image.Rect(0, 0, 10, 10)))
	copy(huge[16:], "\x00\x00\xFF\xFF\x00\x00\xFF\xFF")
	for name, data := range map[string][]byte{
		"a page tree in a circle": circle, "deep nesting": deep, "a png of 65535 by 65535": huge,
		"an xref in a circle":   bytes.Replace(pdfOf(1, textContent), []byte("/Size"), []byte("/Prev 9 /Size"), 1),
		"a tiff in a circle":    []byte("II*\x00\x08\x00\x00\x00\x00\x00\x08\x00\x00\x00"),
		"a png of many nothing": append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte("\x00\x00\x00\x00abcd\x00\x00\x00\x00"), 1<<19)...),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			require.Empty(t, inspect(t, data, precheck.Limits{Pages: 1, Pixels: 5_000_000_000}))
			require.Less(t, time.Since(began), 5*time.Second)
		})
	}
}
