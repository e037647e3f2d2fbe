package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"
)

// Engine reads documents. It is safe for concurrent use. Errors that wrap ErrUnsupported or ErrBroken are the document's
// fault; all others are the engine's and become server errors.
type Engine interface {
	Read(ctx context.Context, doc Document) ([]Page, error)
}

// Page is one page as it was read.
type Page struct {
	// Width and Height are in pixels and positive.
	Width, Height int
	Lines         []Line
}

// Line is one line of text with at least one word.
type Line struct {
	Words []Word
}

// Word is one word with its place on the page.
type Word struct {
	Text string
	Box  Box
	// Confidence is from 0 to 1.
	Confidence float64
}

// Box is a rectangle in shares of the page's width and height, each from 0 to 1, seen from the top left.
type Box struct {
	Left, Top, Width, Height float64
}

// union returns the smallest box around both.
func (b Box) union(o Box) Box {
	left, top := min(b.Left, o.Left), min(b.Top, o.Top)
	return Box{
		Left: left, Top: top,
		Width:  max(b.Left+b.Width, o.Left+o.Width) - left,
		Height: max(b.Top+b.Height, o.Top+o.Height) - top,
	}
}

// corners returns the box as x, y pairs, clockwise from the top left, multiplied by the size of the page.
func (b Box) corners(width, height float64) [4][2]float64 {
	l, t, r, m := b.Left*width, b.Top*height, (b.Left+b.Width)*width, (b.Top+b.Height)*height
	return [4][2]float64{{l, t}, {r, t}, {r, m}, {l, m}}
}

// text joins the words of the line.
func (l Line) text() string { return joinWords(l.Words) }

func (l Line) box() Box { return boxOf(l.Words) }

func (l Line) confidence() float64 { return meanConfidence(l.Words) }

// pair splits a line of the form "label: value" into its words.
func (l Line) pair() (label, value []Word, ok bool) {
	for i, w := range l.Words {
		if strings.HasSuffix(w.Text, ":") && i+1 < len(l.Words) {
			return l.Words[:i+1], l.Words[i+1:], true
		}
	}
	return nil, nil, false
}

func (p Page) words() []Word {
	var words []Word
	for _, l := range p.Lines {
		words = append(words, l.Words...)
	}
	return words
}

func joinWords(words []Word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.Text
	}
	return strings.Join(texts, " ")
}

func boxOf(words []Word) Box {
	box := words[0].Box
	for _, w := range words[1:] {
		box = box.union(w.Box)
	}
	return box
}

// meanConfidence is 0 for no words.
func meanConfidence(words []Word) float64 {
	if len(words) == 0 {
		return 0
	}
	sum := 0.0
	for _, w := range words {
		sum += w.Confidence
	}
	return sum / float64(len(words))
}

// Canned is the engine that reads nothing: its answer says that it is simulated and tells the document's format, size and
// digest. Its confidences lie around 0.99. The zero value is ready.
type Canned struct{}

// Read returns as many pages as doc has. It never fails.
func (Canned) Read(_ context.Context, doc Document) ([]Page, error) {
	pages := make([]Page, 0, doc.Pages)
	for n := range doc.Pages {
		page := Page{Width: doc.Width, Height: doc.Height}
		if page.Width == 0 || page.Height == 0 {
			page.Width, page.Height = 1700, 2200 // US letter at 200 dpi.
		}
		texts := []string{"This is a simulated answer; the document was not read."}
		if doc.Reference != "" {
			texts = append(texts, "Source: "+doc.Reference)
		} else {
			sum := sha256.Sum256(doc.Data)
			texts = append(texts, "Format: "+string(doc.Format), fmt.Sprintf("Bytes: %d", len(doc.Data)),
				"Digest: "+hex.EncodeToString(sum[:6]))
		}
		texts = append(texts, fmt.Sprintf("Page: %d of %d", n+1, doc.Pages))
		for i, text := range texts {
			page.Lines = append(page.Lines, cannedLine(text, 0.05+0.05*float64(i)))
		}
		pages = append(pages, page)
	}
	return pages, nil
}

// cannedLine lays the words of text out from the left margin, narrower where they would not fit.
func cannedLine(text string, top float64) Line {
	const margin = 0.08
	advance := min(0.014, (1-2*margin)/float64(utf8.RuneCountInString(text)))
	var line Line
	column := 0
	for i, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(word)
		line.Words = append(line.Words, Word{
			Text:       word,
			Box:        Box{Left: margin + advance*float64(column), Top: top, Width: advance * float64(width), Height: 0.02},
			Confidence: 0.985 + 0.001*float64((i*7)%11),
		})
		column += width + 1
	}
	return line
}

// scanner stands between the protocols and the engine: it refuses what no provider would read.
type scanner struct {
	engine Engine
	slots  chan struct{} // Bounds how many images are decoded at once, each may take hundreds of MB.
}

func newScanner(e Engine) *scanner {
	return &scanner{engine: e, slots: make(chan struct{}, runtime.NumCPU())}
}

// scan reads a document that came in the request.
func (s *scanner) scan(ctx context.Context, data []byte) (Document, []Page, error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return Document{}, nil, ctx.Err()
	}
	doc, err := inspect(data)
	<-s.slots
	if err != nil {
		return doc, nil, err
	}
	pages, err := s.engine.Read(ctx, doc)
	return doc, pages, err
}

// reference answers for a document that the request only points at. Nothing is fetched, so nothing can be read.
func (s *scanner) reference(ctx context.Context, where string) (Document, []Page, error) {
	doc := Document{Reference: strings.Join(strings.Fields(where), "%20"), Pages: 1}
	pages, err := Canned{}.Read(ctx, doc)
	return doc, pages, err
}

// documentsFault reports whether err is about the document and not about the engine.
func documentsFault(err error) bool {
	return errors.Is(err, ErrUnsupported) || errors.Is(err, ErrBroken)
}
