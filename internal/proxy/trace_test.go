package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/trace"
	"github.com/ocr-proxy/ocr-proxy/internal/trace/tracetest"
)

const (
	workersTrace = "0af7651916cd43dd8448eb211c80319c"
	workersSpan  = "b7ad6b7169203331"
	sampled      = "Traceparent: 00-" + workersTrace + "-" + workersSpan + "-01"
	unsampled    = "Traceparent: 00-" + workersTrace + "-" + workersSpan + "-00"
)

// trace makes the lab's requests traced by a collector on its network.
func (l *lab) trace(ratio float64) *tracetest.Receiver {
	l.t.Helper()
	r := new(tracetest.Receiver)
	stop := serve(l.t, l.network, "collector:80", r)
	way := &http.Transport{DialContext: l.network.DialContext}
	tracer, err := trace.Open(l.t.Context(), trace.Options{
		Endpoint: "http://collector", Ratio: ratio, Version: "v1", Client: &http.Client{Transport: way}, Metrics: trace.NewMetrics(l.registry), Log: zap.NewNop(),
	})
	require.NoError(l.t, err)
	l.account.Tracer = tracer
	l.t.Cleanup(func() {
		tracer.Close(context.Background())
		way.CloseIdleConnections()
		stop()
	})
	return r
}

// spans are what has arrived when everything had time to.
func (l *lab) spans(r *tracetest.Receiver) []tracetest.Span {
	l.t.Helper()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	return r.Spans()
}

// names are those of spans, with the time that each took.
func names(spans []tracetest.Span) (all []string) {
	for _, s := range spans {
		all = append(all, s.Name+" "+s.Took().String())
	}
	return all
}

// requireWhole fails unless the first span is the parent of all others, which follow each other without a gap and fill it.
func requireWhole(t *testing.T, spans []tracetest.Span) {
	t.Helper()
	request, at := spans[0], spans[0].Start
	for _, s := range spans[1:] {
		require.Equal(t, request.ID, s.Parent, s.Name)
		require.Equal(t, request.TraceID, s.TraceID, s.Name)
		require.Equal(t, at, s.Start, "%s begins where the one before it ended", s.Name)
		at = s.End
	}
	require.Equal(t, request.End, at, "and the last one ends with the request")
}

// slow is a body that takes that long.
type slow struct {
	io.Reader
	takes time.Duration
}

func (s *slow) Read(p []byte) (int, error) {
	time.Sleep(s.takes)
	s.takes = 0
	return s.Reader.Read(p)
}

func TestATraceOfARetriedRequestAddsUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.queue.Adaptive = true
		l := newLab(t, s,
			step{status: 503, after: 300 * time.Millisecond},
			step{status: 429, header: "Retry-After: 3", after: 20 * time.Millisecond},
			step{status: 200, header: "X-Request-Id: r-3", body: "read", after: 700 * time.Millisecond})
		r := l.trace(1)
		req := call{target: "/ocr?key=k", header: "Content-Type: application/pdf"}.request(t.Context(), t, "http://proxy")
		req.Body, req.ContentLength = io.NopCloser(&slow{strings.NewReader("document"), 400 * time.Millisecond}), 8
		began := time.Now()
		resp, err := l.worker.RoundTrip(req)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
		took := time.Since(began)

		spans := l.spans(r)
		requireWhole(t, spans)
		require.Equal(t, took, spans[0].Took())
		require.Equal(t, []string{
			"other 5.42s", "upload 400ms", "attempt 300ms", "wait backoff 1s", "attempt 20ms", "wait hint 3s", "attempt 700ms",
		}, names(spans))

		request := spans[0]
		require.Empty(t, request.Parent)
		require.Equal(t, "SERVER", request.Kind)
		require.False(t, request.Failed)
		require.Equal(t, map[string]string{
			"http.request.method": "POST", "http.request.body.size": "8", "http.response.status_code": "200", "ocr_proxy.provider": "acct", "ocr_proxy.kind": "generic",
			"ocr_proxy.operation": "other", "ocr_proxy.outcome": "success", "ocr_proxy.attempts": "3", "ocr_proxy.class": "success",
		}, request.Attributes)
		require.Equal(t, "ocr-proxy", request.Resource["service.name"])
		require.Equal(t, "v1", request.Resource["service.version"])
		require.Equal(t, map[string]string{
			"http.request.method": "POST", "server.address": "provider", "http.response.status_code": "503", "ocr_proxy.provider": "acct", "ocr_proxy.operation": "other",
			"ocr_proxy.class": "transient", "ocr_proxy.attempt": "1", "error.type": "transient",
		}, without(spans[2].Attributes, "ocr_proxy.error_code"))
		require.True(t, spans[2].Failed)
		require.Equal(t, "CLIENT", spans[2].Kind)
		require.Equal(t, "throttle", spans[4].Attributes["ocr_proxy.class"])
		require.Equal(t, map[string]string{"ocr_proxy.wait.source": "hint", "ocr_proxy.provider": "acct"}, spans[5].Attributes)
		require.Equal(t, "2", spans[6].Attributes["http.request.resend_count"])
		require.Equal(t, "r-3", spans[6].Attributes["ocr_proxy.upstream_request_id"])
		require.False(t, spans[6].Failed)

		for i, seen := range l.upstream.attempts() {
			require.Equal(t, "00-"+request.TraceID+"-"+spans[2+2*i].ID+"-01", seen.header.Get("Traceparent"), "each attempt names its own span")
		}
		logged := l.logs.FilterMessage("request").All()
		require.Equal(t, request.TraceID, logged[0].ContextMap()["trace_id"])
	})
}

func without(all map[string]string, name string) map[string]string {
	delete(all, name)
	return all
}

func TestWaitsInTheQueueAreInTheTrace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.queue.MaxInFlight = 1
		l := newLab(t, s, step{after: 2 * time.Second}, step{after: time.Second})
		r := l.trace(1)
		first := l.later(t.Context(), call{body: "first"})
		synctest.Wait()
		second := l.send(t.Context(), call{body: "second", header: sampled})
		<-first
		require.Equal(t, http.StatusOK, second.status)
		var spans []tracetest.Span
		for _, s := range l.spans(r) {
			if s.TraceID == workersTrace {
				spans = append(spans, s)
			}
		}
		requireWhole(t, spans)
		require.Equal(t, []string{"other 3s", "wait queue 2s", "attempt 1s"}, names(spans))
	})
}

func TestTheWorkersTraceIsGoneOnWith(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		ratio  float64
		spans  int
		parent string // of the request's span; "": it begins a trace
		kept   bool   // tracestate goes on
	}{
		"sampled, though nothing else would be": {sampled + "|Tracestate: vendor=1", 0, 2, workersSpan, true},
		"sampled":                               {sampled, 1, 2, workersSpan, false},
		"not sampled":                           {unsampled + "|Tracestate: vendor=1", 1, 0, "", true},
		"of no trace":                           {"", 0, 0, "", false},
		"not one":                               {"Traceparent: 00-00000000000000000000000000000000-b7ad6b7169203331-01|Tracestate: vendor=1", 1, 2, "", false},
		"two of them":                           {sampled + "|" + unsampled, 1, 2, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, defaults("generic"), step{})
				r := l.trace(c.ratio)
				l.send(t.Context(), call{header: strings.TrimPrefix(c.header+"|Baggage: user=1", "|")})
				spans := l.spans(r)
				require.Len(t, spans, c.spans)
				sent := l.upstream.attempts()[0].header
				require.Len(t, sent["Traceparent"], 1, "the provider can join the trace in any case")
				part := strings.Split(sent.Get("Traceparent"), "-")
				require.Equal(t, part[1], l.logs.FilterMessage("request").All()[0].ContextMap()["trace_id"])
				require.Equal(t, c.spans > 0, part[3] == "01")
				require.Equal(t, c.kept, sent.Get("Tracestate") == "vendor=1")
				require.Equal(t, "user=1", sent.Get("Baggage"))
				honoured := strings.Contains(name, "sampled")
				require.Equal(t, honoured, part[1] == workersTrace)
				if c.spans > 0 {
					require.Equal(t, c.parent, spans[0].Parent)
					require.Equal(t, part[2], spans[1].ID)
				}
			})
		})
	}
}

