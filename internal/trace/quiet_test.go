package trace_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ocr-proxy/ocr-proxy/internal/trace"
)

// A collector refuses everything and repeats in its words what it was sent: neither its answer nor the library's own remarks about the environment
// bring a key into the log. That a remark is in the log says that it is not on standard error, where the library tells all.
func TestKeysOfTheCollectorAreNotTold(t *testing.T) {
	for name, c := range map[string]struct{ headers, path, told string }{
		"a header":                     {"authorization=Bearer%20hunter-1", "", "traces cannot be sent, and are lost until they can; requests do not wait for that"},
		"a header without a name":      {"authorization: Bearer hunter-2", "", "parse headers"},
		"a header in a wrong spelling": {"x-key=hunter-3%zz", "", "escape header value"},
		"the path":                     {"", "/v1/hunter-4/traces", "Bad Request"},
		"a path with escapes":          {"", "/hunter-5%2Fx/traces", "Bad Request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", c.headers)
			collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprint(w, r.URL.EscapedPath(), r.URL.Path, r.Header["Authorization"], r.Header["X-Key"])
			}))
			defer collector.Close()
			core, logs := observer.New(zapcore.DebugLevel)
			tracer, err := trace.Open(t.Context(), trace.Options{
				Endpoint: collector.URL + c.path, Ratio: 1, Metrics: trace.NewMetrics(prometheus.NewRegistry()), Log: zap.New(core),
			})
			require.NoError(t, err)
			tracer.Start(http.Header{}, time.Now()).End(time.Now())
			tracer.Close(t.Context())
			var all strings.Builder
			for _, line := range logs.All() {
				_, _ = fmt.Fprintln(&all, line.Message, line.ContextMap())
			}
			require.Contains(t, all.String(), c.told)
			require.NotContains(t, all.String(), "hunter")
		})
	}
}
