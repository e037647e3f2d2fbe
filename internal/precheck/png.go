package precheck

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
)

// pngHeader is what the beginning of a PNG says.
type pngHeader struct {
	width, height  int
	depth, colours byte
}

// channels is the number of values of a pixel as they are stored; 0: there is no such kind of PNG.
func (h pngHeader) channels() int {
	switch h.colours {
	case 0, 3: // grey, or an index into a palette
		return 1
	case 2:
		return 3
	case 4:
		return 2
	case 6:
		return 4
	}
	return 0
}

// blankPNG reads the image row by row and stops at the first ink, which on most pages comes early. Interlaced images are left alone.
func (d *document) blankPNG() bool {
	head := d.at(0, 33)
	if len(head) < 33 || string(head[12:16]) != "IHDR" {
		return false
	}
	h := pngHeader{depth: head[24], colours: head[25]}
	h.width, h.height = d.dimensions()
	ok := inReach(h.width, h.height)
	if !ok || head[26] != 0 || head[27] != 0 || head[28] != 0 || h.channels() == 0 {
		return false
	}
	switch h.depth {
	case 1, 2, 4:
		ok = h.channels() == 1
	case 8:
	default: // scanners put 10 or 12 bits into 16, of which the upper 8 show nothing
		ok = false
	}
	if !ok {
		return false
	}
	chunks := &pngChunks{d: d, off: int64(len(pngSignature))}
	if !chunks.next() {
		return false
	}
	z, err := zlib.NewReader(chunks)
	if err != nil {
		return false
	}
	// Entries of a palette may be any colours: only one and the same index all over is surely blank.
	return blankRows(h, z, h.colours == 3)
}

// inReach reports whether an image is of a size that can be looked at.
func inReach(width, height int) bool {
	return width > 0 && height > 0 && width <= mostSide && height <= mostSide && width*height <= mostPixels
}

// blankRows reads rows of samples as PNG stores them and reports whether there is nothing on them.
func blankRows(h pngHeader, from io.Reader, exact bool) bool {
	bits := int(h.depth) * h.channels()
	length := (h.width*bits + 7) / 8
	pixel := max(1, bits/8)
	current, previous := make([]byte, length+1), make([]byte, length+1)
	k := newInk(h.width, h.height, h.channels())
	samples := make([]byte, h.width*h.channels())
	var first []byte
	for range h.height {
		if _, err := io.ReadFull(from, current); err != nil {
			return false
		}
		if !unfilter(current[0], current[1:], previous[1:], pixel) {
			return false
		}
		h.unpack(samples, current[1:])
		if exact {
			if first == nil {
				first = bytes.Repeat(samples[:1], len(samples))
			}
			if !bytes.Equal(samples, first) {
				return false
			}
		} else if k.add(samples) {
			return false
		}
		current, previous = previous, current
	}
	return true
}

// unpack makes one byte of each sample. Palette indices stay what they are.
func (h pngHeader) unpack(to, row []byte) {
	switch h.depth {
	case 8:
		copy(to, row)
	default:
		mask := byte(1)<<h.depth - 1
		most := mask
		if h.colours == 3 {
			most = 255
		}
		perByte := 8 / int(h.depth)
		for i := range to {
			shift := 8 - int(h.depth)*(i%perByte+1)
			to[i] = row[i/perByte] >> shift & mask * (255 / most)
		}
	}
}

// pngChunks reads the image data of a PNG, which comes in chunks.
type pngChunks struct {
	d    *document
	off  int64 // of the next chunk
	left io.Reader
}

// next goes to the next chunk of image data.
func (c *pngChunks) next() bool {
	for range mostPieces {
		head := c.d.at(c.off, 8)
		if len(head) < 8 {
			return false
		}
		length := int64(binary.BigEndian.Uint32(head))
		at := c.off + 8
		c.off = at + length + 4
		switch string(head[4:]) {
		case "IDAT":
			c.left = c.d.section(at, length)
			return true
		case "tRNS": // some colour is see-through: what is on the page depends on what is under it
			return false
		}
	}
	return false
}

func (c *pngChunks) Read(p []byte) (int, error) {
	for {
		n, err := c.left.Read(p)
		if n > 0 || err != nil && err != io.EOF {
			return n, err
		}
		if !c.next() {
			return 0, io.EOF
		}
	}
}

// unfilter undoes the filter of a row of a PNG, given the row above it and the bytes of a pixel; false: there is no such filter.
func unfilter(filter byte, row, above []byte, pixel int) bool {
	switch filter {
	case 0:
	case 1:
		for i := pixel; i < len(row); i++ {
			row[i] += row[i-pixel]
		}
	case 2:
		for i := range row {
			row[i] += above[i]
		}
	case 3:
		for i := range row {
			left := 0
			if i >= pixel {
				left = int(row[i-pixel])
			}
			row[i] += byte((left + int(above[i])) / 2) //nolint:gosec // The mean of two bytes is one.
		}
	case 4:
		for i := range row {
			left, corner := 0, 0
			if i >= pixel {
				left, corner = int(row[i-pixel]), int(above[i-pixel])
			}
			row[i] += byte(paeth(left, int(above[i]), corner)) //nolint:gosec // It is one of the three bytes.
		}
	default:
		return false
	}
	return true
}

// paeth is the neighbour that is nearest to left + above - corner.
func paeth(left, above, corner int) int {
	dl, da := above-corner, left-corner
	dc := dl + da
	dl, da, dc = max(dl, -dl), max(da, -da), max(dc, -dc)
	switch {
	case dl <= da && dl <= dc:
		return left
	case da <= dc:
		return above
	}
	return corner
}
