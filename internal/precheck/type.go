package precheck

import (
	"bytes"
	"encoding/binary"
	"regexp"
)

// Type is what a document is by its content.
type Type uint8

// The types. Unknown is everything else, such as a text, an archive or a program.
const (
	Unknown Type = iota
	PDF
	PNG
	JPEG
	TIFF
	BMP
	WEBP
	HEIF
	GIF
	HTML
	DOCX
	XLSX
	PPTX
)

// String is the usual name.
func (t Type) String() string {
	return [...]string{"an unknown type", "PDF", "PNG", "JPEG", "TIFF", "BMP", "WebP", "HEIF", "GIF", "HTML", "DOCX", "XLSX", "PPTX"}[t]
}

// article is the name as it stands in a sentence.
func (t Type) article() string {
	switch t {
	case Unknown:
		return "of no known type"
	case HTML, XLSX:
		return "an " + t.String()
	case PNG, JPEG, TIFF, BMP, WEBP, HEIF, GIF:
		return "a " + t.String() + " image"
	case PDF, DOCX, PPTX:
	}
	return "a " + t.String()
}

// sniffed is how much of the beginning and of the end is looked at.
const (
	headBytes = 4 << 10
	// pdfJunk is how far behind the beginning readers look for the header of a PDF.
	pdfJunk   = 1 << 10
	tailBytes = 66 << 10 // an archive's directory ends with a record of up to 64 KiB and 22 bytes
)

// kind is the type of the document, found once.
func (d *document) kind() Type {
	if d.sniffed == nil {
		t := d.sniff(d.at(0, headBytes))
		d.sniffed = &t
	}
	return *d.sniffed
}

func (d *document) sniff(head []byte) Type {
	has := func(prefix string) bool { return bytes.HasPrefix(head, []byte(prefix)) }
	switch {
	case has("\xFF\xD8\xFF"):
		return JPEG
	case has(pngSignature):
		return PNG
	case has("II*\x00"), has("MM\x00*"), has("II+\x00"), has("MM\x00+"):
		return TIFF
	case has("GIF87a"), has("GIF89a"):
		return GIF
	case has("RIFF") && len(head) >= 12 && string(head[8:12]) == "WEBP":
		return WEBP
	case has("BM") && len(head) >= 26 && isBMP(head):
		return BMP
	case len(head) >= 12 && string(head[4:8]) == "ftyp" && isHEIF(head):
		return HEIF
	case has("PK\x03\x04"):
		return d.office(head)
	case bytes.Contains(head[:min(len(head), pdfJunk)], []byte("%PDF-")):
		return PDF
	case isHTML(head):
		return HTML
	}
	return Unknown
}

// isBMP looks at the size of the second header, of which there are few, since two letters would be too little to go by.
func isBMP(head []byte) bool {
	switch binary.LittleEndian.Uint32(head[14:]) {
	case 12, 16, 40, 52, 56, 64, 108, 124:
		return true
	}
	return false
}

// isHEIF looks for one of the brands of still images, major or compatible.
func isHEIF(head []byte) bool {
	size := min(int64(binary.BigEndian.Uint32(head)), int64(len(head)))
	for i := int64(8); i+4 <= size; i += 4 {
		switch string(head[i : i+4]) {
		case "heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1", "avif":
			return true
		}
	}
	return false
}

// office tells the documents of office programs from other archives by the folders that their files lie in. Names stand before each file and
// once more at the end, so that one of the two is within reach. One of which no folder tells counts as the first of them: where one is read, all are.
func (d *document) office(head []byte) Type {
	tail := d.at(max(0, d.size-tailBytes), tailBytes)
	for _, f := range [...]struct {
		folder string
		is     Type
	}{{"word/", DOCX}, {"xl/", XLSX}, {"ppt/", PPTX}} {
		if bytes.Contains(head, []byte(f.folder)) || bytes.Contains(tail, []byte(f.folder)) {
			return f.is
		}
	}
	const catalogue = "[Content_Types].xml" // of all such documents, which may keep their parts in any folder
	if bytes.Contains(head, []byte(catalogue)) || bytes.Contains(tail, []byte(catalogue)) {
		return DOCX
	}
	return Unknown
}

// isHTML takes any text for HTML that has something like a tag near its beginning: what a browser makes of it is up to the provider. A text in UTF-16
// is taken without its zeros, which is enough to see its tags.
func isHTML(head []byte) bool {
	text := bytes.TrimPrefix(head, []byte("\xEF\xBB\xBF"))
	wide := bytes.HasPrefix(text, []byte("\xFF\xFE")) || bytes.HasPrefix(text, []byte("\xFE\xFF"))
	if zeros := bytes.Count(text, []byte{0}); wide || zeros > len(text)/3 && zeros <= (len(text)+1)/2 {
		text = bytes.ReplaceAll(text, []byte{0}, nil)
	}
	return bytes.IndexByte(text, 0) < 0 && tag.Match(text)
}

// tag is the beginning of a tag, a comment or a declaration.
var tag = regexp.MustCompile(`<[A-Za-z/!?]`)
