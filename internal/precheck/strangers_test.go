package precheck_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
)

// Documents as strangers write them: odd, and good for some reader.
func TestOddDocumentsAreSent(t *testing.T) {
	text := pdfOf(3, textContent)
	page := asTIFF(t, written(paper(1000, 1400, 0)), nil)
	deep := image.NewGray16(image.Rect(0, 0, 600, 800)) // ten bits of sixteen, as some scanners write them
	for i := range deep.Pix {
		deep.Pix[i] = []byte{3, 0xFF}[i%2]
	}
	draw16(deep)
	wide := func(s string, order binary.AppendByteOrder, mark bool) (b []byte) {
		if mark {
			s = "\uFEFF" + s
		}
		for _, u := range utf16.Encode([]rune(s)) {
			b = order.AppendUint16(b, u)
		}
		return b
	}
	aes := encrypt(t, text, "", true, 128)
	const ofKeys = "/Standard/Length 128"
	require.Equal(t, 1, bytes.Count(aes, []byte(ofKeys)))
	column := paper(1000, 1400, 0)
	draw.Draw(column, image.Rect(0, 0, 450, 1400), image.NewUniform(color.Gray{Y: 233}), image.Point{}, draw.Src)
	draw.Draw(column, image.Rect(100, 400, 300, 440), image.NewUniform(color.Gray{Y: 250}), image.Point{}, draw.Src)
	documents := []precheck.Type{precheck.PDF, precheck.TIFF, precheck.PNG, precheck.HTML, precheck.DOCX, precheck.XLSX, precheck.PPTX}
	for name, data := range map[string][]byte{
		"a text about an object behind a pdf":           append(bytes.Clone(text), "\n<!-- page object 1 object of 2 --><script>var obj = {}; x = 9 0 objects</script>"...),
		"a pdf of which only attachments are encrypted": attachmentsEncrypted(text),
		"a compact pdf cut in its last line":            compact(t, text)[:bytes.LastIndex(compact(t, text), []byte("startxref"))+4],
		"a pdf cut in its table":                        text[:bytes.Index(text, []byte("\nxref"))+30],
		"a pdf with an odd length of keys":              bytes.Replace(aes, []byte(ofKeys), []byte("/Standard/Length 40 "), 1),
		"a pdf without a length of keys":                bytes.Replace(aes, []byte(ofKeys), []byte("/Standard           "), 1),
		"white print in a pale column":                  asPNG(t, column),
		"a portfolio":                                   portfolio(),
		"content that is damaged":                       damagedContent(t),
		"a tiff with a thumbnail":                       withPart(page, 254, 1),
		"a tiff with a mask":                            withPart(page, 254, 4),
		"a tiff with a thumbnail, as of old":            withPart(page, 255, 2),
		"a png of ten bits":                             asPNG(t, deep),
		"a tiff of ten bits":                            asTIFF(t, deep, nil),
		"html in UTF-16":                                wide("\r\n <html>", binary.LittleEndian, true),
		"html in UTF-16, big endian":                    wide("\r\n <html>", binary.BigEndian, true),
		"html in UTF-16, unmarked":                      wide("<html><p>text", binary.LittleEndian, false),
		"a piece of html":                               []byte("Total <b>12</b>"),
		"an office document in its own folder":          []byte("PK\x03\x04 [Content_Types].xml document.xml PK\x05\x06"),
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, inspect(t, data, precheck.Limits{Types: documents, Pages: max(1, 3*bytes.Count(data[:5], []byte("%PDF-")))}))
		})
	}
	secret := bytes.Replace(encrypt(t, text, "secret", true, 128), []byte(ofKeys), []byte("/Standard/Length 40 "), 1)
	require.Equal(t, "precheck_encrypted", inspect(t, secret, precheck.Limits{}))
	require.Equal(t, "precheck_pages", inspect(t, withPart(page, 254, 2), precheck.Limits{Pages: 1}), "a page of several is one")
	require.Equal(t, "precheck_truncated", inspect(t, append(bytes.Clone(text), "\n10 0 obj\n<<"...), precheck.Limits{}))
	require.Equal(t, "precheck_type", inspect(t, []byte("PK\x03\x04 some.txt PK\x05\x06"), precheck.Limits{Types: documents}))
	require.Equal(t, "precheck_type", inspect(t, []byte("1 < 2, and \x00\x00\x00"), precheck.Limits{Types: documents}))
}

func draw16(m *image.Gray16) {
	for y := 300; y < 340; y++ {
		for x := 100; x < 104; x++ {
			m.SetGray16(x, y, color.Gray16{Y: 40})
		}
	}
}

// attachmentsEncrypted is a PDF with rules that leave its pages alone. Nobody has the password of its attachments.
func attachmentsEncrypted(data []byte) []byte {
	rules := fmt.Sprintf("/Encrypt << /Filter /Standard /V 4 /R 4 /Length 128 /P -4 /O <%X> /U <%X> /CF << /StdCF << /CFM /AESV2 /AuthEvent /EFOpen /Length 16 >> >> "+
		"/StmF /Identity /StrF /Identity /EFF /StdCF >>", make([]byte, 32), make([]byte, 32))
	return bytes.Replace(data, []byte("/Size"), []byte(rules+" /Size"), 1)
}

