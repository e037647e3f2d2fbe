package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/trace/tracetest"
)

// The whole program, a collector and a provider that fails once: what the request took is what its parts took.
func TestATraceFromTheProgramToACollector(t *testing.T) {
	t.Parallel()
	receiver := new(tracetest.Receiver)
	collector := httptest.NewServer(receiver)
	t.Cleanup(collector.Close)
	var calls atomic.Int32
	upstream := provide(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		echo(w, r)
	})
	p := serving(t, upstream, "retry: {base_delay: 50ms}\ntracing: {otlp_endpoint: '"+collector.URL+"'}")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.account+"/ocr?key=hunter2", strings.NewReader("document"))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer hunter3")
	resp, err := p.client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "2", resp.Header.Get("Ocr-Proxy-Attempts"))

	metrics, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+"/metrics", nil)
	require.NoError(t, err)
	metrics.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	resp, err = p.client.Do(metrics)
	require.NoError(t, err)
	text := new(strings.Builder)
	require.NoError(t, resp.Write(text))
	require.NoError(t, resp.Body.Close())

	p.signal()
	require.Zero(t, p.end())
	spans := receiver.Spans() // the last ones are sent before the end
	var parts time.Duration
	var attempts, waits int
	for _, s := range spans[1:] {
		require.Equal(t, spans[0].ID, s.Parent)
		require.Equal(t, spans[0].TraceID, s.TraceID)
		parts += s.Took()
		switch {
		case s.Name == "attempt":
			attempts++
		case strings.HasPrefix(s.Name, "wait "):
			waits++
		}
	}
	require.Equal(t, []int{2, 1}, []int{attempts, waits})
	require.InDelta(t, spans[0].Took().Seconds(), parts.Seconds(), 0.1, "what is missing is the proxy's own")
	require.LessOrEqual(t, parts, spans[0].Took())
	require.Equal(t, "ocr-proxy", spans[0].Resource["service.name"])
	require.Contains(t, text.String(), `trace_id="`+spans[0].TraceID+`"`, "an exemplar")
	require.Equal(t, spans[0].TraceID, p.log.find(t, "request")["trace_id"])
	require.NotContains(t, string(receiver.Bytes()), "hunter")
	require.NotContains(t, string(receiver.Bytes()), "document")
}
