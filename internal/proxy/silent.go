package proxy

import (
	"io"
	"slices"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

// Action is what follows from a good answer that is not all that was asked for.
type Action uint8

// The actions, as the keys of review name them.
const (
	Accept    Action = iota
	LookAt           // a person should
	Elsewhere        // another account is asked; where there is none, or it does no better, a person should look at it
)

// The signs that answers do not show by themselves. They are looked for where something follows from them, since that costs.
const (
	emptyText    = "empty_text"
	missingPages = "missing_pages"
)

// reading is what an answer says about its document as a whole.
type reading struct {
	known bool // it is the whole result of an operation that has one
	text  bool // there is some
	pages int
}

// take is told of a value of the answer; false: it may be about something else, too.
func (r *reading) take(from *provider.Result, path string, v jsonstream.Value) bool {
	switch {
	case v.Type == jsonstream.Ended && slices.Contains(from.Pages, path):
		r.pages++
	case slices.Contains(from.Text, path):
		r.text = r.text || provider.IsText(v)
	default:
		return false
	}
	return true
}

// silent finds what a good answer does not say of itself; "": nothing. What the document would have to say is only asked when the answer gives
// a reason to.
func (x *exchange) silent(t *answer) string {
	actions := x.account.Scrutiny.Actions
	p := x.account.Provider
	if t.held == nil || t.rpc != nil || t.malformed {
		return ""
	}
	if actions[malformedOutput] != Accept && p.Structured != nil && x.body != nil && x.malformedOutput(t) {
		return malformedOutput
	}
	if !t.reading.known {
		return ""
	}
	if actions[missingPages] != Accept && x.lacksPages(t) {
		return missingPages
	}
	if actions[emptyText] != Accept && !t.reading.text && x.hasText(p.Result) {
		return emptyText
	}
	return ""
}

// malformedOutput reports whether the answer holds text where JSON was asked for.
func (x *exchange) malformedOutput(t *answer) bool {
	request := x.openReceived()
	defer func() { _ = request.Close() }()
	outputs := x.account.Provider.Structured.WantedOutputs(request)
	if len(outputs) == 0 {
		return false
	}
	body := t.held.Open()
	defer func() { _ = body.Close() }()
	plain, err := decoded(t.resp.Header.Get("Content-Encoding"), body)
	return err == nil && provider.Malformed(&patience{Reader: plain, ctx: t.clock.ctx, left: maxPlain}, outputs)
}

// hasText reports whether there should be text in the answer: it was asked for, and no document of the call is surely blank.
func (x *exchange) hasText(r *provider.Result) bool {
	for _, name := range x.account.Provider.Shapes {
		if x.in.Header.Get(name) != "" {
			return false // the answer is one of a part, and the text may be none of it
		}
	}
	if r.Asked != nil && x.body != nil {
		request := x.openReceived()
		defer func() { _ = request.Close() }()
		if !r.Asked(x.in.URL.RawQuery, request) {
			return false
		}
	}
	return !x.everyDocument(precheck.Blank, precheck.Limits{})
}

// lacksPages reports whether the answer has fewer pages than were asked for: there are gaps, or the document has more and all of it was asked for.
func (x *exchange) lacksPages(t *answer) bool {
	started := x.startOfResult()
	if rules := x.account.Provider.Pages; rules != nil && rules.Operation == x.op.Name {
		asked := provider.Asked{Query: x.in.URL.RawQuery, Body: x.received(maxBatch)}
		if started != nil {
			asked = provider.Asked{Query: started.Start.Query}
		}
		if text, err := t.plain(maxBatch); err == nil && len(rules.Missing(asked, text)) > 0 {
			return true
		}
	}
	if t.reading.pages == 0 || x.asksForSomePages(started) {
		return false
	}
	return x.everyDocument(precheck.Pages, precheck.Limits{Pages: t.reading.pages})
}

// startOfResult is the journaled start of the job whose result the call asks for; nil: it asks for none, or nothing is known of it.
func (x *exchange) startOfResult() *dlq.JobRecord {
	if x.polls() {
		return x.startOf()
	}
	return nil
}

// asksForSomePages reports whether a call asks for a part of its document, or may.
func (x *exchange) asksForSomePages(started *dlq.JobRecord) bool {
	some := x.account.Provider.Result.SomePages
	if some == nil {
		return false
	}
	query := x.in.URL.RawQuery
	if started != nil {
		query = started.Start.Query
	}
	request := x.openReceived()
	defer func() { _ = request.Close() }()
	return some(query, request)
}

// everyDocument reports whether the call, or the start of the job that it is about, carries documents and a check finds all of them at fault.
func (x *exchange) everyDocument(check precheck.Check, limits precheck.Limits) bool {
	documents := x.documentsOfResult()
	defer x.releaseDocuments(documents)
	for _, d := range documents {
		found, _ := precheck.Inspect(x.in.Context(), d, d.Size(), limits, allBut(check))
		if found.Check != check {
			return false
		}
	}
	return len(documents) > 0
}

// documentsOfResult are the documents that the answer is about, as far as they are at hand.
func (x *exchange) documentsOfResult() []*spool.Body {
	r := x.startOfResult()
	if r == nil {
		if x.body == nil {
			return nil
		}
		return x.documents(x.account.Provider.Checks[x.op.Name])
	}
	payload, err := x.account.Jobs.JobPayload(r)
	if err != nil {
		return nil
	}
	body := x.listener.Bodies.Body(r.Start.BodyBytes)
	_, err = body.ReadFrom(payload)
	_ = payload.Close()
	request := fingerprint.Request{ContentType: r.Start.ContentType, Body: func() (io.ReadCloser, error) { return body.Open(), nil }}
	if err == nil && fingerprint.Itself(request.ContentType) {
		return []*spool.Body{body}
	}
	defer body.Release()
	if err != nil {
		return nil
	}
	return x.extract(func(next func() io.Writer) (bool, error) {
		return fingerprint.Extract(request, x.listener.Provider.Layout, next)
	})
}

// allBut lists the checks that are left out where one is made.
func allBut(check precheck.Check) (skip []precheck.Check) {
	for _, other := range precheck.Checks() {
		if other != check {
			skip = append(skip, other)
		}
	}
	return skip
}
