package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/credential"
)

// edge is an account between real sockets of this machine.
type edge struct {
	t       *testing.T
	account *Account
	sink    *graveyard
	url     string // of the proxy
	worker  *http.Client
}

// hasty is a setup whose waits are too short to matter in real time.
func hasty() setup {
	s := defaults("generic")
	s.policy.Base, s.policy.Cap, s.policy.Total, s.policy.AttemptTimeout = time.Millisecond, time.Millisecond, 20*time.Second, 10*time.Second
	return s
}

func newEdge(t *testing.T, s setup, upstream string, transport *http.Transport) *edge {
	t.Helper()
	u, err := url.Parse(upstream)
	require.NoError(t, err)
	e := &edge{t: t}
	e.account, e.sink, _, _ = s.build(t, u, transport)
	server := httptest.NewUnstartedServer(e.account)
	server.Config.ErrorLog = log.New(panics{t}, "", 0)
	server.Start()
	e.url = server.URL
	own := &http.Transport{DisableCompression: true}
	e.worker = &http.Client{Transport: own, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		own.CloseIdleConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return e
}

// provide starts a provider.
func provide(t *testing.T, handler http.HandlerFunc, change ...func(s *httptest.Server)) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	for _, c := range change {
		c(server)
	}
	if server.TLS == nil {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

func withTLS(h2 bool, conf *tls.Config) func(s *httptest.Server) {
	return func(s *httptest.Server) {
		s.EnableHTTP2, s.TLS = h2, conf
		s.StartTLS()
	}
}

func trust(s *httptest.Server) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return roots
}

func (e *edge) do(req *http.Request) (*http.Response, string) {
	e.t.Helper()
	resp, err := e.worker.Do(req)
	require.NoError(e.t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(e.t, err)
	return resp, string(body)
}

func (e *edge) post(body io.Reader) (*http.Response, string) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.url+"/ocr", body)
	require.NoError(e.t, err)
	return e.do(req)
}

// raw writes text to the proxy on a connection of its own, and gives what comes back to be read.
func (e *edge) raw(text string) *bufio.Reader {
	e.t.Helper()
	conn, err := new(net.Dialer).DialContext(e.t.Context(), "tcp", strings.TrimPrefix(e.url, "http://"))
	require.NoError(e.t, err)
	e.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(e.t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = io.WriteString(conn, text)
	require.NoError(e.t, err)
	return bufio.NewReader(conn)
}

func TestHTTPVersionHostAndSNIAreTheUpstreams(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{true, false} {
		t.Run(fmt.Sprintf("HTTP/2 %v", h2), func(t *testing.T) {
			t.Parallel()
			upstream := provide(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = fmt.Fprintf(w, "%s %s %s", r.Proto, r.Host, r.TLS.ServerName)
			}, withTLS(h2, &tls.Config{MinVersion: tls.VersionTLS12}))
			transport := NewTransport(trust(upstream))
			transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) { // in place of a name server
				return new(net.Dialer).DialContext(ctx, network, upstream.Listener.Addr().String())
			}
			e := newEdge(t, hasty(), "https://example.com", transport)
			_, got := e.post(strings.NewReader("document"))
			want := "HTTP/1.1 example.com example.com"
			if h2 {
				want = "HTTP/2.0 example.com example.com"
			}
			require.Equal(t, want, got)
		})
	}
}

func TestACertificateThatDoesNotVerifyIsOneAttempt(t *testing.T) {
	t.Parallel()
	var handshakes atomic.Int32
	upstream := provide(t, func(http.ResponseWriter, *http.Request) {}, withTLS(false, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { handshakes.Add(1); return nil, nil },
	}))
	e := newEdge(t, hasty(), upstream.URL, NewTransport(x509.NewCertPool()))
	resp, body := e.post(strings.NewReader("document"))
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Equal(t, "permanent", resp.Header.Get("Ocr-Proxy-Class"))
	require.Equal(t, "1", resp.Header.Get("Ocr-Proxy-Attempts"))
	require.Contains(t, body, "certificate")
	require.EqualValues(t, 1, handshakes.Load())
	require.Zero(t, e.account.Breakers.For("").Snapshot().Failures, "the breaker does not mind")
	require.Equal(t, "certificate", e.sink.letters[0].ErrorCode)
	require.Equal(t, "document", e.sink.bodies[0])
}

