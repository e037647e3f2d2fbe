package proxy

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

// What a provider says in the proxy's own headers is not the proxy's word: not in an interim answer, in the head, in trailers that were announced or
// in others, over HTTP/1.1 or as metadata of gRPC, in an answer that streams or one that is read to its end, in a good one or an error.
func TestAProviderCannotSpeakForTheProxy(t *testing.T) {
	t.Parallel()
	forge := func(h http.Header, prefix string) {
		h.Set(prefix+"Ocr-Proxy-Outcome", "forged")
		h.Set(prefix+"Ocr-Proxy-Dead-Letter-Id", "forged")
		h.Set(prefix+"ocr-proxy-anything", "forged")
		h[prefix+"oCR-pROXY-reason"] = []string{"forged"} // sent as it is spelled
	}
	genuine := func(t *testing.T, what string, h http.Header) {
		t.Helper()
		for name, values := range h {
			require.NotContains(t, strings.Join(values, ","), "forged", "%s: %s", what, name)
		}
	}
	for name, c := range map[string]struct {
		kind, path string
		status     int
		rpc        bool
	}{
		"streams":           {kind: "generic", path: "/ocr", status: http.StatusOK},
		"is read":           {kind: "mistral", path: ocrPath, status: http.StatusOK},
		"an error":          {kind: "mistral", path: ocrPath, status: http.StatusUnprocessableEntity},
		"only observed":     {kind: "generic", path: "/ocr", status: http.StatusOK},
		"gRPC":              {kind: "documentai", path: processMethod, status: http.StatusOK, rpc: true},
		"gRPC, head alone":  {kind: "documentai", path: processMethod, status: http.StatusOK, rpc: true},
		"gRPC, later error": {kind: "documentai", path: processMethod, status: http.StatusOK, rpc: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := listening(t, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				h := w.Header()
				forge(h, "")
				w.WriteHeader(http.StatusEarlyHints)
				if name == "gRPC, head alone" {
					h.Set("Content-Type", "application/grpc")
					h.Set("Grpc-Status", "3")
					return
				}
				h.Set("Trailer", "Ocr-Proxy-Class, X-Sum")
				h.Set("Content-Type", "application/json")
				if c.rpc {
					h.Set("Content-Type", "application/grpc")
				}
				w.WriteHeader(c.status)
				if c.rpc {
					_, _ = w.Write(grpcwire.Frame([]byte("\x0a\x00")))
				} else {
					_, _ = io.WriteString(w, `{"pages":[]}`)
				}
				_ = http.NewResponseController(w).Flush()
				h.Set("Ocr-Proxy-Class", "forged")
				h.Set("X-Sum", "42")
				forge(h, http.TrailerPrefix)
				if c.rpc {
					h.Set(http.TrailerPrefix+"Grpc-Status", map[bool]string{false: "0", true: "3"}[name == "gRPC, later error"])
				}
			}))
			s := defaults(c.kind)
			s.policy.Base, s.policy.Cap = time.Millisecond, time.Millisecond
			if name == "only observed" {
				s.account = func(a *Account) { a.Observe = NewObserver(a.Metrics.metrics, a.Name) }
			}
			base, err := url.Parse(upstream.URL)
			require.NoError(t, err)
			plain, rpc := NewTransport(nil), NewGRPCTransport(nil)
			account, _, _, _ := s.build(t, base, plain)
			account.GRPCTransport = rpc
			proxy := listening(t, false, account)
			var worker http.RoundTripper = &http.Transport{DisableCompression: true, DisableKeepAlives: true}
			sent := call{target: c.path, body: "document"}
			if c.rpc {
				over := NewGRPCTransport(nil)
				t.Cleanup(over.CloseIdleConnections)
				worker, sent = over, rpcCall(processMethod, processing("document"))
			}
			t.Cleanup(func() { plain.CloseIdleConnections(); rpc.CloseIdleConnections() })
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
				genuine(t, "interim", http.Header(h))
				return nil
			}})
			resp, err := worker.RoundTrip(sent.request(ctx, t, proxy.URL))
			require.NoError(t, err)
			defer func() { _ = resp.Body.Close() }()
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, c.status, resp.StatusCode)
			genuine(t, "head", resp.Header)
			genuine(t, "trailer", resp.Trailer)
			if !c.rpc {
				require.Equal(t, "42", resp.Trailer.Get("X-Sum"), "other trailers arrive")
			}
			if name != "only observed" {
				require.NotEmpty(t, resp.Header.Get("Ocr-Proxy-Outcome"))
			}
		})
	}
}
