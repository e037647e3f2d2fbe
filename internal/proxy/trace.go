package proxy

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/trace"
)

// traced is what a request notes for its trace: one span for itself, and one for each attempt, each wait and whatever else took it time. The zero
// value notes nothing.
type traced struct {
	span       *trace.Span // of the request; nil: nothing is traced
	delivering time.Time   // since when the worker is given its answer; zero: it is not
}

// What is waited for beside the sources of a pause.
const (
	forJob     = "job"     // before a job is asked for again
	forAnother = "another" // for the answer to the same call
)

// leastStep is the least time for which something that is no wait and no attempt gets a span.
const leastStep = time.Millisecond

// beginTrace begins the request's span. A replay is no part of its worker's trace, which is over long since: it leads there.
func (x *exchange) beginTrace() {
	switch tracer := x.listener.Tracer; {
	case tracer == nil:
	case x.resent != nil:
		x.traced.span = tracer.StartAfter(x.resent.letter.TraceID, x.in.Header, x.start)
	default:
		x.traced.span = tracer.Start(x.in.Header, x.start)
	}
}

// endTrace says what is known of the request, but nothing that could be a secret or a part of a document: neither address nor names.
func (x *exchange) endTrace(total time.Duration) {
	span := x.traced.span
	if !span.Sampled() {
		return
	}
	a := x.listener
	name := x.op.Name
	if name == "" {
		name = "other" // refused before anybody looked what it was
	}
	attributes := []trace.Attribute{
		trace.String("http.request.method", method(x.in.Method)), trace.Int("http.request.body.size", int(x.size())),
		trace.String("ocr_proxy.provider", a.Name), trace.String("ocr_proxy.kind", a.Provider.Name), trace.String("ocr_proxy.operation", name),
		trace.String("ocr_proxy.outcome", string(x.outcome)), trace.Int("ocr_proxy.attempts", len(x.history)),
	}
	if x.status != 0 {
		attributes = append(attributes, trace.Int("http.response.status_code", x.status))
	}
	if len(x.history) > 0 {
		attributes = append(attributes, trace.String("ocr_proxy.class", x.class().String()))
	}
	if x.reason != "" {
		attributes = append(attributes, trace.String("ocr_proxy.reason", x.reason))
	}
	if asked := x.asked(); asked != "" {
		attributes = append(attributes, trace.String("ocr_proxy.asked", asked))
	}
	letter := x.letter
	if x.resent != nil {
		name, letter = "replay "+name, x.resent.letter.ID
	}
	if letter != "" {
		attributes = append(attributes, trace.String("ocr_proxy.dead_letter_id", letter))
	}
	if !x.outcome.good() && x.outcome != ClientGone {
		why := string(x.outcome)
		if x.reason != "" {
			why = x.reason
		}
		attributes = append(attributes, trace.String("error.type", why))
		span.Fail(why)
	}
	span.Name(name)
	span.Set(attributes...)
	span.End(x.start.Add(total))
}

// method is the name of a method, one of few.
func method(name string) string {
	switch name {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return name
	}
	return "_OTHER"
}

// beginAttempt begins the span of an attempt: now, since the provider is told of it.
func (x *exchange) beginAttempt(permit *permit, out *http.Request, at time.Time) {
	if permit.span = x.traced.span.Call("attempt", at); permit.span != nil {
		permit.span.Set(trace.String("http.request.method", method(out.Method)), trace.String("server.address", out.URL.Hostname()))
	}
}

// endAttempt says what came of an attempt. The provider's own words in it are freed of credentials, which careless ones repeat.
func (x *exchange) endAttempt(record *attempt, span *trace.Span) {
	if !span.Sampled() {
		return
	}
	v := record.verdict
	attributes := []trace.Attribute{
		trace.String("ocr_proxy.provider", x.account.Name), trace.String("ocr_proxy.operation", x.op.Name),
		trace.String("ocr_proxy.class", v.Class.String()), trace.Int("ocr_proxy.attempt", record.n),
	}
	if record.n > 1 {
		attributes = append(attributes, trace.Int("http.request.resend_count", record.n-1))
	}
	if record.status != 0 {
		attributes = append(attributes, trace.Int("http.response.status_code", record.status))
	}
	if record.requestID != "" {
		attributes = append(attributes, trace.String("ocr_proxy.upstream_request_id", x.secrets().Text(record.requestID)))
	}
	if record.ambiguous {
		attributes = append(attributes, trace.Bool("ocr_proxy.ambiguous", true))
	}
	if v.Class != classify.Success && v.Code != "" {
		attributes = append(attributes, trace.String("ocr_proxy.error_code", x.secrets().Text(v.Code)))
	}
	if !v.Class.Good() && v.Code != codeHungUp {
		attributes = append(attributes, trace.String("error.type", v.Class.String()))
		span.Fail(v.Class.String())
	}
	span.Set(attributes...)
	span.End(record.started.Add(record.duration))
}

