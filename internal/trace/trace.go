// Package trace makes spans of what a request goes through and sends them to an OpenTelemetry collector, over OTLP in protobuf and HTTP. It is
// the only package that knows OpenTelemetry.
//
// Everything may be called on a nil *Span and does nothing then: such is a request of a process that traces nothing, and a part of a request
// that is not sampled. No request ever waits for the collector: spans go into a bounded queue, and what has no room there is dropped and counted.
package trace

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// Options are what a Tracer needs.
type Options struct {
	Endpoint string       // http:// or https:// address of the collector; without a path /v1/traces is asked
	Ratio    float64      // share of the requests without a parent that are sampled, 0 to 1; with one the parent decides
	Version  string       // of this program
	Client   *http.Client // by which the collector is reached; nil: the library's own, with the system's authorities
	Metrics  *Metrics
	Log      *zap.Logger
}

// Tracer begins traces. All its methods may be called concurrently.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   otel.Tracer
}

// Span is one stretch of time in a trace.
type Span struct {
	tracer    *Tracer
	span      otel.Span
	context   context.Context //nolint:containedctx // how the library names a span to its children
	recording bool
}

// Attribute is something that is known of a span.
type Attribute = attribute.KeyValue

// String is an attribute that is a text.
func String(key, value string) Attribute { return attribute.String(key, value) }

// Int is an attribute that is a number.
func Int(key string, value int) Attribute { return attribute.Int(key, value) }

// Bool is an attribute that is so or not.
func Bool(key string, value bool) Attribute { return attribute.Bool(key, value) }

// library names in each span who made it.
const library = "github.com/ocr-proxy/ocr-proxy"

// Open makes a tracer, which must be closed. The collector need not be there. The error is about the endpoint, or about the variables OTEL_* in
// the environment, from which the library takes headers, certificates and further attributes of this process.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	address, err := addressOf(o.Endpoint)
	if err != nil {
		return nil, err
	}
	hearRemarks(o.Log)
	settings := []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(address.String()),
		otlptracehttp.WithProxy(wayTo),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: exportTime}),
	}
	if o.Client != nil {
		settings = append(settings, otlptracehttp.WithHTTPClient(o.Client))
	}
	exporter, err := otlptrace.New(ctx, otlptracehttp.NewClient(settings...))
	if err != nil {
		return nil, err
	}
	whoami, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(String("service.name", "ocr-proxy"), String("service.version", o.Version), String("service.instance.id", uuid.NewString())),
		resource.WithFromEnv(), // last: what the operator says is so
	)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdk.NewTracerProvider(
		sdk.WithSpanProcessor(newQueue(exporter, o.Metrics, o.Log, secretsOf(address))),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(o.Ratio))),
		sdk.WithIDGenerator(ids{}),
		sdk.WithResource(whoami),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer(library)}, nil
}

// errRedirected is why a collector that sends spans elsewhere gets none.
var errRedirected = errors.New("the collector answers with a redirect, which is not followed: name the address that it leads to")

// wayTo is the forward proxy by which a call is made, and ends one that a redirect has led on: headers from OTEL_EXPORTER_OTLP_HEADERS, which may be
// keys, go along with it to whatever host it names. The library's client cannot be told so itself without losing the certificates that the
// environment names.
func wayTo(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errRedirected
	}
	return http.ProxyFromEnvironment(r)
}

// defaultPath is where collectors take traces.
const defaultPath = "/v1/traces"

// addressOf is where spans are posted to.
func addressOf(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the endpoint must be an http:// or https:// address with a host")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = defaultPath
	}
	return u, nil
}

// Close sends what waits, as long as the context lasts, and ends the tracer. What is not sent by then is dropped and counted.
func (t *Tracer) Close(ctx context.Context) { _ = t.provider.Shutdown(ctx) } // the queue has told of its failure

