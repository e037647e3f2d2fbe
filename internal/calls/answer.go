package calls

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

// Answer is a finished call's answer, shared by whoever is given it. Each holder releases it once.
type Answer struct {
	Status int
	// Header is the answer's head as the first worker was to get it. It must not be changed.
	Header http.Header
	// Buried marks an answer whose document lies in a dead letter: it is given again only while the reason for it lasts.
	Buried bool
	// Lasting marks a buried answer that no repetition would change.
	Lasting bool
	// Story is whatever else the first worker's side wants to know when a buried answer is given again.
	Story any

	body *spool.Body // nil: no body
	refs atomic.Int32
}

// NewAnswer takes over a finished body, nil for none. The caller is the first holder.
func NewAnswer(status int, header http.Header, body *spool.Body) *Answer {
	a := &Answer{Status: status, Header: header, body: body}
	a.refs.Store(1)
	return a
}

// Size is the length of the body in bytes.
func (a *Answer) Size() int64 {
	if a.body == nil {
		return 0
	}
	return a.body.Size()
}

// Open gives the body from its beginning. The holder's share must last until it is closed.
func (a *Answer) Open() io.ReadCloser {
	if a.body == nil {
		return http.NoBody
	}
	return a.body.Open()
}

// Share makes one more holder.
func (a *Answer) Share() *Answer {
	a.refs.Add(1)
	return a
}

// Release gives the holder's share back; with the last one the body goes.
func (a *Answer) Release() {
	if a.refs.Add(-1) == 0 && a.body != nil {
		a.body.Release()
	}
}
