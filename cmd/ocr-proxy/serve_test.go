package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
)

// provide starts a provider.
func provide(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

// held is a provider that answers when it is let.
func held(t *testing.T) (url string, arrived <-chan struct{}, release chan<- struct{}) {
	t.Helper()
	in, out := make(chan struct{}, 8), make(chan struct{}, 8)
	url = provide(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		in <- struct{}{}
		select {
		case <-out:
			_, _ = w.Write(body)
		case <-r.Context().Done():
		}
	})
	return url, in, out
}

func letterFiles(t *testing.T, p *proxyProcess) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.letters, "open", "*.json"))
	require.NoError(t, err)
	return files
}

func TestServeSaysAtStartWhatCheckWarnsOf(t *testing.T) {
	t.Parallel()
	p := servingKind(t, "textract", provide(t, echo), "", "auth: {type: passthrough}")
	said := p.log.find(t, "the configuration is allowed and hardly meant")
	require.Equal(t, []any{"warn", "providers[0].auth.type"}, []any{said["level"], said["key"]})
	require.Contains(t, said["problem"], "use type sigv4")
}

func TestServeFromStartToEnd(t *testing.T) {
	t.Parallel()
	p := serving(t, provide(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		echo(w, r)
	}), "")
	for _, path := range []string{"/healthz", "/readyz", "/api/v1/providers", "/api/v1/dead-letters", "/"} {
		status, _, _ := p.ask(http.MethodGet, p.admin+path, "")
		require.Equal(t, http.StatusOK, status, path)
	}
	status, header, text := p.ask(http.MethodPost, p.account+"/ocr", "document")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "document", text)
	require.Equal(t, "success", header.Get("Ocr-Proxy-Outcome"))

	status, header, _ = p.ask(http.MethodPost, p.account+"/bad", "document")
	require.Equal(t, http.StatusUnprocessableEntity, status)
	files := letterFiles(t, p)
	require.Len(t, files, 1)
	require.Equal(t, header.Get("Ocr-Proxy-Dead-Letter-Id")+".json", filepath.Base(files[0]))
	_, _, text = p.ask(http.MethodGet, p.admin+"/api/v1/dead-letters/"+header.Get("Ocr-Proxy-Dead-Letter-Id"), "")
	require.Contains(t, text, `"status": "open"`)

	_, _, text = p.ask(http.MethodGet, p.admin+"/metrics", "")
	for _, series := range []string{
		`ocrproxy_requests_total{kind="generic",operation="other",outcome="success",provider="acct"} 1`,
		`ocrproxy_breaker_state{provider="acct",state="closed"} 1`,
		`ocrproxy_dead_letters_open{outcome="permanent",provider="acct"} 1`,
		`ocrproxy_in_flight{provider="acct"} 0`,
		`ocrproxy_config_last_reload_successful 1`,
		`ocrproxy_body_memory_bytes`, `ocrproxy_build_info{`, `ocrproxy_throttle_pause_seconds{`, `go_goroutines`,
	} {
		require.Contains(t, text, series)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	for _, problem := range problems {
		require.NotContains(t, problem.Metric, "ocrproxy_", problem.Text)
	}

	p.signal()
	require.Zero(t, p.end())
	require.Contains(t, p.log.String(), `"msg":"ended"`)
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", p.account[len("http://"):])
	require.Error(t, err, "the listener is closed")
}

func TestWhatIsInProgressIsFinished(t *testing.T) {
	t.Parallel()
	upstream, arrived, release := held(t)
	p := serving(t, upstream, "")
	first := p.later("first")
	<-arrived
	p.signal()
	p.log.find(t, "draining")
	status, _, _ := p.ask(http.MethodGet, p.admin+"/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, status)
	status, _, _ = p.ask(http.MethodGet, p.admin+"/healthz", "")
	require.Equal(t, http.StatusOK, status, "the process lives")

	second := p.later("second") // in a pod the worker may outlive the signal
	<-arrived
	release <- struct{}{}
	release <- struct{}{}
	got := []string{(<-first).text, (<-second).text}
	require.Equal(t, []string{"first", "second"}, got)
	require.Zero(t, p.end())
	require.Empty(t, letterFiles(t, p))
}

func TestWhoeverSleepsAtTheEndOfTheDrainIsToldAndBuried(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	p := serving(t, provide(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
		arrived <- struct{}{}
	}), "shutdown: {drain_timeout: 100ms}")
	asleep := p.later("document")
	<-arrived
	p.signal()
	got := <-asleep
	require.Equal(t, http.StatusServiceUnavailable, got.status, got.text)
	require.Equal(t, "shutdown", got.header.Get("Ocr-Proxy-Reason"))
	require.NotEmpty(t, got.header.Get("Retry-After"))
	require.Zero(t, p.end(), "everything was told and written: a clean end")
	require.Len(t, letterFiles(t, p), 1)
	payloads, err := filepath.Glob(filepath.Join(p.letters, "payloads", "*", "*"))
	require.NoError(t, err)
	require.Len(t, payloads, 1)
	payload, err := os.ReadFile(payloads[0])
	require.NoError(t, err)
	require.Equal(t, "document", string(payload))
}

