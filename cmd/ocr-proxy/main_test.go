package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	runAsCommand()
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests for something that happens at once on a machine with nothing else to do.
const patience = 20 * time.Second

// command runs the program to its end.
func command(t *testing.T, stdin string, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, environ, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// file writes a file of its own and gives its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// logLines is where a running proxy logs to: it keeps the lines and tells who waits for one.
type logLines struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newLogLines() *logLines { return &logLines{changed: make(chan struct{})} }

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// find is the first entry with that message, once there is one.
func (l *logLines) find(t *testing.T, message string) map[string]any {
	t.Helper()
	timeout := time.After(patience)
	for {
		l.mu.Lock()
		text, changed := l.text.String(), l.changed
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			var entry map[string]any
			if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == message {
				return entry
			}
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("no line %q in:\n%s", message, text)
		}
	}
}

// proxyProcess is the program at work.
type proxyProcess struct {
	t       *testing.T
	log     *logLines
	admin   string // URL
	account string // URL
	letters string // folder
	config  string // file
	signal  context.CancelFunc
	ended   chan int
	client  *http.Client
}

// serving starts the program with one account of kind generic and waits until it is ready. more is further YAML (its first line may be keys
// of dead_letters, as "dead_letters: payloads: none"), entry further keys of the account.
func serving(t *testing.T, upstream, more string, entry ...string) *proxyProcess {
	t.Helper()
	return servingKind(t, "generic", upstream, more, entry...)
}

func servingKind(t *testing.T, kind, upstream, more string, entry ...string) *proxyProcess {
	t.Helper()
	return servingIn(t, nil, kind, upstream, more, entry...)
}

// servingIn runs the proxy in an environment.
func servingIn(t *testing.T, environ []string, kind, upstream, more string, entry ...string) *proxyProcess {
	t.Helper()
	return servingFrom(t, filepath.Join(t.TempDir(), "letters"), environ, kind, upstream, more, entry...)
}

// servingFrom runs the proxy over a folder of letters that may have something in it.
func servingFrom(t *testing.T, folder string, environ []string, kind, upstream, more string, entry ...string) *proxyProcess {
	t.Helper()
	p := &proxyProcess{t: t, log: newLogLines(), letters: folder, ended: make(chan int, 1)}
	letters := ""
	if rest, ok := strings.CutPrefix(more, "dead_letters: "); ok { // further keys of what is here already
		letters, more, _ = strings.Cut(rest, "\n")
		letters = ", " + letters
	}
	p.config = file(t, "config.yaml", fmt.Sprintf(`
admin: {listen: "127.0.0.1:0"}
dead_letters: {dir: %q%s}
body: {dir: %q}
providers:
  - {name: acct, kind: %s, listen: "127.0.0.1:0", upstream: %q%s}
%s`, p.letters, letters, t.TempDir(), kind, upstream, strings.Join(append([]string{""}, entry...), ", "), more))
	ctx, cancel := context.WithCancel(context.Background())
	p.signal = cancel
	go func() {
		p.ended <- run(ctx, []string{"serve", "--config", p.config}, environ, strings.NewReader(""), io.Discard, p.log)
	}()
	own := &http.Transport{ForceAttemptHTTP2: true} // where the proxy serves TLS
	p.client = &http.Client{Transport: own}
	t.Cleanup(func() {
		own.CloseIdleConnections()
		cancel()
		if p.ended != nil {
			p.end()
		}
	})
	p.admin = "http://" + p.log.find(t, "ready")["admin"].(string)
	p.account = "http://" + p.log.find(t, "listening")["listen"].(string)
	return p
}

// end waits for the program's end and gives its exit code.
func (p *proxyProcess) end() int {
	p.t.Helper()
	select {
	case code := <-p.ended:
		p.ended = nil
		return code
	case <-time.After(patience):
		p.t.Fatalf("it does not end:\n%s", p.log)
		return -1
	}
}

// ask makes one request.
func (p *proxyProcess) ask(method, url, body string) (status int, header http.Header, text string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, url, strings.NewReader(body))
	require.NoError(p.t, err)
	resp, err := p.client.Do(req)
	require.NoError(p.t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return resp.StatusCode, resp.Header, string(data)
}

type answered struct {
	status int
	header http.Header
	text   string
}

// later makes a request in the background.
func (p *proxyProcess) later(body string) <-chan answered {
	done := make(chan answered, 1)
	go func() {
		req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.account+"/ocr", strings.NewReader(body))
		if err != nil {
			done <- answered{text: err.Error()}
			return
		}
		resp, err := p.client.Do(req)
		if err != nil {
			done <- answered{text: err.Error()}
			return
		}
		defer func() { _ = resp.Body.Close() }()
		data, _ := io.ReadAll(resp.Body)
		done <- answered{resp.StatusCode, resp.Header, string(data)}
	}()
	return done
}
