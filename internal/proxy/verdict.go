package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// Fault reads what an error answer says about itself: codes and message from the provider's shape, and the wait it asks for, from headers
// before the body.
func Fault(p *provider.Provider, a classify.Attempt, now time.Time) classify.Fault {
	if !a.Answered() {
		return classify.Fault{}
	}
	var f classify.Fault
	if a.Status >= http.StatusBadRequest && p.Fault != nil {
		f = p.Fault(a)
	}
	if wait, ok := retry.Hint(a.Header, now); ok {
		f.Wait = wait
	}
	return f
}

// verdict decides on an answer: what it says of itself, or what was found inside a good one. That it is labelled JSON and is none may still be
// overruled by an operator's rule.
func verdict(p *provider.Provider, rules classify.Table, a classify.Attempt, in insight, now time.Time) classify.Verdict {
	fault := Fault(p, a, now)
	if in.fault != nil {
		fault = *in.fault
	}
	v := classify.Decide(a, fault, rules, p.Table)
	if in.malformed && v.Class == classify.Success {
		const text = "the answer is labelled JSON and is none"
		return classify.Verdict{Class: classify.Permanent, Code: malformedOutput, Message: text, Reason: text}
	}
	return v
}

// Explain classifies one answer without having asked for it, by the function that decides on a live one. An answer to an operation that is not
// named is looked into like a judged one.
func Explain(p *provider.Provider, rules classify.Table, a classify.Attempt, now time.Time) classify.Verdict {
	var in insight
	if a.Status < http.StatusBadRequest && len(a.Body) > 0 && maybeJSON(a.Header) {
		in = look(context.Background(), p, &Scrutiny{}, a.Operation, a.Header, bytes.NewReader(a.Body))
	}
	return verdict(p, rules, a, in, now)
}

const (
	// maxPlain bounds how much of an answer is looked at once its encoding is undone, in bytes: a few KB can unpack to many GB.
	maxPlain = 256 << 20
	// maxValues bounds how many values are kept of one answer.
	maxValues = 20_000
)

// look finds what is told inside a good answer. What is too large to be looked at, or takes longer than the context lasts, tells nothing.
func look(ctx context.Context, p *provider.Provider, r *Scrutiny, operation string, h http.Header, body io.Reader) insight {
	plain, err := decoded(h.Get("Content-Encoding"), body)
	if err != nil {
		return insight{} // an encoding that we cannot undo is for the worker to judge
	}
	in, err := lookInto(p, r, operation, &patience{Reader: plain, ctx: ctx, left: maxPlain})
	var syntax *jsonstream.SyntaxError
	in.malformed = errors.As(err, &syntax) && isJSON(h)
	return in
}

// patience is a reader that ends in an error when too much comes of it, or the context is over.
type patience struct {
	io.Reader
	ctx  context.Context
	left int64
}

// errPatience says that an answer is too large to be looked at.
var errPatience = errors.New("the answer is too large to be looked at")

func (r *patience) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left <= 0 {
		return 0, errPatience
	}
	n, err := r.Reader.Read(p)
	r.left -= int64(n)
	return n, err
}

// Look finds the failure that is told inside a good JSON answer, or nil. A *jsonstream.SyntaxError says that it is no JSON.
func Look(p *provider.Provider, operation string, body io.Reader) (*classify.Fault, error) {
	in, err := lookInto(p, &Scrutiny{}, operation, body)
	return in.fault, err
}

// Decode undoes the content encoding of an error for the classifier, which sees at most 64 KiB. What cannot be decoded is left as it is: then
// the status decides.
func Decode(encoding string, body []byte) []byte {
	r, err := decoded(encoding, bytes.NewReader(body))
	if err != nil {
		return body
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxErrorPrefix))
	if err != nil && len(plain) == 0 {
		return body
	}
	return plain
}

// decoded undoes a content encoding, of which we know one: the others are not asked for.
func decoded(encoding string, body io.Reader) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return body, nil
	case "gzip":
		return gzip.NewReader(body)
	}
	return nil, errors.ErrUnsupported
}
