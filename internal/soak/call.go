package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

// call is one request of a worker, for one document or a batch of them.
type call struct {
	account   string
	documents []string // Their names; the first is also the request's.
	path      string
	header    http.Header
	body      []byte
	grpc      bool
	job       string // The kind whose job the call starts; empty: its answer is the document's text.
	hopeless  bool   // No provider can read it.
	patient   bool   // Its worker never hangs up.
}

// press makes calls. It is safe for concurrent use.
type press struct {
	filler []byte // Shared by all documents.
	image  []byte // A whole image.
	made   atomic.Int64
}

func newPress(seed uint64) (*press, error) {
	p := &press{filler: make([]byte, 4<<20)}
	random := rand.New(rand.NewPCG(seed, 1))
	for i := 0; i+8 <= len(p.filler); i += 8 {
		binary.LittleEndian.PutUint64(p.filler[i:], random.Uint64())
	}
	var b bytes.Buffer
	err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8)))
	p.image = b.Bytes()
	return p, err
}

// name is a new document's.
func (p *press) name() string { return fmt.Sprintf("soak%08s", base36(p.made.Add(1))) }

func base36(n int64) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	var b []byte
	for ; n > 0; n /= 36 {
		b = append([]byte{digits[n%36]}, b...)
	}
	return strings.Repeat("0", 8-len(b)) + string(b)
}

// document is a PDF of about that size, or what nobody takes for a document.
func (p *press) document(name string, size int, hopeless bool) []byte {
	format := "%PDF-1.4\n% "
	if hopeless {
		format = "This is no document. "
	}
	return append([]byte(format+name+"\n"), p.filler[:size]...)
}

func (p *press) picture(name string, size int) []byte {
	b := append(append([]byte{}, p.image...), name...)
	return append(b, p.filler[:size]...)
}

// size of a document: mostly a page, at times more than the proxy holds in memory.
func size(random *rand.Rand) int {
	switch n := random.IntN(100); {
	case n < 70:
		return 2<<10 + random.IntN(40<<10)
	case n < 93:
		return 100<<10 + random.IntN(200<<10)
	default:
		return 1200<<10 + random.IntN(2000<<10)
	}
}

// next makes one call of any shape.
func (p *press) next(random *rand.Rand) call {
	c := call{documents: []string{p.name()}, header: http.Header{}, hopeless: random.IntN(40) == 0}
	name := c.documents[0]
	text := func() string {
		return base64.StdEncoding.EncodeToString(p.document(name, size(random), c.hopeless))
	}
	c.header.Set("Content-Type", "application/json")
	switch n := random.IntN(100); {
	case n < 40:
		c.account, c.path = "mistral", "/v1/ocr"
		if n < 10 {
			c.account, c.patient = "strict", true
		}
		c.body = fmt.Appendf(nil, `{"model":"mistral-ocr-latest","document":{"type":"document_url","document_url":"data:application/pdf;base64,%s"}}`, text())
	case n < 54:
		c.account, c.path = "textract", "/"
		c.header.Set("Content-Type", "application/x-amz-json-1.1")
		c.header.Set("X-Amz-Target", "Textract.DetectDocumentText")
		c.body = fmt.Appendf(nil, `{"Document":{"Bytes":"%s"}}`, text())
	case n < 64:
		c.account, c.path, c.job, c.hopeless = "textract", "/", "textract", false
		c.header.Set("Content-Type", "application/x-amz-json-1.1")
		c.header.Set("X-Amz-Target", "Textract.StartDocumentTextDetection")
		c.body = fmt.Appendf(nil, `{"DocumentLocation":{"S3Object":{"Bucket":"scans","Name":"%s.pdf"}}}`, name)
	case n < 78:
		c.account, c.path, c.job = "azure", "/documentintelligence/documentModels/prebuilt-read:analyze?api-version=2024-11-30", "azure"
		c.header.Set("Content-Type", "application/pdf")
		c.body = p.document(name, size(random), c.hopeless)
	case n < 88:
		c.account, c.path, c.hopeless = "vision", "/v1/images:annotate", false
		for range random.IntN(4) {
			c.documents = append(c.documents, p.name())
		}
		c.body = p.batch(c.documents, random)
	default:
		c.account, c.path, c.grpc = "documentai", "/google.cloud.documentai.v1.DocumentProcessorService/ProcessDocument", true
		c.header.Set("Content-Type", "application/grpc")
		c.header.Set("Te", "trailers")
		raw := grpcwire.AppendBytes(nil, 1, p.document(name, size(random), c.hopeless))
		raw = grpcwire.AppendBytes(raw, 2, []byte("application/pdf"))
		message := grpcwire.AppendBytes(nil, 1, []byte("projects/p/locations/us/processors/q"))
		c.body = grpcwire.Frame(grpcwire.AppendBytes(message, 5, raw))
	}
	c.header.Set("Ocr-Proxy-Document-Id", name)
	return c
}

func (p *press) batch(documents []string, random *rand.Rand) []byte {
	var b bytes.Buffer
	b.WriteString(`{"requests":[`)
	for i, name := range documents {
		if i > 0 {
			b.WriteByte(',')
		}
		content := base64.StdEncoding.EncodeToString(p.picture(name, min(size(random), 300<<10)))
		fmt.Fprintf(&b, `{"image":{"content":"%s"},"features":[{"type":"DOCUMENT_TEXT_DETECTION"}]}`, content)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}