func TestWithoutTracingTheWorkersHeadersGoThrough(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{})
		l.send(t.Context(), call{header: "Traceparent: anything|Tracestate: a=1"})
		require.Equal(t, []string{"anything"}, l.upstream.attempts()[0].header["Traceparent"])
		require.NotContains(t, l.logs.FilterMessage("request").All()[0].ContextMap(), "trace_id")
	})
}

func TestHeadersThatTheWorkerHasSignedStayAsTheyAre(t *testing.T) {
	for header, kept := range map[string]bool{
		"Authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;traceparent;x-amz-date, Signature=c": true,
		"Authorization: AWS4-HMAC-SHA256 Credential=a/b,SignedHeaders=host;tracestate,Signature=c":               true,
		"Authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;x-amz-date, Signature=c":             false,
		"Authorization: Bearer SignedHeaders=traceparent":                                                        false,
	} {
		t.Run(header, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, defaults("generic"), step{})
				r := l.trace(1)
				l.send(t.Context(), call{header: header + "|" + sampled})
				require.Len(t, l.spans(r), 2, "it is traced all the same")
				require.Equal(t, kept, l.upstream.attempts()[0].header.Get("Traceparent") == strings.TrimPrefix(sampled, "Traceparent: "))
			})
		})
	}
}

func TestAShareOfTheRequestsIsTraced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 400
		l := newLab(t, defaults("generic"), make([]step, n)...)
		r := l.trace(0.5)
		for range n {
			l.send(t.Context(), call{})
		}
		traces := map[string]int{}
		for _, s := range l.spans(r) {
			traces[s.TraceID]++
		}
		require.InDelta(t, n/2, len(traces), 80) // eight standard deviations
		for _, spans := range traces {
			require.Equal(t, 2, spans, "of a trace all or nothing")
		}
	})
}

func TestALetterKnowsItsTraceAndAReplayLeadsThere(t *testing.T) {
	for name, header := range map[string]string{"of the worker": sampled, "of the proxy": "X-None: 1"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, defaults("generic"), step{status: 422, body: "no"}, step{body: "read"})
				r := l.trace(1)
				letter, body := l.fails(call{header: header, body: "document"})
				spans := l.spans(r)
				request := spans[0]
				require.Equal(t, request.TraceID, letter.TraceID)
				require.True(t, request.Failed)
				require.Equal(t, "permanent", request.Why)
				require.Equal(t, "letter-1", request.Attributes["ocr_proxy.dead_letter_id"])

				require.Equal(t, Success, l.replay(letter, body).Outcome)
				again := l.spans(r)[len(spans)]
				require.Equal(t, "replay other", again.Name)
				require.Equal(t, "INTERNAL", again.Kind)
				require.Empty(t, again.Parent)
				require.NotEqual(t, request.TraceID, again.TraceID, "a trace that is over does not grow")
				want := tracetest.Link{TraceID: workersTrace, ID: workersSpan}
				if name == "of the proxy" {
					want = tracetest.Link{TraceID: request.TraceID, ID: request.ID}
				}
				require.Equal(t, []tracetest.Link{want}, again.Links)
				require.Equal(t, letter.ID, again.Attributes["ocr_proxy.dead_letter_id"])
				sent := l.upstream.attempts()[1].header.Get("Traceparent")
				require.Contains(t, sent, again.TraceID)
			})
		})
	}
}

