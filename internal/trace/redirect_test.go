package trace_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ocr-proxy/ocr-proxy/internal/trace"
)

// The library's client follows redirects, and takes headers of any name with it to whichever host they lead. The authority is that of the
// environment, so that what stands in the way of redirects stands in no other way.
func TestACollectorsRedirectTakesNoKeyElsewhere(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=hunter-6")
	for _, secure := range []bool{false, true} {
		for _, status := range []int{http.StatusOK, http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			var asked, elsewhere atomic.Int32
			start := httptest.NewServer
			if secure {
				start = httptest.NewTLSServer
			}
			other := start(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
			collector := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				if r.Header.Get("X-Api-Key") != "hunter-6" {
					t.Error("the collector itself gets the key")
				}
				w.Header().Set("Location", other.URL+"/v1/traces")
				w.WriteHeader(status)
			}))
			if secure {
				path := filepath.Join(t.TempDir(), "ca.pem") // one certificate for all of these servers
				require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: collector.Certificate().Raw}), 0o600))
				t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", path)
			} else {
				t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "")
			}
			core, logs := observer.New(zapcore.WarnLevel)
			tracer, err := trace.Open(t.Context(), trace.Options{Endpoint: collector.URL, Ratio: 1, Metrics: trace.NewMetrics(prometheus.NewRegistry()), Log: zap.New(core)})
			require.NoError(t, err)
			tracer.Start(http.Header{}, time.Now()).End(time.Now())
			tracer.Close(t.Context())
			collector.Close()
			other.Close()
			require.EqualValues(t, 1, asked.Load(), status)
			require.Zero(t, elsewhere.Load(), status)
			if status != http.StatusOK {
				require.Equal(t, 1, logs.Len())
				require.Contains(t, logs.All()[0].ContextMap()["error"], "redirect, which is not followed")
			}
		}
	}
}
