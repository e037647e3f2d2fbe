package proxy

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// instant is an upstream that takes no time: what is left is the proxy's own.
type instant struct{ body []byte }

func (i instant) RoundTrip(r *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, r.Body)
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(i.body)), ContentLength: int64(len(i.body)), Request: r,
	}, err
}

// BenchmarkServe measures one call of 2 KB through the account and, as the floor, through a bare ReverseProxy.
func BenchmarkServe(b *testing.B) {
	upstream, err := url.Parse("http://provider.example")
	require.NoError(b, err)
	answer := instant{bytes.Repeat([]byte("x"), 20<<10)}
	account, _, _, _ := defaults("generic").build(b, upstream, answer)
	account.Log = zap.NewNop()
	bare := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }, Transport: answer, BufferPool: account.CopyBuffers,
	}
	body := bytes.Repeat([]byte("d"), 2<<10)
	for name, handler := range map[string]http.Handler{"account": account, "bare": bare} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/ocr?a=1", bytes.NewReader(body))
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
