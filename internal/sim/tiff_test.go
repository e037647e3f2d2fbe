package sim

import (
	"encoding/binary"
	"image"
)

// tiffOf writes uncompressed 8-bit grey pages into one TIFF file; the encoder of x/image writes single pages only.
func tiffOf(pages ...*image.Gray) []byte {
	out := []byte("II*\x00\x00\x00\x00\x00")
	link := 4 // Where the offset of the next directory goes.
	for _, page := range pages {
		w, h := page.Rect.Dx(), page.Rect.Dy()
		strip := len(out)
		for y := range h {
			out = append(out, page.Pix[y*page.Stride:y*page.Stride+w]...)
		}
		if len(out)%2 == 1 {
			out = append(out, 0)
		}
		patch := binary.LittleEndian.AppendUint32(nil, uint32(len(out)))
		copy(out[link:], patch)
		entries := [][3]int{ // Tag, type (3 short, 4 long), value.
			{256, 4, w},
			{257, 4, h},
			{258, 3, 8},
			{259, 3, 1},
			{262, 3, 1},
			{273, 4, strip},
			{277, 3, 1},
			{278, 4, h},
			{279, 4, w * h},
		}
		out = append(out, byte(len(entries)), 0)
		for _, e := range entries {
			out = binary.LittleEndian.AppendUint16(out, uint16(e[0]))
			out = append(out, byte(e[1]), 0, 1, 0, 0, 0)
			out = binary.LittleEndian.AppendUint32(out, uint32(e[2]))
		}
		link = len(out)
		out = append(out, 0, 0, 0, 0)
	}
	return out
}