func TestConnectionsAreReusedAcrossRetries(t *testing.T) {
	t.Parallel()
	var connections, requests atomic.Int32
	upstream := provide(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write(make([]byte, 100<<10)) // more than is kept, less than is drained
		}
	}, func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
	})
	e := newEdge(t, hasty(), upstream.URL, NewTransport(nil))
	for range 20 {
		resp, _ := e.post(strings.NewReader("document"))
		require.Equal(t, "2", resp.Header.Get("Ocr-Proxy-Attempts"))
	}
	require.EqualValues(t, 40, requests.Load())
	require.LessOrEqual(t, connections.Load(), int32(2))
}

func TestALargeBodyIsReplayedIdentical(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sums []string
	upstream := provide(t, func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		n, _ := io.Copy(h, r.Body)
		mu.Lock()
		defer mu.Unlock()
		sums = append(sums, fmt.Sprintf("%x %d %d %v", h.Sum(nil), n, r.ContentLength, r.TransferEncoding))
		if len(sums) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	e := newEdge(t, hasty(), upstream.URL, NewTransport(nil))
	document := noise(5 << 20)
	for _, chunked := range []bool{false, true} {
		sums = nil
		var body io.Reader = strings.NewReader(document)
		if chunked {
			body = struct{ io.Reader }{body} // of no known length
		}
		resp, _ := e.post(body)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		want := fmt.Sprintf("%x %d %d []", sha256.Sum256([]byte(document)), len(document), len(document))
		require.Equal(t, []string{want, want, want}, sums, "the provider is told the length, whatever the worker did")
	}
}

func TestEmptyBodiesKeepTheirForm(t *testing.T) {
	t.Parallel()
	upstream := provide(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %d %v %q", r.Method, r.ContentLength, r.TransferEncoding, r.Header["Content-Length"])
	})
	e := newEdge(t, hasty(), upstream.URL, NewTransport(nil))
	for request, want := range map[string]string{
		"POST /ocr HTTP/1.1\r\nHost: p\r\nContent-Length: 0\r\n\r\n":                   `POST 0 [] ["0"]`,
		"POST /ocr HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": `POST 0 [] ["0"]`,
		"GET /ocr HTTP/1.1\r\nHost: p\r\n\r\n":                                         `GET 0 [] []`,
	} {
		resp, err := http.ReadResponse(e.raw(request), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, string(body), "%q", request)
	}
}

func TestAConnectionThatWasClosedWhileIdle(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	upstream := provide(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1) == 2 { // on a kept connection, just as it is used
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		_, _ = io.WriteString(w, "text")
	})
	e := newEdge(t, hasty(), upstream.URL, NewTransport(nil))
	for range 2 {
		resp, body := e.post(strings.NewReader("document"))
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, "text", body)
	}
	require.EqualValues(t, 3, requests.Load(), "one repetition, and it is counted")
}

func TestAnUpstreamThatIsNotUpYet(t *testing.T) {
	t.Parallel()
	spare, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := spare.Addr().String()
	require.NoError(t, spare.Close())
	s := hasty()
	s.policy.MaxAttempts = 2
	e := newEdge(t, s, "http://"+address, NewTransport(nil))
	resp, body := e.post(strings.NewReader("document"))
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Equal(t, "2", resp.Header.Get("Ocr-Proxy-Attempts"))
	require.NotContains(t, body, address, "the answer tells nothing of what is behind the proxy")
	require.Equal(t, "connection_refused", e.sink.letters[0].ErrorCode)
}

