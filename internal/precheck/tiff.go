package precheck

import "encoding/binary"

// tiffPages bounds how many directories are walked when nobody counts them.
const tiffPages = 4096

// tiffPage is one directory of a TIFF.
type tiffPage struct {
	width, height int
	part          bool // it is a smaller picture of another one, or its mask, and no page of its own
}

// tiffFile is what the directories of a TIFF tell.
type tiffFile struct {
	pages     []tiffPage
	truncated bool
}

// The tags that are looked at, and the kinds of numbers.
const (
	tiffSubfile     = 254
	tiffOldSubfile  = 255
	tiffWidth       = 256
	tiffHeight      = 257
	tiffStrips      = 273
	tiffStripCounts = 279
	tiffTiles       = 324
	tiffTileCounts  = 325

	tiffShort = 3
	tiffLong  = 4
)

// tiff walks at most that many directories. The form with 64-bit offsets is rare and not looked into.
func (d *document) tiff(most int) (f tiffFile) {
	head := d.at(0, 8)
	if len(head) < 8 {
		f.truncated = d.size < 8
		return f
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[0] == 'M' {
		order = binary.BigEndian
	}
	if order.Uint16(head[2:]) != 42 {
		return f
	}
	seen := map[int64]bool{}
	for off := int64(order.Uint32(head[4:])); off != 0 && len(f.pages) < most && !seen[off]; {
		seen[off] = true
		count := d.at(off, 2)
		if len(count) < 2 {
			f.truncated = true
			return f
		}
		n := int(order.Uint16(count))
		entries := d.at(off+2, n*12+4)
		if len(entries) < n*12 {
			f.truncated = true
			return f
		}
		page, whole := d.tiffPage(order, entries[:n*12])
		f.pages = append(f.pages, page)
		if !whole {
			f.truncated = true
			return f
		}
		if len(entries) < n*12+4 {
			return f // some writers leave out that nothing follows
		}
		off = int64(order.Uint32(entries[n*12:]))
	}
	return f
}

// tiffPage reads one directory; false: the pixels that it leads to lie beyond the end of the file.
func (d *document) tiffPage(order binary.ByteOrder, entries []byte) (page tiffPage, whole bool) {
	var at, counts []int64
	for ; len(entries) >= 12; entries = entries[12:] {
		tag := order.Uint16(entries)
		switch tag {
		case tiffSubfile, tiffOldSubfile, tiffWidth, tiffHeight, tiffStrips, tiffStripCounts, tiffTiles, tiffTileCounts:
		default:
			continue
		}
		values, inside := d.tiffNumbers(order, entries[:12])
		if !inside {
			return page, false
		}
		switch {
		case len(values) == 0:
		case tag == tiffSubfile:
			const smaller, mask = 1, 4
			page.part = page.part || values[0]&(smaller|mask) != 0
		case tag == tiffOldSubfile:
			const smaller = 2
			page.part = page.part || values[0] == smaller
		case tag == tiffWidth:
			page.width = int(values[0])
		case tag == tiffHeight:
			page.height = int(values[0])
		case tag == tiffStrips || tag == tiffTiles:
			at = values
		default:
			counts = values
		}
	}
	const widest = 8 // bytes of a pixel: four channels of 16 bits
	reason := int64(page.width)*int64(page.height)*widest + 64<<10
	for i, off := range at {
		if off == 0 {
			continue // a hole, which some writers leave
		}
		if off >= d.size {
			return page, false
		}
		// A count beyond what the image can have is a known mistake that readers mend.
		if i < len(counts) && counts[i] <= reason && off+counts[i] > d.size+1 {
			return page, false
		}
	}
	return page, true
}

// mostTIFFNumbers bounds the strips of one page that are looked at.
const mostTIFFNumbers = 1 << 16

// tiffNumbers reads the values of an entry; false: they lie beyond the end.
func (d *document) tiffNumbers(order binary.ByteOrder, entry []byte) (values []int64, inside bool) {
	width := 2
	switch order.Uint16(entry[2:]) {
	case tiffShort:
	case tiffLong:
		width = 4
	default:
		return nil, true
	}
	n := int(min(int64(order.Uint32(entry[4:])), mostTIFFNumbers))
	data := entry[8:12]
	if n*width > 4 {
		data = d.at(int64(order.Uint32(data)), n*width)
		if len(data) < n*width {
			return nil, false
		}
	}
	for i := range n {
		if width == 2 {
			values = append(values, int64(order.Uint16(data[2*i:])))
		} else {
			values = append(values, int64(order.Uint32(data[4*i:])))
		}
	}
	return values, true
}
