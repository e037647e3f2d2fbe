package precheck

import (
	"compress/zlib"
	"image"
	"image/color"
	"image/jpeg"
	"io"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/sync/semaphore"
)

const (
	// mostPixels and mostSide bound the images that are looked at for ink: a page of A4 with 600 dots an inch is one of them.
	mostPixels = 40_000_000
	mostSide   = 20_000
	// mostDecoded is the memory of all images together that are decoded at one time, in bytes, beside those that are read row by row.
	mostDecoded = 256 << 20
	// denseJPEG is how many bytes a pixel of a JPEG takes where there is surely something on it. Of white paper it takes less than half.
	denseJPEG = 0.04
)

// decoding shares the memory for decoded images out among all documents that are looked at.
var decoding = semaphore.NewWeighted(mostDecoded) //nolint:gochecknoglobals // The memory that it bounds is the process's.

// blank reports whether there is surely nothing on the document.
func (d *document) blank() bool {
	switch d.kind() {
	case PNG:
		return d.blankPNG()
	case JPEG:
		s := d.jpeg()
		return d.blankJPEG(0, d.size, s.width, s.height)
	case TIFF:
		f := d.tiff(2)
		if len(f.pages) != 1 {
			return false
		}
		source := func() io.Reader { return io.NewSectionReader(&checked{d}, 0, d.size) }
		c, err := tiff.DecodeConfig(source())
		if err != nil || c.Width != f.pages[0].width || c.Height != f.pages[0].height {
			return false
		}
		return d.blankDecoded(c.Width, c.Height, 16, func() (image.Image, error) { return tiff.Decode(source()) })
	case BMP:
		width, height := d.dimensions()
		return d.blankDecoded(width, height, 4, func() (image.Image, error) { return bmp.Decode(d.section(0, d.size)) })
	case PDF:
		return d.pdf() != nil && d.pdf().blank()
	case GIF, WEBP, HEIF, HTML, DOCX, XLSX, PPTX, Unknown:
	}
	return false
}

// checked is the document as a source that fails once the time is over.
type checked struct{ d *document }

func (c *checked) ReadAt(p []byte, off int64) (int, error) {
	if c.d.late() {
		return 0, c.d.ctx.Err()
	}
	return c.d.from.ReadAt(p, off)
}

// blankJPEG decodes the image only if it is so small for its pixels that there may be nothing on it. Whoever calls says how large it should be, out
// of a PDF or the segments; the decoder takes memory for what it reads itself, and so it is asked first.
func (d *document) blankJPEG(off, size int64, width, height int) bool {
	if float64(size) > 2048+denseJPEG*float64(width)*float64(height) {
		return false
	}
	c, err := jpeg.DecodeConfig(d.section(off, size))
	if err != nil || c.Width != width || c.Height != height {
		return false
	}
	channels := int64(3)
	switch c.ColorModel {
	case color.GrayModel:
		channels = 1
	case color.CMYKModel, color.RGBAModel: // the picture is held a second time in these colours
		channels = 5
	}
	// A JPEG that comes in several scans is held as coefficients of four bytes, and as the picture.
	return d.blankDecoded(width, height, 5*channels, func() (image.Image, error) { return jpeg.Decode(d.section(off, size)) })
}

// blankDecoded looks at a decoded image. The width and the height are those that the decoder will find, and the bytes of a pixel are what it holds of
// it at most.
func (d *document) blankDecoded(width, height int, bytesOfPixel int64, decode func() (image.Image, error)) bool {
	memory := int64(width) * int64(height) * bytesOfPixel
	if !inReach(width, height) || memory > mostDecoded || decoding.Acquire(d.ctx, memory) != nil {
		return false
	}
	defer decoding.Release(memory)
	img, err := decode()
	if err != nil || img.Bounds().Dx() != width || img.Bounds().Dy() != height {
		return false
	}
	switch img.(type) {
	case *image.Gray16, *image.RGBA64, *image.NRGBA64:
		return false // as in a PNG
	}
	return blankImage(img)
}

// blankImage reports whether there is nothing on an image. Each channel is looked at by itself, and so is what is see-through: black text on
// nothing is text.
func blankImage(img image.Image) bool {
	b := img.Bounds()
	rows := func(channels int, row func(y int, to []byte)) bool {
		k := newInk(b.Dx(), b.Dy(), channels)
		line := make([]byte, b.Dx()*channels)
		for y := range b.Dy() {
			row(y, line)
			if k.add(line) {
				return false
			}
		}
		return true
	}
	switch m := img.(type) {
	case *image.Gray:
		return rows(1, func(y int, to []byte) { copy(to, m.Pix[y*m.Stride:]) })
	case *image.YCbCr:
		if !rows(1, func(y int, to []byte) { copy(to, m.Y[y*m.YStride:]) }) {
			return false
		}
		return flat(m.Cb) && flat(m.Cr)
	}
	return rows(4, func(y int, to []byte) {
		for x := range b.Dx() {
			c := color.RGBAModel.Convert(img.At(b.Min.X+x, b.Min.Y+y)).(color.RGBA)
			to[4*x], to[4*x+1], to[4*x+2], to[4*x+3] = c.R, c.G, c.B, c.A
		}
	})
}

