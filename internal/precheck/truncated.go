package precheck

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"slices"
)

// truncated reports whether the document's end is missing. What is damaged in any other way is not.
func (d *document) truncated() bool {
	switch d.kind() {
	case PDF:
		return d.truncatedPDF()
	case JPEG:
		return d.jpeg().truncated
	case PNG:
		return d.truncatedPNG()
	case TIFF:
		return d.tiff(tiffPages).truncated
	case DOCX, XLSX, PPTX:
		return !bytes.Contains(d.at(max(0, d.size-tailBytes), tailBytes), []byte("PK\x05\x06"))
	case BMP:
		return d.truncatedBMP()
	case WEBP:
		head := d.at(0, 8)
		return len(head) == 8 && 8+int64(binary.LittleEndian.Uint32(head[4:])) > d.size
	case GIF, HEIF, HTML, Unknown: // readers of GIF do not miss its end, and of the others nothing says how long they are
	}
	return false
}

// truncatedBMP holds the size of the pixels against that of the file, where they are not compressed. The last row need not be padded.
func (d *document) truncatedBMP() bool {
	head := d.at(0, 34)
	if len(head) < 34 || binary.LittleEndian.Uint32(head[14:]) < 40 || binary.LittleEndian.Uint32(head[30:]) != 0 {
		return false
	}
	width, height := int64(int32(binary.LittleEndian.Uint32(head[18:]))), int64(int32(binary.LittleEndian.Uint32(head[22:]))) //nolint:gosec // signed
	bits := int64(binary.LittleEndian.Uint16(head[28:]))
	const padding = 4
	row := (width*bits + 8*padding - 1) / (8 * padding) * padding
	return width > 0 && bits > 0 && int64(binary.LittleEndian.Uint32(head[10:]))+row*max(height, -height)-padding > d.size
}

const (
	pngSignature = "\x89PNG\r\n\x1a\n"
	// mostPieces bounds how many chunks of a PNG and segments of a JPEG are stepped over. No real image has as many.
	mostPieces = 1 << 18
)

// truncatedPNG steps from chunk to chunk.
func (d *document) truncatedPNG() bool {
	off := int64(len(pngSignature))
	for range mostPieces {
		head := d.at(off, 8)
		if len(head) < 8 {
			return true
		}
		name := string(head[4:])
		if !letters(name) {
			return false // damaged, which is something else
		}
		end := off + 8 + int64(binary.BigEndian.Uint32(head)) + 4
		if name == "IEND" { // nobody needs its checksum
			return false
		}
		if end > d.size {
			return true
		}
		off = end
	}
	return false
}

func letters(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// jpegSegments is what the markers of a JPEG tell.
type jpegSegments struct {
	width, height int // 0: not known
	truncated     bool
}

// jpeg reads the segments up to the first scan, which may hold pictures of their own with an end of their own, and looks for the end of the
// image behind it.
func (d *document) jpeg() jpegSegments {
	if d.segments == nil {
		s := d.readJPEG()
		d.segments = &s
	}
	return *d.segments
}

func (d *document) readJPEG() (s jpegSegments) {
	off := int64(2)
	for range mostPieces {
		head := d.at(off, 9)
		if len(head) < 4 {
			s.truncated = true
			return s
		}
		marker := head[1]
		switch {
		case head[0] != 0xFF:
			return s // damaged
		case marker == 0xFF: // padding
			off++
			continue
		case marker == 0x01 || 0xD0 <= marker && marker <= 0xD7: // they stand alone
			off += 2
			continue
		case marker == 0xD9:
			return s // an end without an image; somebody else's problem
		case marker == 0xDA:
			s.truncated = !d.contains(off+2, []byte{0xFF, 0xD9})
			return s
		case 0xC0 <= marker && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC && len(head) == 9:
			s.height, s.width = int(binary.BigEndian.Uint16(head[5:])), int(binary.BigEndian.Uint16(head[7:]))
		}
		length := int64(binary.BigEndian.Uint16(head[2:]))
		if length < 2 {
			return s
		}
		if off += 2 + length; off > d.size {
			s.truncated = true
			return s
		}
	}
	return s
}

// searchBytes is how much is searched at once.
const searchBytes = 256 << 10

// contains reports whether the mark stands anywhere behind an offset. It looks from the end, where it usually is.
func (d *document) contains(from int64, mark []byte) bool {
	return d.lastIndex(from, mark) >= 0
}

// lastIndex is the last place of the mark at or behind an offset; -1: there is none.
func (d *document) lastIndex(from int64, mark []byte) int64 {
	for end := d.size; end > from; {
		start := max(from, end-searchBytes)
		part := d.at(start, int(min(end-start+int64(len(mark))-1, d.size-start)))
		if part == nil {
			return -1
		}
		if i := bytes.LastIndex(part, mark); i >= 0 {
			return start + int64(i)
		}
		end = start
	}
	return -1
}

// truncatedPDF: a PDF is read from its end, where it says how to find everything else. Readers mend a file that is cut within that end, since all
// pages are there. Where there is no end, or where pages follow the last one, as in the beginning of a file that was changed or laid out for the
// web, something is lost.
func (d *document) truncatedPDF() bool {
	lost := int64(0) // from here on there may be pages without an end
	if end := d.lastIndex(0, []byte("startxref")); end >= 0 {
		lost = d.lastIndex(end, []byte("%%EOF"))
		if lost < 0 || !d.matches(lost, object, "obj") {
			return false
		}
	}
	return !d.matches(lost, closing, "trailer", "XRef", "xref")
}

// object is how an object begins. A space and "obj" alone may stand in a text that somebody has put behind a document.
var object = regexp.MustCompile(`[0-9][ \t\r\n]+[0-9]{1,5}[ \t\r\n]+obj[^A-Za-z0-9]`)

// closing is where the end of a PDF begins: a table or a stream that says where all objects are, which stand before it.
var closing = regexp.MustCompile(`trailer|/XRef[^A-Za-z]|[^A-Za-z]xref[ \t\r\n]+[0-9]+[ \t]+[0-9]`)

// matches reports whether a pattern, for some dozens of bytes, matches anywhere behind an offset. One of the words is in all that matches: to look for
// them first takes a hundredth of the time.
func (d *document) matches(from int64, pattern *regexp.Regexp, words ...string) bool {
	const overlap = 64
	for ; from < d.size; from += searchBytes {
		part := d.at(from, searchBytes+overlap)
		if part == nil {
			return false
		}
		has := func(word string) bool { return bytes.Contains(part, []byte(word)) }
		if slices.ContainsFunc(words, has) && pattern.Match(part) {
			return true
		}
	}
	return false
}

// parseInteger reads the digits at the beginning, and returns how many there are; a number too large for a file counts as 0.
func parseInteger(text []byte) (n int64, digits int) {
	for digits < len(text) && '0' <= text[digits] && text[digits] <= '9' {
		if digits == 18 {
			return 0, digits
		}
		n = n*10 + int64(text[digits]-'0')
		digits++
	}
	return n, digits
}
