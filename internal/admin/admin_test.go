package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const loopback, everywhere = "127.0.0.1:9090", "0.0.0.0:9090"

func options(t *testing.T) Options {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	up := prometheus.NewGauge(prometheus.GaugeOpts{Name: "ocrproxy_test", Help: "A figure."})
	up.Set(7)
	registry.MustRegister(up)
	dir := t.TempDir()
	store, err := dlq.Open(dir, dlq.Options{KeepPayloads: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return Options{
		Gatherer: registry, Ready: func() bool { return true }, Quit: func() {}, Listen: loopback, LettersDir: dir, Letters: store, Log: zap.NewNop(),
		Accounts: func() []Account {
			return []Account{{
				Name: "acct", Kind: "textract", Upstream: "https://up.example", InFlight: 2, Breaker: Breaker{State: "open", Reason: "failures", OpenSeconds: 1.5}, Paused: map[string]float64{"op": 3},
				Queue: map[string]Queue{"op": {Waiting: Waiting{High: 3, Normal: 8, Low: 1}, InFlight: 2, Rate: 21.7, Learned: true, PausedSeconds: 3, Held: true, OldestWaitSeconds: 4.2}}, Jobs: Jobs{Open: 4, Limit: 8}, LastHour: Hour{Attempts: map[string]int{"throttle": 2}},
			}}
		},
	}
}

// ask makes one request without a body.
func ask(t *testing.T, o Options, method, target, header string) *httptest.ResponseRecorder {
	t.Helper()
	return order(t, o, method, target, header, "")
}

// order makes one request; header holds lines "K: V", separated by |.
func order(t *testing.T, o Options, method, target, header, body string) *httptest.ResponseRecorder {
	t.Helper()
	handler, err := New(o)
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:9090"
	for line := range strings.SplitSeq(header, "|") {
		k, v, ok := strings.Cut(line, ": ")
		switch {
		case k == "Host":
			r.Host = v
		case ok:
			r.Header.Add(k, v)
		}
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func TestHealthAndReadiness(t *testing.T) {
	t.Parallel()
	ready := false
	o := options(t)
	o.Ready = func() bool { return ready }
	for _, host := range []string{"127.0.0.1", "some.pod.local:9090"} { // probes come under any name
		ready = false
		require.Equal(t, http.StatusOK, ask(t, o, http.MethodGet, "/healthz", "Host: "+host).Code)
		require.Equal(t, http.StatusServiceUnavailable, ask(t, o, http.MethodGet, "/readyz", "Host: "+host).Code)
		ready = true
		require.Equal(t, http.StatusOK, ask(t, o, http.MethodGet, "/readyz", "Host: "+host).Code)
	}
}

func TestMetricsPage(t *testing.T) {
	t.Parallel()
	w := ask(t, options(t), http.MethodGet, "/metrics", "Host: some.pod.local")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "ocrproxy_test 7\n")
	problems, err := promlint.New(w.Body).Lint()
	require.NoError(t, err, "the page parses")
	require.Empty(t, problems)
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	w := ask(t, options(t), http.MethodGet, "/api/v1/providers", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.JSONEq(t, `{"providers":[{"name":"acct","kind":"textract","upstream":"https://up.example","observes":false,"in_flight":2,
		"breaker":{"state":"open","reason":"failures","open_seconds":1.5},"paused_seconds":{"op":3},
		"queue":{"op":{"waiting":{"high":3,"normal":8,"low":1},"in_flight":2,"rate":21.7,"learned":true,"paused_seconds":3,"held":true,"oldest_wait_seconds":4.2}},"jobs":{"open":4,"limit":8},"last_hour":{"requests":0,"dead_lettered":0,"attempts":{"throttle":2}}}]}`, w.Body.String())
}

func TestQuit(t *testing.T) {
	t.Parallel()
	quits := 0
	o := options(t)
	o.Quit = func() { quits++ }
	require.Equal(t, http.StatusMethodNotAllowed, ask(t, o, http.MethodGet, "/quitquitquit", "").Code, "a link must not end the process")
	require.Zero(t, quits)
	require.Equal(t, http.StatusAccepted, ask(t, o, http.MethodPost, "/quitquitquit", "").Code)
	require.Equal(t, 1, quits)
}

func TestWhoMaySeeMoreThanMetricsAndHealth(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("correct horse\n"), 0o600))
	for _, c := range []struct {
		name   string
		change func(o *Options)
		header string
		want   int
	}{
		{"an IP literal", nil, "Host: 127.0.0.1:9090", 200},
		{"an IP literal without a port", nil, "Host: 10.1.2.3", 200},
		{"an IPv6 literal", nil, "Host: [::1]:9090", 200},
		{"localhost", nil, "Host: LocalHost:9090", 200},
		{"a name that leads here by rebinding", nil, "Host: evil.example:9090", 421},
		{"a lookalike", nil, "Host: localhost.evil.example", 421},
		{"no name", nil, "Host: ", 421},
		{"a configured name", func(o *Options) { o.Hosts = []string{"proxy.internal"} }, "Host: Proxy.Internal:9090", 200},
		{"not the configured name", func(o *Options) { o.Hosts = []string{"proxy.internal"} }, "Host: proxy.internal.evil", 421},

		{"a page's script", nil, "Origin: https://evil.example", 403},
		{"a page of a site beside this one", nil, "Sec-Fetch-Site: same-site|Origin: http://127.0.0.1:8080", 403},
		{"a page's script of an old browser", nil, "Origin: http://127.0.0.1:8080", 403},
		{"a page without an origin", nil, "Origin: null", 403},
		{"a link from another site", nil, "Sec-Fetch-Site: cross-site", 403},
		{"the listener's own page", nil, "Sec-Fetch-Site: same-origin|Origin: http://127.0.0.1:9090", 200},
		{"the listener's own page in an old browser", nil, "Origin: http://127.0.0.1:9090", 200},
		{"the listener's own page through a tunnel", nil, "Host: localhost:9999|Origin: http://localhost:9999", 200},
		{"a fetch of Node's from a server", nil, "Sec-Fetch-Mode: cors", 200},
		{"typed into a browser", nil, "Sec-Fetch-Site: none", 200},

		{"off loopback without a token file", func(o *Options) { o.Listen = everywhere }, "", 403},
		{"off loopback without a token", func(o *Options) { o.Listen, o.TokenFile = everywhere, token }, "", 401},
		{"off loopback with a wrong one", func(o *Options) { o.Listen, o.TokenFile = everywhere, token }, "Authorization: Bearer wrong", 401},
		{"off loopback with another scheme", func(o *Options) { o.Listen, o.TokenFile = everywhere, token }, "Authorization: Basic correct horse", 401},
		{"off loopback with a part of it", func(o *Options) { o.Listen, o.TokenFile = everywhere, token }, "Authorization: Bearer correct", 401},
		{"off loopback with the token", func(o *Options) { o.Listen, o.TokenFile = everywhere, token }, "Authorization: Bearer correct horse", 200},
		{"off loopback with the token as a password", func(o *Options) { o.Listen, o.TokenFile = everywhere, token }, "Authorization: Basic eDpjb3JyZWN0IGhvcnNl", 200},
		{"off loopback with a wrong password", func(o *Options) { o.Listen, o.TokenFile = everywhere, token }, "Authorization: Basic eDp3cm9uZw==", 401},
		{"every interface is off loopback", func(o *Options) { o.Listen = ":9090" }, "", 403},
		{"on loopback no token is asked for", func(o *Options) { o.TokenFile = token }, "", 200},
		{"the whole of 127/8 is loopback", func(o *Options) { o.Listen = "127.0.0.9:9090" }, "", 200},
		{"and so is ::1", func(o *Options) { o.Listen = "[::1]:9090" }, "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := options(t)
			if c.change != nil {
				c.change(&o)
			}
			for _, target := range []string{"/api/v1/providers", "/api/v1/dead-letters", "/"} {
				w := ask(t, o, http.MethodGet, target, c.header)
				require.Equal(t, c.want, w.Code, "%s: %s", target, w.Body)
				if c.want == http.StatusUnauthorized {
					require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
				}
				require.NotContains(t, w.Body.String(), "correct horse")
			}
			quit := http.StatusAccepted
			if c.want != http.StatusOK {
				quit = c.want
			}
			require.Equal(t, quit, ask(t, o, http.MethodPost, "/quitquitquit", c.header).Code)
			require.Equal(t, http.StatusOK, ask(t, o, http.MethodGet, "/metrics", c.header).Code, "scrapers are always let in")
		})
	}
}

func TestTokenFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.TokenFile = filepath.Join(t.TempDir(), "missing")
	_, err := New(o)
	require.ErrorContains(t, err, "admin.token_file")
	require.NoError(t, os.WriteFile(o.TokenFile, []byte(" \n"), 0o600))
	_, err = New(o)
	require.ErrorContains(t, err, "is empty")
}

func TestUnknownPathsAreNotFound(t *testing.T) {
	t.Parallel()
	require.Equal(t, http.StatusNotFound, ask(t, options(t), http.MethodGet, "/api/v1/payloads/x", "").Code)
}

func decode(t *testing.T, w *httptest.ResponseRecorder) (v map[string]any) {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
	return v
}
