package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// rpcEnd is how a gRPC call ended, as REST would tell it: that is what tables, hints and people read.
type rpcEnd struct {
	status int
	header http.Header // head and trailers
}

// errNoStatus says that an answer ended without saying how.
var errNoStatus = errors.New("the gRPC answer has no grpc-status")

// readRPC reads a gRPC answer to its end, trailers included, and puts it back. The trailers become a part of the head, under the names by which
// the server sends them behind the body, so that an answer is one thing wherever it is kept or handed on.
func (t *answer) readRPC(x *exchange) error {
	if err := t.readWhole(x); err != nil || t.streams {
		return err // of one that is too large to be held the status is known too late
	}
	trailer := t.resp.Trailer
	t.resp.Trailer = nil
	dropInstructions(trailer)
	for name, values := range trailer {
		t.resp.Header[http.TrailerPrefix+name] = values
	}
	status, ok := rpcStatus(t.resp.Header)
	if !ok {
		return errNoStatus
	}
	t.rpc = &rpcEnd{status: grpcwire.HTTPStatus(status.Code), header: rpcHeader(t.resp.Header)}
	if status.Code != grpcwire.OK {
		t.decoded = x.rpc.kind.Error(status)
		return t.keepRPC()
	}
	return t.judgeRPC(x)
}

// keepRPC makes a small error one that can be kept through a wait.
func (t *answer) keepRPC() error {
	if t.held.Size() > maxKept {
		return nil
	}
	body, err := io.ReadAll(t.resp.Body)
	if err != nil {
		return err
	}
	t.held.Release()
	t.held, t.complete = nil, true
	t.resp.Body = io.NopCloser(bytes.NewReader(body))
	t.clock.stop()
	return nil
}

// judgeRPC looks into a good answer.
func (t *answer) judgeRPC(x *exchange) error {
	if !x.op.Judged {
		return nil
	}
	body := t.held.Open()
	defer func() { _ = body.Close() }()
	if t.held.Size() == 0 {
		t.malformed = true // the status, which came last, says that the work was done: to ask again would be to pay again
		return nil
	}
	if err := grpcwire.Check(body, t.held.Size()); err != nil {
		return err
	}
	whole := t.held.Open()
	defer func() { _ = whole.Close() }()
	in, err := x.lookRPC(t.clock.ctx, whole, t.resp.Header.Get("Grpc-Encoding"))
	t.insight, t.looked = in, true
	t.malformed = errors.Is(err, grpcwire.ErrMalformed) || errors.Is(err, io.ErrUnexpectedEOF)
	return nil
}

// lookRPC is lookInto for an answer over gRPC. A message in a compression that is not known is not looked into.
func (x *exchange) lookRPC(ctx context.Context, body io.Reader, coding string) (insight, error) {
	fields := x.rpc.kind.Answer(x.op.Name)
	if fields == nil {
		return insight{}, nil
	}
	message, err := grpcwire.Message(body, coding)
	if err != nil {
		return insight{}, err
	}
	l := newLook(x.account.Provider, &x.account.Scrutiny, x.op.Name)
	if err := fields.Each(&patience{Reader: message, ctx: ctx, left: maxPlain}, l.paths, maxJudged, l.take); err != nil {
		return insight{}, fmt.Errorf("the answer's message: %w", err)
	}
	return l.end(), nil
}

// pickRPC finds values in a good answer.
func (x *exchange) pickRPC(ctx context.Context, body io.Reader, coding string) (jsonstream.Found, error) {
	message, err := grpcwire.Message(body, coding)
	if err != nil {
		return nil, err
	}
	values, err := x.rpc.kind.Answer(x.op.Name).Pick(&patience{Reader: message, ctx: ctx, left: maxPlain}, maxJudged, maxValues)
	if err != nil {
		return nil, fmt.Errorf("the answer's message: %w", err)
	}
	return values, nil
}

// lookAtBatch finds what is told inside a batch as it was put together.
func (x *exchange) lookAtBatch() (in insight) {
	whole := bytes.NewReader(x.batch.answer)
	var err error
	if x.rpc != nil {
		in, err = x.lookRPC(x.in.Context(), whole, "")
	} else {
		in, err = lookInto(x.account.Provider, &x.account.Scrutiny, x.op.Name, whole)
	}
	in.malformed = err != nil
	return in
}

// rpcStatus is how a gRPC answer says that the call ended: in its trailers, or in its head when there is nothing else.
func rpcStatus(h http.Header) (grpcwire.Status, bool) { return grpcwire.ReadStatus(rpcHeader(h)) }

// rpcHeader is head and trailers in one. What gRPC calls a push-back is a wait in milliseconds like any other.
func rpcHeader(h http.Header) http.Header {
	all := maps.Clone(h)
	for name, values := range h {
		if bare, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			delete(all, name)
			all[bare] = values
		}
	}
	if wait := all.Get("Grpc-Retry-Pushback-Ms"); wait != "" && all.Get("Retry-After-Ms") == "" {
		all.Set("Retry-After-Ms", wait)
	}
	return all
}

// statusOf is the HTTP status of an answer to the worker, as people know it.
func (x *exchange) statusOf(resp *http.Response) int {
	if x.rpc != nil && resp.StatusCode == http.StatusOK {
		if s, ok := rpcStatus(resp.Header); ok {
			return grpcwire.HTTPStatus(s.Code)
		}
	}
	return resp.StatusCode
}
