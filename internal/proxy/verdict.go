package proxy

import (
	"bytes"
	"compress/gzip"
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

// verdict decides on an answer: what it says of itself, or what was found inside a good one; malformed says that it is labelled JSON and is
// none, which an operator's rule may still overrule.
func verdict(p *provider.Provider, rules classify.Table, a classify.Attempt, inside *classify.Fault, malformed bool, now time.Time) classify.Verdict {
	fault := Fault(p, a, now)
	if inside != nil {
		fault = *inside
	}
	v := classify.Decide(a, fault, rules, p.Table)
	if malformed && v.Class == classify.Success {
		const text = "the answer is labelled JSON and is none"
		return classify.Verdict{Class: classify.Permanent, Code: malformedOutput, Message: text, Reason: text}
	}
	return v
}

// Explain classifies one answer without having asked for it, by the function that decides on a live one. An answer to an operation that is not
// named is looked into like a judged one.
func Explain(p *provider.Provider, rules classify.Table, a classify.Attempt, now time.Time) classify.Verdict {
	var (
		inside    *classify.Fault
		malformed bool
	)
	if a.Status < http.StatusBadRequest && len(a.Body) > 0 && maybeJSON(a.Header) {
		inside, malformed = look(p, a.Operation, a.Header, bytes.NewReader(a.Body))
	}
	return verdict(p, rules, a, inside, malformed, now)
}

// look finds what is told inside a good answer: a failure, or that it is no JSON although it says so.
func look(p *provider.Provider, operation string, h http.Header, body io.Reader) (fault *classify.Fault, malformed bool) {
	plain, err := decoded(h.Get("Content-Encoding"), body)
	if err != nil {
		return nil, false // an encoding that we cannot undo is for the worker to judge
	}
	fault, err = Look(p, operation, plain)
	var syntax *jsonstream.SyntaxError
	return fault, errors.As(err, &syntax) && isJSON(h)
}

// Look finds the failure that is told inside a good JSON answer, or nil. A *jsonstream.SyntaxError says that it is no JSON.
func Look(p *provider.Provider, operation string, body io.Reader) (*classify.Fault, error) {
	values, err := jsonstream.Pick(body, p.Watch, maxJudged)
	if err != nil || p.Judge == nil {
		return nil, err
	}
	if fault, failed := p.Judge(operation, values); failed {
		return &fault, nil
	}
	return nil, nil //nolint:nilnil // no failure is told
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