func TestPathsArriveByteForByteOnTheWire(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	upstream := provide(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.RequestURI })
	e := newEdge(t, hasty(), upstream.URL+"/base", NewTransport(nil))
	for _, target := range []string{"/v1/m:analyze?x", "/v1/m%3Aanalyze", "/a%2Fb//c?a=2&a=1&b=%20x;y", "/p/year=2020/a+b~c", "/?", "/a|b^c"} {
		resp, err := http.ReadResponse(e.raw("GET "+target+" HTTP/1.1\r\nHost: p\r\n\r\n"), nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "/base"+target, <-got)
	}
}

func TestTheWorkerIsToldToSend(t *testing.T) {
	t.Parallel()
	upstream := provide(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	e := newEdge(t, hasty(), upstream.URL, NewTransport(nil))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(e.url, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = io.WriteString(conn, "POST /ocr HTTP/1.1\r\nHost: p\r\nExpect: 100-continue\r\nContent-Length: 8\r\n\r\n")
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
	_, _ = r.ReadString('\n')
	_, err = io.WriteString(conn, "document")
	require.NoError(t, err)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "document", string(body))
}

func TestASlowUploadOnARealSocket(t *testing.T) {
	t.Parallel()
	upstream := provide(t, func(http.ResponseWriter, *http.Request) {})
	e := newEdge(t, hasty(), upstream.URL, NewTransport(nil))
	resp, err := http.ReadResponse(e.raw("POST /ocr HTTP/1.1\r\nHost: p\r\nOcr-Proxy-Timeout: 150ms\r\nContent-Length: 100\r\n\r\nstalls"), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
	require.Zero(t, e.sink.count())
}

func TestManyWorkersAtOnce(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	upstream := provide(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && requests.Add(1)%5 == 0 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = w.Write(body)
	})
	s := hasty()
	s.policy.MaxAttempts = 50
	s.bodies.MemoryTotal = 1 << 20 // so that some are spilled
	e := newEdge(t, s, upstream.URL, NewTransport(nil))
	var wg sync.WaitGroup
	failures := make(chan string, 1000)
	for i := range 16 {
		wg.Go(func() {
			document := noise(1000 + i*20_000)
			for range 5 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+"/ocr", bytes.NewReader([]byte(document)))
				if err != nil {
					failures <- err.Error()
					return
				}
				resp, err := e.worker.Do(req)
				if err != nil {
					failures <- err.Error()
					return
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK || string(body) != document {
					failures <- fmt.Sprintf("status %d, %d of %d bytes, %v", resp.StatusCode, len(body), len(document), err)
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for failure := range failures {
		t.Error(failure)
	}
}

func TestCredentialsThatCannotBeHad(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_SHARED_CREDENTIALS_FILE": "/does/not/exist", "AWS_CONFIG_FILE": "/does/not/exist",
	} {
		t.Setenv(name, value)
	}
	signer, err := credential.SigV4(t.Context(), credential.SigV4Options{Region: "us-east-1", Service: "textract"})
	require.NoError(t, err)
	var reached atomic.Bool
	upstream := provide(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
	s := hasty()
	s.kind = "textract"
	s.account = func(a *Account) { a.Credential = signer }
	e := newEdge(t, s, upstream.URL, NewTransport(nil))
	resp, body := e.post(strings.NewReader("{}"))
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Equal(t, "permanent", resp.Header.Get("Ocr-Proxy-Outcome"))
	require.Equal(t, "0", resp.Header.Get("Ocr-Proxy-Attempts"), "nothing was sent")
	require.Equal(t, "auth", e.sink.letters[0].ErrorClass)
	require.Contains(t, body, "credentials")
	require.Equal(t, "credentials", e.sink.letters[0].ErrorCode)
	require.False(t, reached.Load(), "nothing was sent")
	require.False(t, e.sink.letters[0].Ambiguous)
}
