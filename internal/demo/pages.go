package demo

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"math/rand/v2"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// Document is one scanned page, or what is left of one.
type Document struct {
	// Name is the file name, unique in a batch. It is also the document id that the workers send.
	Name string
	// Data is the PNG file.
	Data []byte
	// Corrupt is true for the file that breaks off in the middle.
	Corrupt bool
}

const (
	pageWidth, pageHeight = 850, 1100 // US letter at 100 dpi
	pageMargin            = 80
	titleSize, textSize   = 40, 22 // pixels
	// maxSkew is the most that a line rises or falls over its length, as a share of it.
	maxSkew = 0.012
	// speckles is how many pixels the scanner's glass soils.
	speckles = 1500
)

// Pages draws n pages of leases, invoices and letters as a scanner would deliver them: a little askew and a little dirty. The last of them
// breaks off in the middle. The same seed draws the same bytes.
func Pages(seed uint64, n int) ([]Document, error) {
	pen, err := newPen()
	if err != nil {
		return nil, err
	}
	documents := make([]Document, 0, n)
	for i := range n {
		rng := rand.New(rand.NewPCG(seed, uint64(i))) //nolint:gosec // reproducible pages, no secret
		kind, title, lines := write(rng, i)
		data, err := pen.page(rng, title, lines)
		if err != nil {
			return nil, fmt.Errorf("draw a page: %w", err)
		}
		d := Document{Name: fmt.Sprintf("%s-%02d.png", kind, i+1), Data: data}
		if i == n-1 {
			d = Document{Name: "damaged.png", Data: data[:len(data)/2], Corrupt: true}
		}
		documents = append(documents, d)
	}
	return documents, nil
}

// write makes up what stands on the i-th page.
func write(rng *rand.Rand, i int) (kind, title string, lines []string) {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	person := pick("Ada", "Grace", "Edsger", "Barbara", "Niklaus", "Frances") + " " + pick("Miller", "Novak", "Okafor", "Lindgren", "Tanaka", "Weber")
	street := fmt.Sprintf("%d %s Street", 1+rng.IntN(200), pick("Harbour", "Orchard", "Station", "Mill", "Chapel"))
	date := fmt.Sprintf("%d %s 2026", 1+rng.IntN(28), pick("January", "March", "May", "August", "October"))
	switch i % 3 {
	case 0:
		return "lease", "LEASE AGREEMENT", []string{
			fmt.Sprintf("Lease number: L-%05d", rng.IntN(100000)), "Date: " + date, "", "Tenant: " + person, "Premises: " + street,
			fmt.Sprintf("Monthly rent: %d.00", 600+rng.IntN(900)), fmt.Sprintf("Deposit: %d.00", 1200+rng.IntN(1800)), "",
			"1. The landlord lets the premises to the tenant", "for a term of twelve months from the date above.",
			"2. The rent is due on the first day of each month.", "3. The tenant keeps the premises in good repair.",
			"4. Either party may end this lease in writing", "with three months' notice.", "", "Signed by both parties.",
		}
	case 1:
		lines = []string{fmt.Sprintf("Invoice number: %06d", rng.IntN(1000000)), "Date: " + date, "Bill to: " + person, street, ""}
		total := 0
		for range 3 + rng.IntN(4) {
			n, price := 1+rng.IntN(9), 5+rng.IntN(95)
			total += n * price
			lines = append(lines, fmt.Sprintf("%d x %s at %d.00", n, pick("paper", "toner", "folders", "labels", "shelves"), price))
		}
		return "invoice", "INVOICE", append(lines, "", fmt.Sprintf("Total due: %d.00", total), "Payment within thirty days.")
	default:
		return "letter", "Dear " + person, []string{
			date, street, "", "thank you for your letter. We have looked into it", "and found that the parcel left our warehouse",
			"on the day that you named.", "", fmt.Sprintf("Your reference is %d. Please quote it", 1000+rng.IntN(9000)),
			"whenever you write to us.", "", "With kind regards,", "the Customer Service",
		}
	}
}

// pen writes with one type face in two sizes.
type pen struct{ title, text font.Face }

func newPen() (*pen, error) {
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, fmt.Errorf("read the type face: %w", err)
	}
	face := func(pixels float64) (font.Face, error) {
		return opentype.NewFace(parsed, &opentype.FaceOptions{Size: pixels, DPI: 72, Hinting: font.HintingFull})
	}
	title, err := face(titleSize)
	if err != nil {
		return nil, fmt.Errorf("read the type face: %w", err)
	}
	text, err := face(textSize)
	if err != nil {
		return nil, fmt.Errorf("read the type face: %w", err)
	}
	return &pen{title: title, text: text}, nil
}

// page draws a page and encodes it.
func (p *pen) page(rng *rand.Rand, title string, lines []string) ([]byte, error) {
	sheet := image.NewGray(image.Rect(0, 0, pageWidth, pageHeight))
	paper := uint8(236 + rng.IntN(20)) //nolint:gosec // below 256
	for i := range sheet.Pix {         // many times faster than to draw it
		sheet.Pix[i] = paper
	}
	slope := (2*rng.Float64() - 1) * maxSkew
	y := pageMargin + titleSize
	line(sheet, p.title, title, y, slope)
	y += 2 * titleSize
	for _, text := range lines {
		line(sheet, p.text, text, y, slope)
		y += textSize * 8 / 5
	}
	for range speckles {
		at := rng.IntN(len(sheet.Pix))
		sheet.Pix[at] = uint8(100 + rng.IntN(120)) //nolint:gosec // below 256
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := encoder.Encode(&out, reduce(sheet)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// reduce keeps 16 greys, as scanners do to save room.
func reduce(sheet *image.Gray) *image.Paletted {
	const greys = 16
	palette := make(color.Palette, greys)
	for i := range palette {
		palette[i] = color.Gray{Y: uint8(i * 255 / (greys - 1))}
	}
	small := image.NewPaletted(sheet.Bounds(), palette)
	for i, v := range sheet.Pix {
		small.Pix[i] = v / greys
	}
	return small
}

// line writes word by word along a slope, which looks like a sheet that was put askew on the glass and costs no turning of pixels.
func line(sheet draw.Image, face font.Face, text string, y int, slope float64) {
	drawer := font.Drawer{Dst: sheet, Src: image.NewUniform(color.Gray{Y: 25}), Face: face, Dot: fixed.P(pageMargin, y)}
	for word := range strings.SplitAfterSeq(text, " ") {
		x := float64(drawer.Dot.X.Round() - pageMargin)
		drawer.Dot.Y = fixed.I(y + int(math.Round(x*slope)))
		drawer.DrawString(word)
	}
}
