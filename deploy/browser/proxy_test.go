package browser

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// engine is a provider whose answer can be changed.
type engine struct {
	*httptest.Server
	answer atomic.Pointer[answer]
	calls  atomic.Int64
}

type answer struct {
	status int
	body   string
}

func newEngine(t *testing.T, status int, body string) *engine {
	t.Helper()
	e := &engine{}
	e.will(status, body)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		e.calls.Add(1)
		a := e.answer.Load()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *engine) will(status int, body string) { e.answer.Store(&answer{status, body}) }

// account is a provider account of the proxy. more are further lines of its configuration.
type account struct{ name, kind, upstream, more string }

// proxy is a running `ocr-proxy serve`.
type proxy struct {
	admin  string            // base URL of the page
	listen map[string]string // base URLs of the accounts
}

func startProxy(t *testing.T, accounts ...account) *proxy {
	t.Helper()
	dir := t.TempDir()
	ports := freePorts(t, len(accounts)+1)
	p := &proxy{admin: "http://" + ports[0], listen: map[string]string{}}
	var b strings.Builder
	fmt.Fprintf(&b, "log: {level: error}\nadmin: {listen: %q}\nshutdown: {drain_timeout: 1s}\ndead_letters: {dir: %q}\nretry: {max_attempts: 1}\nproviders:\n", ports[0], filepath.Join(dir, "letters"))
	for i, a := range accounts {
		p.listen[a.name] = "http://" + ports[i+1]
		fmt.Fprintf(&b, "  - {name: %s, kind: %s, listen: %q, upstream: %q, %s}\n", a.name, a.kind, ports[i+1], a.upstream, a.more)
	}
	config := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte(b.String()), 0o600))
	start(t, p.admin+"/readyz", "serve", "--config", config)
	return p
}

// startSim runs a simulated provider that plays a script first, and gives its base URL.
func startSim(t *testing.T, kind, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
	port := freePorts(t, 1)[0]
	start(t, "http://"+port+"/__sim/stats", "sim", "--kind", kind, "--listen", port, "--script", file)
	return "http://" + port
}

// start runs the program until the test ends, and waits until it answers.
func start(t *testing.T, ready string, args ...string) {
	t.Helper()
	var log strings.Builder
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("ocr-proxy %s said:\n%s", args[0], log.String())
		}
	})
	eventually(t, "ocr-proxy "+args[0]+" answers", func() bool {
		r, err := http.Get(ready)
		if err == nil {
			r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	})
}

func freePorts(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !so(); time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "in vain: %s", what)
	}
}

// send has a worker send a document; header holds lines "K: V".
func (p *proxy) send(t *testing.T, account, path, body, document string, header ...string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, p.listen[account]+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Ocr-Proxy-Document-Id", document)
	for _, line := range header {
		k, v, _ := strings.Cut(line, ": ")
		r.Header.Set(k, v)
	}
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer got.Body.Close()
	require.NotEmpty(t, got.Header.Get("Ocr-Proxy-Dead-Letter-Id"), "status %d", got.StatusCode)
}

// letter is what these tests look at of a dead letter.
type letter struct {
	ID         string `json:"id"`
	DocumentID string `json:"document_id"`
	Resolution struct{ By, Note, Label string }
}

// letters asks the API.
func (p *proxy) letters(t *testing.T, query string) []letter {
	t.Helper()
	var page struct {
		Letters []letter `json:"dead_letters"`
	}
	getJSON(t, p.admin+"/api/v1/dead-letters?"+query, &page)
	return page.Letters
}

func getJSON(t *testing.T, url string, into any) {
	t.Helper()
	r, err := http.Get(url)
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.NoError(t, json.NewDecoder(r.Body).Decode(into))
}
