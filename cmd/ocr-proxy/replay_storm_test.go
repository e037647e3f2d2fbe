package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/sim"
)

// asCommand has the test's own program run as ocr-proxy, so that it can be killed.
const asCommand = "OCR_PROXY_TEST_AS_COMMAND"

// kills is how often something is killed in one storm.
const kills = 5

// stormSize is how many letters a storm replays: `make replay-storm` asks for many.
func stormSize(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("REPLAY_STORM"))
	if err != nil {
		return 240
	}
	return n
}

// storm is a proxy in a process of its own before a simulated provider that counts.
type storm struct {
	t       *testing.T
	letters int
	config  string
	dir     string
	admin   string
	account string
	sim     *sim.Server

	mu      sync.Mutex
	calls   map[string]int // by body
	done    int            // calls that came to an end
	mark    int            // at which reached is closed
	reached chan struct{}
}

func newStorm(t *testing.T) *storm {
	t.Helper()
	provider, err := sim.New(sim.Options{Kind: sim.KindTextract, Faults: sim.Faults{ErrorRate: 1}})
	require.NoError(t, err)
	s := &storm{t: t, letters: stormSize(t), dir: filepath.Join(t.TempDir(), "letters"), sim: provider, calls: map[string]int{}, mark: math.MaxInt}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.admin, s.account = freeAddress(t), freeAddress(t)
	s.config = file(t, "config.yaml", fmt.Sprintf(`
admin: {listen: %q}
dead_letters: {dir: %q}
retry: {max_attempts: 1}
breaker: {failure_threshold: 1000000}
providers:
  - {name: acct, kind: textract, listen: %q, upstream: %q, auth: {type: none}}
`, s.admin, s.dir, s.account, server.URL))
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (s *storm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.calls[string(body)]++
	s.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.sim.ServeHTTP(w, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done++; s.done == s.mark {
		close(s.reached)
	}
}

// after is closed when n more calls have come to an end.
func (s *storm) after(n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark, s.reached = s.done+n, make(chan struct{})
	return s.reached
}

// program starts ocr-proxy as a process.
func (s *storm) program(args ...string) (cmd *exec.Cmd, log *logLines) {
	s.t.Helper()
	log = newLogLines()
	cmd = exec.Command(os.Args[0], append(args, "--config", s.config)...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, log
}

func (s *storm) proxy() *exec.Cmd {
	s.t.Helper()
	cmd, log := s.program("serve")
	log.find(s.t, "ready")
	return cmd
}

// kill ends a process as the kernel does that is out of memory.
func (s *storm) kill(cmd *exec.Cmd) {
	s.t.Helper()
	require.NoError(s.t, cmd.Process.Kill())
	require.Error(s.t, cmd.Wait())
}

// kill ends a process that another waits for.
func (r *running) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, r.Process.Kill())
	require.Error(t, <-r.ended)
}

// fail has every call fail once and leave a letter; then the provider is well.
func (s *storm) fail(operation string, body func(n int) string) {
	s.t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for n := worker; n < s.letters; n += 16 {
				req, _ := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.account+"/", strings.NewReader(body(n)))
				req.Header.Set("X-Amz-Target", "Textract."+operation)
				req.Header.Set("Content-Type", "application/x-amz-json-1.1")
				resp, err := client.Do(req)
				if err != nil {
					s.t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	wg.Wait()
	require.Len(s.t, s.list(dlq.StatusOpen), s.letters)
	require.Zero(s.t, s.sim.Stats().Accepted)
	s.mu.Lock()
	clear(s.calls)
	s.mu.Unlock()
	require.NoError(s.t, s.sim.SetFaults(sim.Faults{Latency: 5 * time.Millisecond, LatencyJitter: 10 * time.Millisecond}))
}

func (s *storm) list(status string) (all []dlq.Letter) {
	s.t.Helper()
	r, err := dlq.View(s.dir)
	require.NoError(s.t, err)
	for l, err := range r.List(dlq.Filter{Status: status}) {
		require.NoError(s.t, err)
		all = append(all, l)
	}
	return all
}

// running is a process that is waited for.
type running struct {
	*exec.Cmd
	log   *logLines
	ended chan error
}

// partly runs the command until a part of the letters has been sent. It tells whether the command ended before.
func (s *storm) partly() (r *running, early bool) {
	s.t.Helper()
	reached := s.after(s.letters / (2 * kills))
	r = &running{ended: make(chan error, 1)}
	r.Cmd, r.log = s.program("dlq", "replay")
	go func() { r.ended <- r.Wait() }()
	select {
	case <-reached:
		return r, false
	case err := <-r.ended:
		require.NoError(s.t, err, "%s", r.log)
		return r, true
	}
}

// finish runs the command until nothing is left to do.
func (s *storm) finish(killed int) {
	s.t.Helper()
	require.GreaterOrEqual(s.t, killed, min(kills, max(2, s.letters/200)), "a small storm on a busy machine is over early")
	for range 3 {
		cmd, log := s.program("dlq", "replay")
		if cmd.Wait() == nil {
			break
		}
		s.t.Log(log)
	}
	resolved := s.list(dlq.StatusResolved)
	require.Len(s.t, resolved, s.letters)
	require.Empty(s.t, s.list(dlq.StatusOpen))
	require.Empty(s.t, s.list(dlq.StatusClaimed))
	for _, l := range resolved {
		require.FileExists(s.t, filepath.Join(s.dir, "results", l.ID))
	}
}

func detection(n int) string {
	return fmt.Sprintf(`{"Document":{"Bytes":"JVBERi0xLjQg%08d"}}`, n) // "%PDF-1.4 " and something of its own
}

func jobStart(n int) string {
	return fmt.Sprintf(`{"DocumentLocation":{"S3Object":{"Bucket":"b","Name":"scan-%d.pdf"}}}`, n)
}

func TestReplayStormCommandIsKilled(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	proxy := s.proxy()
	s.fail("DetectDocumentText", detection)
	began := time.Now()
	killed := 0
	for ; killed < kills; killed++ {
		command, early := s.partly()
		if early {
			break
		}
		command.kill(t)
	}
	s.finish(killed)
	stats := s.sim.Stats()
	require.Equal(t, s.letters, stats.Accepted, "each document was read once")
	require.Zero(t, stats.Lost)
	require.Len(t, s.calls, s.letters)
	t.Logf("%d letters, command killed %d times: %d calls accepted, in %v", s.letters, killed, stats.Accepted, time.Since(began).Round(time.Millisecond))
	s.kill(proxy)
}

// proxyKilled replays with the proxy killed on the way.
func (s *storm) proxyKilled(proxy *exec.Cmd) (killed int) {
	s.t.Helper()
	for ; killed < kills; killed++ {
		command, early := s.partly()
		if early {
			break
		}
		s.kill(proxy)
		require.Error(s.t, <-command.ended, "%s", command.log)
		require.Contains(s.t, command.log.String(), "run the command again")
		proxy = s.proxy()
	}
	s.finish(killed)
	s.kill(proxy)
	return killed
}

func TestReplayStormProxyIsKilledOverJobStarts(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	proxy := s.proxy()
	s.fail("StartDocumentTextDetection", jobStart)
	began := time.Now()
	killed := s.proxyKilled(proxy)
	stats := s.sim.Stats()
	require.Equal(t, s.letters, stats.Jobs, "each document is one job")
	jobs := map[string]bool{}
	for _, l := range s.list(dlq.StatusResolved) {
		result, err := os.ReadFile(filepath.Join(s.dir, "results", l.ID))
		require.NoError(t, err)
		_, id, ok := strings.Cut(string(result), `"JobId":"`)
		require.True(t, ok, "%s", result)
		jobs[id] = true
	}
	require.Len(t, jobs, s.letters, "and every letter has its own")
	again := 0
	for _, n := range s.calls {
		again += n - 1
	}
	t.Logf("%d job starts, proxy killed %d times: %d jobs, %d calls repeated under their token, in %v", s.letters, killed, stats.Jobs, again, time.Since(began).Round(time.Millisecond))
}

func TestReplayStormProxyIsKilledOverSynchronousCalls(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	proxy := s.proxy()
	s.fail("DetectDocumentText", detection)
	began := time.Now()
	killed := s.proxyKilled(proxy)
	interrupted, marked := 0, map[string]bool{}
	for _, l := range s.list(dlq.StatusResolved) {
		for _, r := range l.Replays {
			require.Equal(t, dlq.ReplayInterrupted, r.Outcome)
			require.True(t, l.Ambiguous)
			interrupted++
		}
		marked[l.Request.BodySHA256] = l.Ambiguous
	}
	extra := 0
	for body, n := range s.calls {
		extra += n - 1
		require.True(t, n == 1 || marked[sha256Hex(body)], "a document that was read twice says that it may have been")
	}
	require.LessOrEqual(t, extra, interrupted, "no more than were under way")
	require.LessOrEqual(t, interrupted, killed*16)
	t.Logf("%d synchronous calls, proxy killed %d times: %d extra calls, %d letters marked as interrupted, in %v", s.letters, killed, extra, interrupted, time.Since(began).Round(time.Millisecond))
}

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// runAsCommand is the program itself, where a test started it so.
func runAsCommand() {
	if os.Getenv(asCommand) != "" {
		main()
	}
}
