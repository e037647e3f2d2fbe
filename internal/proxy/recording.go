package proxy

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

// Recording is an answer that no worker waits for: it is taken down as on the wire. It implements http.ResponseWriter.
type Recording struct {
	status int
	header http.Header
	body   *spool.Body
	err    error // why the body could not be taken
}

func newRecording(bodies *spool.Pool) *Recording {
	r := &Recording{header: http.Header{}, body: bodies.Body(-1)}
	r.body.Limit(math.MaxInt64) // it was paid for
	return r
}

// Header implements http.ResponseWriter.
func (r *Recording) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. What comes before the answer is passed over.
func (r *Recording) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
}

// Write implements http.ResponseWriter.
func (r *Recording) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	n, err := r.body.Write(p)
	if err != nil {
		r.err = err
	}
	return n, err
}

// Flush implements http.Flusher: there is nothing to wait for.
func (r *Recording) Flush() {}

// Status is the answer's HTTP status.
func (r *Recording) Status() int { return r.status }

// Size is the length of the answer's body in bytes.
func (r *Recording) Size() int64 { return r.body.Size() }

// Open is a reader over the answer as on the wire, HTTP/1.1: status line, headers without credentials and cookies, an empty line, the body as
// it came. Trailers stand among the headers.
func (r *Recording) Open() io.ReadCloser {
	r.body.Finish(nil)
	h := http.Header{}
	for name, values := range r.header {
		name = strings.TrimPrefix(name, http.TrailerPrefix)
		switch {
		case scrub.Header(name), name == "Trailer", name == "Transfer-Encoding", name == "Connection", name == "Date":
		default:
			h[name] = values
		}
	}
	h.Set("Content-Length", strconv.FormatInt(r.body.Size(), 10))
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", r.status, http.StatusText(r.status))
	_ = h.Write(&head) // into memory
	head.WriteString("\r\n")
	body := r.body.Open()
	return &joined{Reader: io.MultiReader(&head, body), Closer: body}
}

// Release gives the body back. Open must not be called afterwards.
func (r *Recording) Release() { r.body.Release() }
