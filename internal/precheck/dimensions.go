package precheck

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/gif"
	"io"

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"
)

// dimensions are the width and height of an image in pixels, out of its headers alone; of several pages those of the largest. 0: not known.
func (d *document) dimensions() (width, height int) {
	switch d.kind() {
	case JPEG:
		s := d.jpeg()
		return s.width, s.height
	case PNG:
		head := d.at(0, 24)
		if len(head) < 24 || !bytes.Equal(head[12:16], []byte("IHDR")) {
			return 0, 0
		}
		w, h := binary.BigEndian.Uint32(head[16:]), binary.BigEndian.Uint32(head[20:])
		if w > 1<<30 || h > 1<<30 {
			return 0, 0
		}
		return int(w), int(h)
	case TIFF:
		for _, p := range d.tiff(tiffPages).pages {
			if int64(p.width)*int64(p.height) > int64(width)*int64(height) {
				width, height = p.width, p.height
			}
		}
		return width, height
	case BMP:
		return d.config(bmp.DecodeConfig)
	case WEBP:
		return d.config(webp.DecodeConfig)
	case GIF:
		return d.config(gif.DecodeConfig)
	case PDF, HEIF, HTML, DOCX, XLSX, PPTX, Unknown:
	}
	return 0, 0
}

func (d *document) config(decode func(io.Reader) (image.Config, error)) (width, height int) {
	c, err := decode(d.section(0, headBytes))
	if err != nil {
		return 0, 0
	}
	return c.Width, c.Height
}
