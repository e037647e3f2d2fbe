package main

import (
	"context"
	"regexp"
	"sync"

	"github.com/ocr-proxy/ocr-proxy/internal/sim"
)

// named finds the names of documents: in a document, in a request that points at one, and in an answer.
func named() *regexp.Regexp { return regexp.MustCompile(`soak[0-9a-z]{8}`) }

// head is within how many bytes a document says its name.
const head = 512

// reader is the engine behind the simulated providers. To read a document is to bill it: it is written down first, then it is told in the answer
// whose document it was.
type reader struct {
	journal *journal
	name    *regexp.Regexp
}

func (r reader) Read(ctx context.Context, doc sim.Document) ([]sim.Page, error) {
	pages, err := sim.Canned{}.Read(ctx, doc)
	if err != nil {
		return nil, err
	}
	id := string(r.name.Find(doc.Data[:min(len(doc.Data), head)]))
	if c, ok := ctx.Value(callKey{}).(*served); ok && id != "" {
		c.worked(id)
	}
	line := sim.Line{Words: []sim.Word{
		{Text: "document", Box: sim.Box{Left: 0.1, Top: 0.5, Width: 0.2, Height: 0.02}, Confidence: 0.99},
		{Text: id, Box: sim.Box{Left: 0.4, Top: 0.5, Width: 0.2, Height: 0.02}, Confidence: 0.99},
	}}
	if id != "" {
		for i := range pages {
			pages[i].Lines = append(pages[i].Lines, line)
		}
	}
	return pages, nil
}

type callKey struct{}

// served is one call that the provider serves.
type served struct {
	id, account string
	journal     *journal
	mu          sync.Mutex
	documents   int
}

func (c *served) worked(document string) {
	c.journal.note("worked", c.id, c.account, document)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.documents++
}

func (c *served) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.documents > 0
}