// Start begins the span of a request that came at that time with those headers: a part of the worker's trace where traceparent names one, else
// a trace of its own. It is never nil.
func (t *Tracer) Start(h http.Header, at time.Time) *Span {
	ctx := context.Background()
	if parent := parentOf(h); parent.IsValid() {
		ctx = otel.ContextWithRemoteSpanContext(ctx, parent)
	}
	return t.start(ctx, "request", otel.SpanKindServer, at)
}

// StartAfter begins a trace of its own for what is done again long after the request that it was a part of. It is linked to the trace of that
// request, whose headers may tell its parent; "": none is known.
func (t *Tracer) StartAfter(traceID string, h http.Header, at time.Time) *Span {
	var link []otel.SpanStartOption
	if before := spanIn(traceID, h); before.IsValid() {
		link = []otel.SpanStartOption{otel.WithLinks(otel.Link{SpanContext: before})}
	}
	return t.start(context.Background(), "replay", otel.SpanKindInternal, at, link...)
}

func (t *Tracer) start(ctx context.Context, name string, kind otel.SpanKind, at time.Time, more ...otel.SpanStartOption) *Span {
	ctx, span := t.tracer.Start(ctx, name, append(more, otel.WithSpanKind(kind), otel.WithTimestamp(at))...)
	return &Span{tracer: t, span: span, context: ctx, recording: span.IsRecording()}
}

// parentOf is the span that a request names as its parent; not valid: none, or more than one.
func parentOf(h http.Header) otel.SpanContext {
	if len(h["Traceparent"]) != 1 {
		return otel.SpanContext{}
	}
	return otel.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(h)))
}

// spanIn is a span of a trace: the parent of the request that had those headers or, where the trace began with that request, its own.
func spanIn(traceID string, h http.Header) otel.SpanContext {
	id, err := otel.TraceIDFromHex(traceID)
	if err != nil {
		return otel.SpanContext{}
	}
	if parent := parentOf(h); parent.TraceID() == id {
		return parent
	}
	return otel.NewSpanContext(otel.SpanContextConfig{TraceID: id, SpanID: rootOf(id), Remote: true})
}

// TraceID is the id of the span's trace, in hex, whether it is sampled or not; "" for nil.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	id := s.span.SpanContext().TraceID()
	return hex.EncodeToString(id[:])
}

// Sampled reports whether the span is going to be sent.
func (s *Span) Sampled() bool { return s != nil && s.recording }

// Child begins a part of the span; nil: nobody will see it.
func (s *Span) Child(name string, at time.Time) *Span {
	return s.child(name, otel.SpanKindInternal, at)
}

// Call begins a part of the span in which another server is asked; nil: nobody will see it.
func (s *Span) Call(name string, at time.Time) *Span { return s.child(name, otel.SpanKindClient, at) }

func (s *Span) child(name string, kind otel.SpanKind, at time.Time) *Span {
	if !s.Sampled() {
		return nil
	}
	return s.tracer.start(s.context, name, kind, at)
}

// Name gives the span another name, one of few.
func (s *Span) Name(name string) {
	if s != nil {
		s.span.SetName(name)
	}
}

// Set adds attributes.
func (s *Span) Set(attributes ...Attribute) {
	if s != nil {
		s.span.SetAttributes(attributes...)
	}
}

// Fail marks the span as failed, with a short word for why.
func (s *Span) Fail(why string) {
	if s != nil {
		s.span.SetStatus(codes.Error, why)
	}
}

// End ends the span. The first call counts.
func (s *Span) End(at time.Time) {
	if s != nil {
		s.span.End(otel.WithTimestamp(at))
	}
}

// Inject names the span in headers as the parent of what they are sent with, in place of any other.
func (s *Span) Inject(h http.Header) {
	if s == nil {
		return
	}
	h.Del("Traceparent")
	h.Del("Tracestate")
	propagation.TraceContext{}.Inject(s.context, propagation.HeaderCarrier(h))
}
