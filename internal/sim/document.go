package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"regexp"
	"strconv"

	"golang.org/x/image/tiff"
)

// Format is what a document is by its content.
type Format string

// The formats that every simulated provider reads. The empty Format is a reference.
const (
	FormatPDF  Format = "PDF"
	FormatPNG  Format = "PNG"
	FormatJPEG Format = "JPEG"
	FormatTIFF Format = "TIFF"
)

// ErrUnsupported says that a document is of no format that can be read.
var ErrUnsupported = errors.New("the document is not a PDF, PNG, JPEG or TIFF that can be read here")

// ErrBroken says that a document has a known format but is damaged.
var ErrBroken = errors.New("the document is damaged")

const (
	// maxSide is the providers' limit for an image side, in pixels. It also bounds what decoding may cost.
	maxSide = 10_000
	// maxPages is the most pages that a document is taken to have, whatever it claims.
	maxPages = 3_000
)

// Document is what an engine reads.
type Document struct {
	// Format is what the bytes are; empty for a reference.
	Format Format
	// Data is the document itself; empty for a reference.
	Data []byte
	// Reference tells where the document lies, for a request that only says so. The simulator never goes there.
	Reference string
	// Pages is the number of pages, at least 1.
	Pages int
	// Width and Height are the size of an image in pixels; 0 where unknown.
	Width, Height int
}

// inspect tells what data is and whether it is whole as far as Go can decode it. The error wraps ErrUnsupported or ErrBroken.
func inspect(data []byte) (Document, error) {
	doc := Document{Data: data, Pages: 1}
	var size func(io.Reader) (image.Config, error)
	var decode func(io.Reader) (image.Image, error)
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		doc.Format, size, decode = FormatPNG, png.DecodeConfig, png.Decode
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		doc.Format, size, decode = FormatJPEG, jpeg.DecodeConfig, jpeg.Decode
	case bytes.HasPrefix(data, []byte("II*\x00")), bytes.HasPrefix(data, []byte("MM\x00*")):
		doc.Format, size, decode = FormatTIFF, tiff.DecodeConfig, tiff.Decode
		doc.Pages = tiffPages(data)
	case bytes.Contains(data[:min(len(data), 1024)], []byte("%PDF-")):
		doc.Format = FormatPDF
		doc.Pages = pdfPages(data)
		return doc, nil
	default:
		return doc, ErrUnsupported
	}
	config, err := size(bytes.NewReader(data))
	if notInGo(err) {
		return doc, nil // A valid document that only this decoder cannot read.
	}
	if err != nil {
		return doc, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if config.Width > maxSide || config.Height > maxSide {
		return doc, fmt.Errorf("%w: %dx%d pixels, more than %d a side", ErrBroken, config.Width, config.Height, maxSide)
	}
	doc.Width, doc.Height = config.Width, config.Height
	if _, err := decode(bytes.NewReader(data)); err != nil && !notInGo(err) {
		return doc, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return doc, nil
}

// notInGo reports whether the decoder only lacks a feature.
func notInGo(err error) bool {
	var j jpeg.UnsupportedError
	var p png.UnsupportedError
	var t tiff.UnsupportedError
	return errors.As(err, &j) || errors.As(err, &p) || errors.As(err, &t)
}

// tiffPages counts the image directories, at least 1.
func tiffPages(data []byte) int {
	var order binary.ByteOrder = binary.LittleEndian
	if data[0] == 'M' {
		order = binary.BigEndian
	}
	if len(data) < 8 {
		return 1
	}
	pages, size := 0, int64(len(data))
	seen := map[int64]bool{}
	for at := int64(order.Uint32(data[4:])); at != 0 && at+2 <= size && !seen[at] && pages < maxPages; pages++ {
		seen[at] = true
		next := at + 2 + 12*int64(order.Uint16(data[at:]))
		if next+4 > size {
			return pages + 1
		}
		at = int64(order.Uint32(data[next:]))
	}
	return max(1, pages)
}

var (
	pdfPage  = regexp.MustCompile(`/Type\s*/Page[^s]`)
	pdfCount = regexp.MustCompile(`/Count\s+(\d{1,6})`)
)

// pdfPages counts the page objects that are readable without a PDF library, or believes the page tree's own count.
func pdfPages(data []byte) int {
	pages := len(pdfPage.FindAllIndex(data, maxPages))
	for _, m := range pdfCount.FindAllSubmatch(data, maxPages) {
		if n, err := strconv.Atoi(string(m[1])); err == nil {
			pages = max(pages, n)
		}
	}
	return min(max(1, pages), maxPages)
}
