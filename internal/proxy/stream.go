package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"time"
)

// stallTime is how long a worker may take nothing of its answer before it is cut off.
const stallTime = 30 * time.Second

// errAbandoned says that the worker did not take the whole answer, or not in time.
var errAbandoned = errors.New("the worker did not take the whole answer")

// begun is a body whose beginning was already read.
type begun struct {
	io.ReadCloser
	first   []byte
	taken   int
	buffers httputil.BufferPool
}

// begin waits until a body has begun, so that an answer that never does can still be tried again. What comes with it is put back in one piece.
func begin(body io.ReadCloser, buffers httputil.BufferPool) (io.ReadCloser, error) {
	first := buffers.Get()
	n, err := io.ReadAtLeast(body, first, 1)
	if err != nil && !errors.Is(err, io.EOF) {
		buffers.Put(first)
		return nil, err
	}
	return &begun{first: first[:n], buffers: buffers, ReadCloser: body}, nil
}

func (b *begun) Read(p []byte) (int, error) {
	if b.taken < len(b.first) {
		n := copy(p, b.first[b.taken:])
		b.taken += n
		return n, nil
	}
	return b.ReadCloser.Read(p)
}

func (b *begun) Close() error {
	if b.buffers != nil {
		b.buffers.Put(b.first[:cap(b.first)])
		b.first, b.buffers = nil, nil
	}
	return b.ReadCloser.Close()
}

// joined is a body of which a part was already read.
type joined struct {
	io.Reader
	io.Closer
}

// stream watches a body on its way from the provider to the worker.
type stream struct {
	body   io.ReadCloser
	answer *answer
	ended  bool
	err    error
}

func (s *stream) Read(p []byte) (int, error) {
	late := s.answer.clock.ctx.Err() != nil // the time went into giving the worker what came before
	n, err := s.body.Read(p)
	if err == nil {
		return n, nil
	}
	s.ended = true
	dropInstructions(s.answer.resp.Trailer) // known only now
	switch {
	case errors.Is(err, io.EOF):
	case late:
		s.err = errAbandoned
	default:
		s.err = s.answer.clock.explain(err)
	}
	return n, err
}

func (s *stream) Close() error {
	err := s.body.Close()
	if !s.ended {
		s.err = errAbandoned
	}
	s.answer.finish(s.err)
	return err
}

// delivery is an answer's body on its way to the worker, who must keep taking it: each read means that what was read before has been taken.
type delivery struct {
	io.ReadCloser
	control *http.ResponseController
	until   time.Time
}

func (d *delivery) Read(p []byte) (int, error) {
	d.extend()
	return d.ReadCloser.Read(p)
}

// extend gives the worker more time for the next piece.
func (d *delivery) extend() {
	if now := time.Now(); now.Add(stallTime - time.Second).After(d.until) { // not for every piece
		d.until = now.Add(stallTime)
		_ = d.control.SetWriteDeadline(d.until) // a writer without a connection has nobody to wait for
	}
}

// deliver has an answer given to a worker who must keep taking it.
func (x *exchange) deliver(resp *http.Response) *http.Response {
	x.traced.delivering = x.mark()
	x.head, resp.Header = resp.Header, x.relocated(resp.Header)
	d := &delivery{ReadCloser: resp.Body, control: x.control}
	d.extend()
	resp.Body = d
	return resp
}