func TestWhoeverIsAtWorkAtTheEndOfTheDrainIsToldAndBuried(t *testing.T) {
	t.Parallel()
	upstream, arrived, _ := held(t)
	p := serving(t, upstream, "shutdown: {drain_timeout: 50ms}")
	hanging := p.later("document")
	<-arrived
	p.signal()
	got := <-hanging
	require.Equal(t, http.StatusServiceUnavailable, got.status, got.text)
	require.Equal(t, "shutdown", got.header.Get("Ocr-Proxy-Reason"))
	require.Zero(t, p.end(), "told and written: a clean end")
	require.Len(t, letterFiles(t, p), 1)
}

func TestTheAdminListenerEndsTheProcess(t *testing.T) {
	t.Parallel()
	p := serving(t, provide(t, echo), "")
	status, _, _ := p.ask(http.MethodPost, p.admin+"/quitquitquit", "")
	require.Equal(t, http.StatusAccepted, status)
	require.Zero(t, p.end())
}

func TestServingTLS(t *testing.T) {
	t.Parallel()
	var upstream string
	upstream = provide(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", upstream+"/results/1")
		w.WriteHeader(http.StatusAccepted)
	})
	source := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer source.Close()
	pair := source.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	certFile := file(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	keyFile := file(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))

	p := serving(t, upstream, "", fmt.Sprintf("tls: {cert_file: %q, key_file: %q}", certFile, keyFile))
	roots := x509.NewCertPool()
	roots.AddCert(source.Certificate())
	p.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	secure := "https" + strings.TrimPrefix(p.account, "http")
	status, header, _ := p.ask(http.MethodPost, secure+"/ocr", "document")
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, secure+"/results/1", header.Get("Location"), "the worker comes back the way it came")
	p.signal()
	require.Zero(t, p.end())
}

func TestServeThatCannotStart(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	notAFolder := file(t, "file", "")
	config := func(admin, account, letters string) string {
		return file(t, "config.yaml", fmt.Sprintf(`
admin: {listen: %q}
dead_letters: {dir: %q}
providers:
  - {name: acct, kind: generic, listen: %q, upstream: "http://127.0.0.1:1"}
`, admin, letters, account))
	}
	const free = "127.0.0.1:0"
	for _, c := range []struct {
		name, path string
		code       int
		want       []string
	}{
		{"a port that is taken", config(free, taken.Addr().String(), t.TempDir()), exitFailure, []string{"providers.acct.listen", taken.Addr().String()}},
		{"an admin port that is taken", config(taken.Addr().String(), free, t.TempDir()), exitFailure, []string{"admin.listen", taken.Addr().String()}},
		{"a store that is no folder", config(free, free, notAFolder), exitFailure, []string{"dead_letters.dir", notAFolder}},
		{"no such file", filepath.Join(t.TempDir(), "missing.yaml"), exitBadConfig, []string{"missing.yaml"}},
		{"a bad configuration", file(t, "bad.yaml", "retry: {max_attempts: 0}\nproviders: []\n"), exitBadConfig, []string{"retry.max_attempts", "providers"}},
	} {
		code, stdout, stderr := command(t, "", nil, "serve", "--config", c.path)
		require.Equal(t, c.code, code, "%s: %s", c.name, stderr)
		require.Empty(t, stdout)
		for _, want := range c.want {
			require.Contains(t, stderr, want, c.name)
		}
		require.NotContains(t, stderr, "goroutine", "no stack trace for a user's mistake")
	}
}

func TestTwoProxiesDoNotShareAStore(t *testing.T) {
	t.Parallel()
	p := serving(t, provide(t, echo), "")
	path := file(t, "second.yaml", fmt.Sprintf(`
admin: {listen: "127.0.0.1:0"}
dead_letters: {dir: %q}
providers:
  - {name: acct, kind: generic, listen: "127.0.0.1:0", upstream: "http://127.0.0.1:1"}
`, p.letters))
	code, _, stderr := command(t, "", nil, "serve", "--config", path)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "dead_letters.dir")
}

// Prometheus asks for protobuf when it takes native histograms.
func TestHistogramsAreNativeForWhoeverAsks(t *testing.T) {
	t.Parallel()
	p := serving(t, provide(t, echo), "")
	p.ask(http.MethodPost, p.account+"/ocr", "document")
	scrape := func(accept string) map[string]*dto.MetricFamily {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+"/metrics", nil)
		require.NoError(t, err)
		req.Header.Set("Accept", accept)
		resp, err := p.client.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		families := map[string]*dto.MetricFamily{}
		decoder := expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header))
		for {
			family := new(dto.MetricFamily)
			err := decoder.Decode(family)
			if errors.Is(err, io.EOF) {
				return families
			}
			require.NoError(t, err)
			families[family.GetName()] = family
		}
	}
	native := scrape("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")["ocrproxy_request_duration_seconds"].GetMetric()[0].GetHistogram()
	require.NotEmpty(t, native.GetPositiveSpan())
	require.EqualValues(t, 3, native.GetSchema(), "buckets that grow by a tenth at most")
	require.NotEmpty(t, native.GetBucket(), "and those that everybody reads")
	plain := scrape("text/plain")["ocrproxy_request_duration_seconds"].GetMetric()[0].GetHistogram()
	require.Empty(t, plain.GetPositiveSpan())
	require.EqualValues(t, 1, plain.GetSampleCount())
}