func TestALetterFromBeforeTracingLeadsNowhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{body: "read"})
		r := l.trace(1)
		letter := &dlq.Envelope{ID: "x", Operation: "other", Request: dlq.Request{Method: http.MethodPost, Path: "/ocr"}}
		require.Equal(t, Success, l.replay(letter, "").Outcome)
		require.Empty(t, l.spans(r)[0].Links)
	})
}

func TestWhoeverJoinsWaitsForAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("mistral"), step{after: 5 * time.Second, header: asJSON, body: `{"pages":[]}`})
		r := l.trace(1)
		same := analysis("QQ==")
		same.header += "|Ocr-Proxy-Join: true"
		first := l.later(t.Context(), same)
		time.Sleep(2 * time.Second)
		same.header += "|" + sampled
		second := l.send(t.Context(), same)
		<-first
		require.Equal(t, reasonJoined, second.own("Reason"))
		var spans []tracetest.Span
		for _, s := range l.spans(r) {
			if s.TraceID == workersTrace {
				spans = append(spans, s)
			}
		}
		requireWhole(t, spans)
		require.Equal(t, []string{"ocr 3s", "wait another 3s"}, names(spans))
		require.Equal(t, "joined", spans[0].Attributes["ocr_proxy.reason"])
	})
}

func TestNothingSecretIsTraced(t *testing.T) {
	for _, contentType := range []string{"json", "urlencoded", "multipart"} {
		t.Run(contentType, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, defaults("generic"), echo(500), echo(401))
				l.account.Credential = credential.Passthrough()
				r := l.trace(1)
				c := guarded(t, contentType)
				c.header += "|Ocr-Proxy-Document-Id: name-of-document|Ocr-Proxy-Tenant: name-of-tenant"
				require.Equal(t, http.StatusUnauthorized, l.send(t.Context(), c).status)
				require.Len(t, l.spans(r), 4)
				text := string(r.Bytes())
				require.Contains(t, text, "ocr_proxy.error_code", "the provider's words are there")
				requireClean(t, "traces", text)
				for _, never := range []string{"language=en", "scan.p", "bucket.example", "name-of-", "the picture", "invalid credentials", "/ocr?"} {
					require.NotContains(t, text, never)
				}
			})
		})
	}
}

func TestACollectorThatHangsCostsNobodyAnything(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 6000 // more spans than the queue holds
		l := newLab(t, defaults("generic"), make([]step, n)...)
		r := l.trace(1)
		r.Instead = func(_ http.ResponseWriter, in *http.Request) { <-in.Context().Done() }
		began := time.Now()
		for range n {
			require.Equal(t, http.StatusOK, l.send(t.Context(), call{}).status)
		}
		require.Equal(t, began, time.Now(), "in fake time nothing at all")
		require.Positive(t, l.figure("trace_spans_total", "result", trace.Dropped))
		require.Zero(t, l.figure("trace_spans_total", "result", trace.Sent))
	})
}

func TestLatenciesHaveTracesAsExamples(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{}, step{})
		l.trace(1)
		l.send(t.Context(), call{header: sampled})
		require.Equal(t, map[string]int{"ocrproxy_request_duration_seconds": 1, "ocrproxy_attempt_duration_seconds": 1}, examples(t, l.registry, workersTrace))
		l.send(t.Context(), call{header: strings.Replace(unsampled, workersTrace, "1"+workersTrace[1:], 1)})
		require.Empty(t, examples(t, l.registry, "1"+workersTrace[1:]), "nobody would find it")
	})
}

// examples counts by metric the exemplars that lead to a trace.
func examples(t *testing.T, reg prometheus.Gatherer, id string) map[string]int {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	found := map[string]int{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			for _, bucket := range series.GetHistogram().GetBucket() {
				for _, label := range bucket.GetExemplar().GetLabel() {
					if label.GetName() == "trace_id" && label.GetValue() == id {
						found[family.GetName()]++
					}
				}
			}
		}
	}
	return found
}