// joinTrace makes an attempt a part of the request's trace for whoever is asked. Headers that the worker has signed stay as they are.
func (x *exchange) joinTrace(req *http.Request) {
	if x.traced.span == nil {
		return
	}
	if x.credential.PassesThrough() {
		if signsTrace(req) {
			return
		}
		req.Header = req.Header.Clone() // it is that of every attempt
	}
	span := x.traced.span
	if x.trying.span != nil {
		span = x.trying.span
	}
	span.Inject(req.Header)
}

// signsTrace reports whether a signature of the worker's covers the headers that name a trace.
func signsTrace(req *http.Request) bool {
	signed := func(names string) bool {
		return slices.ContainsFunc(strings.Split(names, ";"), func(name string) bool {
			return strings.EqualFold(name, "traceparent") || strings.EqualFold(name, "tracestate")
		})
	}
	for _, v := range req.Header["Authorization"] {
		scheme, rest, _ := strings.Cut(v, " ")
		if !strings.HasPrefix(scheme, "AWS4-") {
			continue
		}
		for part := range strings.SplitSeq(rest, ",") {
			if names, ok := strings.CutPrefix(strings.TrimSpace(part), "SignedHeaders="); ok && signed(names) {
				return true
			}
		}
	}
	return strings.Contains(req.URL.RawQuery, "X-Amz-SignedHeaders") && signed(req.URL.Query().Get("X-Amz-SignedHeaders"))
}

// mark is when something begins that may get a span; zero where nothing is traced.
func (x *exchange) mark() time.Time {
	if !x.traced.span.Sampled() {
		return time.Time{}
	}
	return time.Now()
}

// wait notes a wait that began at a mark and is over now.
func (x *exchange) wait(source string, began time.Time) {
	if !x.traced.span.Sampled() {
		return
	}
	if span := x.part("wait "+source, began, 1); span != nil {
		span.Set(trace.String("ocr_proxy.wait.source", source), trace.String("ocr_proxy.provider", x.account.Name))
		span.End(time.Now())
	}
}

// step notes something else that took time, if it was worth mentioning.
func (x *exchange) step(name string, began time.Time) { x.part(name, began, leastStep).End(time.Now()) }

func (x *exchange) part(name string, began time.Time, least time.Duration) *trace.Span {
	if !x.traced.span.Sampled() || began.IsZero() || time.Since(began) < least {
		return nil
	}
	return x.traced.span.Child(name, began)
}

// endDelivery notes how long the worker took to take its answer, once. An answer that streamed is its attempt's.
func (x *exchange) endDelivery() {
	if x.last == nil || !x.last.streams {
		x.step("deliver", x.traced.delivering)
	}
	x.traced.delivering = time.Time{}
}

// traceID is the id of the trace that the request is a part of, the worker's where this process traces nothing; "": none.
func (x *exchange) traceID() string {
	if x.traced.span != nil {
		return x.traced.span.TraceID()
	}
	return traceID(x.in.Header.Get("Traceparent"))
}

// traceID is the trace id of a W3C traceparent header, or "".
func traceID(parent string) string {
	parts := strings.Split(parent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	return parts[1]
}

// observe counts a time, with a sampled span as its example.
func observe(o prometheus.Observer, took time.Duration, span *trace.Span) {
	if span.Sampled() {
		if with, ok := o.(prometheus.ExemplarObserver); ok {
			with.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": span.TraceID()})
			return
		}
	}
	o.Observe(took.Seconds())
}