// portfolio is an empty cover, which stands before documents of their own.
func portfolio() []byte {
	var w writer
	w.object("<< /Type /Catalog /Pages 2 0 R /Collection << /Type /Collection >> >>")
	w.object("<< /Type /Pages /Count 1 /Kids [3 0 R] >>")
	w.object("<< /Type /Page /Parent 2 0 R >>")
	return w.end()
}

// damagedContent is a page whose content can be unpacked only as far as nothing has been drawn.
func damagedContent(t *testing.T) []byte {
	t.Helper()
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, err := z.Write([]byte("q\n"))
	require.NoError(t, err)
	require.NoError(t, z.Flush())
	packed.WriteString("\x07damaged") // a block of no kind
	var w writer
	w.object("<< /Type /Catalog /Pages 2 0 R >>")
	w.object("<< /Type /Pages /Count 1 /Kids [3 0 R] >>")
	w.object("<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>")
	w.object("<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream", packed.Len(), packed.Bytes())
	return w.end()
}

// withPart adds a directory to a TIFF that says by a tag what it is to the first.
func withPart(data []byte, tag, value uint16) []byte {
	data = bytes.Clone(data)
	order := binary.LittleEndian
	first := order.Uint32(data[4:])
	next := int(first) + 2 + 12*int(order.Uint16(data[first:]))
	order.PutUint32(data[next:], uint32(len(data)+len(data)%2))
	data = append(data, make([]byte, len(data)%2)...)
	data = order.AppendUint16(data, 1)
	data = order.AppendUint16(data, tag)
	data = order.AppendUint16(data, 3)
	data = order.AppendUint32(data, 1)
	data = order.AppendUint32(data, uint32(value))
	return order.AppendUint32(data, 0)
}

// A small document must not take much memory, nor many of them together much more.
func TestManyHostileDocumentsTakeLittleMemory(t *testing.T) {
	const side = 0x4000
	large := asJPEG(t, image.NewGray(image.Rect(0, 0, 64, 64)))
	frame := bytes.Index(large, []byte("\xFF\xC0"))
	small := bytes.Clone(large)
	large[frame+1] = 0xC2 // in several scans, of which all coefficients are held
	copy(large[frame+5:], []byte{side >> 8, 0, side >> 8, 0})
	scan := bytes.Index(large, []byte("\xFF\xDA"))
	copy(large[scan+7:], "\x00\x00\x00")
	// The decoder reads what we step over, and the other way round.
	hidden := slices.Concat([]byte("\xFF\xD8\xFF\x00"), binary.BigEndian.AppendUint16(nil, uint16(len(large))), large[2:], small[2:])
	for name, c := range map[string]struct {
		data []byte
		many int
		most uint64 // MB in use at one time
	}{
		"a jpeg larger than its pdf says": {pdfAround(large, 400, 400), 4, 100},
		"a jpeg within a jpeg":            {hidden, 4, 100},
		"a cross-reference of 30 MB":      {hugeReference(t, 30<<20), 20, 600},
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			var before, now runtime.MemStats
			runtime.ReadMemStats(&before)
			top, stop, watched := before.HeapAlloc, make(chan struct{}), make(chan struct{})
			go func() {
				defer close(watched)
				for tick := time.NewTicker(time.Millisecond); ; {
					select {
					case <-stop:
						tick.Stop()
						return
					case <-tick.C:
						runtime.ReadMemStats(&now)
						top = max(top, now.HeapAlloc)
					}
				}
			}()
			var all sync.WaitGroup
			for range c.many {
				all.Go(func() {
					_, hopeless := precheck.Inspect(t.Context(), bytes.NewReader(c.data), int64(len(c.data)), precheck.Limits{Pages: 1}, nil)
					if hopeless {
						t.Error("it is not for us to refuse")
					}
				})
			}
			all.Wait()
			close(stop)
			<-watched
			require.Less(t, (top-before.HeapAlloc)>>20, c.most)
		})
	}
}

// hugeReference is a small PDF whose cross-reference stream unpacks to that many bytes.
func hugeReference(t *testing.T, size int) []byte {
	t.Helper()
	packed := encoded(t, func(b *bytes.Buffer) error {
		z := zlib.NewWriter(b)
		if _, err := z.Write(make([]byte, size)); err != nil {
			return err
		}
		return z.Close()
	})
	b := bytes.NewBufferString("%PDF-1.5\n")
	at := b.Len()
	fmt.Fprintf(b, "1 0 obj\n<< /Type /XRef /W [1 4 2] /Size %d /Root 2 0 R /Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 7 >> /Length %d >>\nstream\n", size/8, len(packed))
	b.Write(packed)
	fmt.Fprintf(b, "\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n", at)
	return b.Bytes()
}
