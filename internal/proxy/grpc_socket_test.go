package proxy

import (
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

// listening is a server on a real socket, with TLS or without.
func listening(t *testing.T, secure bool, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = Protocols()
	if secure {
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

func rootsOf(server *httptest.Server) *x509.CertPool {
	roots := x509.NewCertPool()
	if certificate := server.Certificate(); certificate != nil {
		roots.AddCert(certificate)
	}
	return roots
}

// With and without TLS on either side, and many calls at once over one connection, a provider that fails now and then is not noticed.
func TestRPCOverSockets(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"in the clear": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			upstream := listening(t, secure, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || r.ProtoMajor != 2 {
					t.Errorf("HTTP/%d: %v", r.ProtoMajor, err)
				}
				w.Header().Set("Content-Type", "application/grpc")
				switch calls.Add(1) % 4 {
				case 1:
					w.Header().Set("Grpc-Status", "14")
				case 2:
					w.WriteHeader(http.StatusOK)
					_ = http.NewResponseController(w).Flush()
					w.Header().Set(http.TrailerPrefix+"Grpc-Status", "13")
				default:
					answer := grpcwire.AppendBytes(nil, 1, grpcwire.AppendBytes(nil, 4, body))
					_, _ = w.Write(grpcwire.Frame(answer))
					w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
				}
			}))
			s := defaults("documentai")
			s.policy.MaxAttempts, s.policy.Base, s.policy.Cap = 30, time.Millisecond, 2*time.Millisecond
			s.breaker.FailureThreshold = 1000
			s.policy.PurseFloor = 1000
			base, err := url.Parse(upstream.URL)
			require.NoError(t, err)
			account, sink, _, _ := s.build(t, base, nil)
			out := NewGRPCTransport(rootsOf(upstream))
			t.Cleanup(out.CloseIdleConnections)
			account.GRPCTransport = out
			proxy := listening(t, secure, account)
			worker := NewGRPCTransport(rootsOf(proxy))
			t.Cleanup(worker.CloseIdleConnections)
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() {
					sent := rpcCall(processMethod, processing(strings.Repeat("d", 50_000)))
					resp, err := worker.RoundTrip(sent.request(t.Context(), t, proxy.URL))
					require.NoError(t, err)
					defer func() { _ = resp.Body.Close() }()
					body, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.Contains(t, string(body), sent.body)
					require.Equal(t, "0", resp.Trailer.Get("Grpc-Status"))
					require.Equal(t, "success", resp.Header.Get("Ocr-Proxy-Outcome"))
				})
			}
			all.Wait()
			require.Zero(t, sink.count())
		})
	}
}