// flat reports whether no value of a channel of colour is far from another.
func flat(values []byte) bool {
	if len(values) == 0 {
		return true
	}
	least, most := values[0], values[0]
	for _, v := range values {
		least, most = min(least, v), max(most, v)
	}
	return most-least <= mostContrast/2
}

// mostBlankPages bounds the pages of a PDF that are looked at for ink: a longer one has some.
const mostBlankPages = 16

// blank reports whether every page is empty, or is one image with nothing on it. Anything else on a page is something.
func (p *pdf) blank() bool {
	if p.encrypted() {
		return false
	}
	catalog, ok := p.dict(p.trailer["Root"])
	root, ok2 := p.root()
	// A portfolio is about the documents that it carries, whatever its cover shows.
	if !ok || !ok2 || catalog["AcroForm"] != nil || catalog["Collection"] != nil {
		return false
	}
	n, all := 0, true
	whole := p.walk(root, func(page pdfDict) bool {
		n++
		all = n <= mostBlankPages && p.blankPage(page)
		return all
	})
	return whole && all && n > 0
}

func (p *pdf) blankPage(page pdfDict) bool {
	if page["Annots"] != nil || page["Type"] != pdfName("Page") {
		return false
	}
	content, ok := p.content(page["Contents"])
	if !ok {
		return false
	}
	image, ok := onlyImage(content)
	if !ok || image == "" {
		return ok
	}
	resources, ok1 := p.dict(page["Resources"])
	objects, ok2 := p.dict(resources["XObject"])
	object, raw, ok3 := p.stream(objects[image])
	dict, isDict := object.(pdfDict)
	return ok1 && ok2 && ok3 && isDict && p.blankXObject(dict, raw)
}

// mostContent bounds the text of a page that may be nothing: one that shows a single image needs a line.
const mostContent = 4 << 10

// content is the text that draws a page.
func (p *pdf) content(object any) ([]byte, bool) {
	value, raw, ok := p.stream(object)
	if !ok {
		return nil, false
	}
	switch v := value.(type) {
	case nil:
		return nil, true
	case pdfDict:
		return p.inflate(v, raw, mostContent)
	case pdfArray:
		var all []byte
		for _, item := range v {
			if _, isRef := item.(pdfRef); !isRef {
				return nil, false
			}
			part, ok := p.content(item)
			if !ok || len(all) > mostContent {
				return nil, false
			}
			all = append(append(all, part...), '\n')
		}
		return all, true
	}
	return nil, false
}

// onlyImage is the name of the only thing that the text of a page draws; "": it draws nothing; false: it may draw something else.
func onlyImage(content []byte) (name pdfName, ok bool) {
	t := pdfText{text: content}
	var last any
	for {
		if t.space(); t.pos >= len(t.text) {
			return name, true
		}
		object, ok := t.object(0)
		if !ok {
			return "", false
		}
		word, isWord := object.(pdfWord)
		if !isWord {
			last = object
			continue
		}
		switch word {
		case "q", "Q", "cm", "gs", "w", "J", "j", "M", "d", "ri", "i", "cs", "CS": // they change how things are drawn
		case "Do":
			what, isName := last.(pdfName)
			if !isName || name != "" {
				return "", false
			}
			name = what
		default:
			return "", false
		}
	}
}

// blankXObject looks at an image of a PDF: a JPEG, or plain samples of grey or of three colours.
func (p *pdf) blankXObject(dict pdfDict, raw int64) bool {
	width, _ := dict["Width"].(int64)
	height, _ := dict["Height"].(int64)
	if dict["Subtype"] != pdfName("Image") || dict["SMask"] != nil || dict["Mask"] != nil || dict["ImageMask"] == true || dict["Decode"] != nil {
		return false
	}
	body, length, ok := p.body(dict, raw)
	filter, parms, ok2 := p.filter(dict)
	if !ok || !ok2 || width > mostSide || height > mostSide || !inReach(int(width), int(height)) {
		return false
	}
	switch filter {
	case "DCTDecode", "DCT":
		return p.d.blankJPEG(raw, length, int(width), int(height))
	case "FlateDecode", "Fl":
	default:
		return false
	}
	space, ok := p.resolve(dict["ColorSpace"])
	h := pngHeader{width: int(width), height: int(height)}
	switch space {
	case pdfName("DeviceGray"):
	case pdfName("DeviceRGB"):
		h.colours = 2
	default:
		return false
	}
	bits, _ := dict["BitsPerComponent"].(int64)
	if !ok || bits != 8 && (bits != 1 || h.colours != 0) {
		return false
	}
	h.depth = byte(bits)
	z, err := zlib.NewReader(body)
	if err != nil {
		return false
	}
	predictor, _ := parms["Predictor"].(int64)
	if predictor > 1 {
		columns, _ := parms["Columns"].(int64)
		return predictor >= 10 && columns == width && blankRows(h, z, false)
	}
	return blankRows(h, &prefixed{from: z, length: (h.width*h.channels()*int(bits) + 7) / 8}, false)
}

// prefixed puts before each row the byte with which a PNG says that it is not filtered.
type prefixed struct {
	from   io.Reader
	length int
	left   int
}

func (r *prefixed) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.left == 0 {
		r.left = r.length
		p[0] = 0
		return 1, nil
	}
	n, err := r.from.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}
