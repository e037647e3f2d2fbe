// Package tracetest is a collector for tests: it takes spans over OTLP as a real one does, and shows them.
package tracetest

import (
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one span as it arrived.
type Span struct {
	Name, Kind           string // Kind: SERVER, CLIENT or INTERNAL
	TraceID, ID, Parent  string // in hex; Parent "": none
	Start, End           time.Time
	Attributes, Resource map[string]string
	Failed               bool
	Why                  string // it failed
	Links                []Link
}

// Link leads to a span of another trace.
type Link struct{ TraceID, ID string }

// Took is how long the span lasted.
func (s Span) Took() time.Duration { return s.End.Sub(s.Start) }

// Receiver is the collector. The zero value takes everything.
type Receiver struct {
	// Instead answers a call instead of the receiver, which then takes nothing; nil: nothing does. It is set before the first call.
	Instead http.HandlerFunc

	mu      sync.Mutex
	spans   []Span
	bytes   []byte
	headers []http.Header
	paths   []string
}

// ServeHTTP takes one call.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	var body io.Reader = in.Body
	if in.Header.Get("Content-Encoding") == "gzip" {
		plain, err := gzip.NewReader(in.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = plain
	}
	text, err := io.ReadAll(body)
	var call collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &call)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.headers, r.paths = append(r.headers, in.Header), append(r.paths, in.URL.Path)
	if r.Instead != nil {
		r.Instead(w, in)
		return
	}
	r.bytes = append(r.bytes, text...)
	for _, of := range call.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.spans = append(r.spans, read(s, attributes(of.GetResource().GetAttributes())))
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func read(s *wire.Span, resource map[string]string) Span {
	at := func(nanos uint64) time.Time { return time.Unix(0, int64(nanos)) } //nolint:gosec // times of today
	told := Span{
		Name: s.GetName(), Kind: s.GetKind().String()[len("SPAN_KIND_"):],
		TraceID: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Start: at(s.GetStartTimeUnixNano()), End: at(s.GetEndTimeUnixNano()), Attributes: attributes(s.GetAttributes()), Resource: resource,
		Failed: s.GetStatus().GetCode() == wire.Status_STATUS_CODE_ERROR, Why: s.GetStatus().GetMessage(),
	}
	for _, l := range s.GetLinks() {
		told.Links = append(told.Links, Link{TraceID: hex.EncodeToString(l.GetTraceId()), ID: hex.EncodeToString(l.GetSpanId())})
	}
	return told
}

func attributes(pairs []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, pair := range pairs {
		switch v := pair.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[pair.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			all[pair.GetKey()] = strconv.FormatInt(v.IntValue, 10)
		case *common.AnyValue_BoolValue:
			all[pair.GetKey()] = strconv.FormatBool(v.BoolValue)
		}
	}
	return all
}

// Spans are those that have arrived, in the order in which they began; of two that began together the longer comes first, and the parent.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.spans)
	slices.SortStableFunc(all, func(a, b Span) int { return cmp.Or(a.Start.Compare(b.Start), b.End.Compare(a.End), parentFirst(a, b)) })
	return all
}

func parentFirst(a, b Span) int {
	switch {
	case b.Parent == a.ID:
		return -1
	case a.Parent == b.ID:
		return 1
	}
	return 0
}

// Bytes are all that has arrived, as on the wire.
func (r *Receiver) Bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bytes)
}

// Calls are the headers and paths of the calls so far.
func (r *Receiver) Calls() (headers []http.Header, paths []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.headers), slices.Clone(r.paths)
}
