package proxy

import (
	"bytes"
	"errors"
	"net/http"
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

// Explain classifies one answer without having asked for it, by the same functions in the same order as the proxy does for a live one.
func Explain(p *provider.Provider, rules classify.Table, a classify.Attempt, now time.Time) classify.Verdict {
	encoding := a.Header.Get("Content-Encoding")
	fault := Fault(p, a, now)
	if a.Status < http.StatusBadRequest && len(a.Body) > 0 && maybeJSON(a.Header) {
		told, err := Look(p, a.Operation, encoding, bytes.NewReader(a.Body))
		var syntax *jsonstream.SyntaxError
		if errors.As(err, &syntax) && isJSON(a.Header) {
			return malformed()
		}
		if told != nil {
			fault = *told
		}
	}
	return classify.Decide(a, fault, rules, p.Table)
}

// malformed is the verdict on a good answer that is labelled JSON and is none.
func malformed() classify.Verdict {
	const text = "the answer is labelled JSON and is none"
	return classify.Verdict{Class: classify.Permanent, Code: malformedOutput, Message: text, Reason: text}
}
