package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ocr-proxy/ocr-proxy/config"
)

// changing is a server at work whose configuration a test changes at will.
type changing struct {
	*server
	t      *testing.T
	head   string // of every configuration
	client *http.Client
	logs   *observer.ObservedLogs
}

func startChanging(t *testing.T, text string) *changing {
	t.Helper()
	r := &changing{t: t, head: fmt.Sprintf("admin: {listen: '127.0.0.1:0'}\ndead_letters: {dir: %q}\nbody: {dir: %q}\n", t.TempDir(), t.TempDir())}
	core, logs := observer.New(zap.InfoLevel)
	r.logs = logs
	var err error
	r.server, err = open(t.Context(), r.parse(text), nil, zap.New(core))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.run(ctx) }()
	require.Eventually(t, r.ready.Load, patience, idlePoll)
	transport := &http.Transport{MaxIdleConnsPerHost: 300}
	r.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		require.NoError(t, <-done)
	})
	return r
}

func (r *changing) parse(text string) *config.Config {
	r.t.Helper()
	cfg, err := config.Parse([]byte(r.head+text), nil)
	require.NoError(r.t, err)
	return cfg
}

func (r *changing) change(text string) []string {
	r.t.Helper()
	pending, err := r.apply(r.t.Context(), r.parse(text))
	require.NoError(r.t, err)
	return pending
}

// address is where an account is reached; "": nowhere.
func (r *changing) address(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.servers {
		if b.name == name && !b.leaves {
			return "http://" + b.listener.Addr().String()
		}
	}
	return ""
}

func (r *changing) post(url string) (status int, header http.Header, err error) {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, url+"/ocr", strings.NewReader("document"))
	if err != nil {
		return 0, nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header, err
}

func (r *changing) counter(pattern string) float64 {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.server.admin.listener.Addr().String()+"/metrics", nil)
	require.NoError(r.t, err)
	resp, err := r.client.Do(req)
	require.NoError(r.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	found := regexp.MustCompile(`(?m)^` + pattern + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return -1
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(r.t, err)
	return n
}

func entry(name, listen, upstream, more string) string {
	return fmt.Sprintf("  - {name: %s, kind: generic, listen: %q, upstream: %q%s}\n", name, listen, upstream, more)
}

func TestAnOpenCircuitStaysOpenUnderOtherSettings(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	bad := provide(t, func(w http.ResponseWriter, _ *http.Request) {
		if !well.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	text := func(threshold, attempts int) string {
		return fmt.Sprintf("retry: {max_attempts: %d, base_delay: 1ms}\nbreaker: {failure_threshold: %d}\nproviders:\n", attempts, threshold) + entry("a", "127.0.0.1:0", bad, "")
	}
	r := startChanging(t, text(3, 1))
	a := r.address("a")
	for range 3 {
		status, _, err := r.post(a)
		require.NoError(t, err)
		require.Equal(t, http.StatusInternalServerError, status)
	}
	require.Empty(t, r.change(text(50, 2)))
	require.Equal(t, a, r.address("a"), "the listener stays")
	_, header, err := r.post(a)
	require.NoError(t, err)
	require.Equal(t, "circuit_open", header.Get("Ocr-Proxy-Outcome"))
	require.Equal(t, 2, r.current()[0].Policy("other").MaxAttempts)
	require.InDelta(t, 1, r.counter(`ocrproxy_breaker_transitions_total\{from="closed",provider="a",to="open"\}`), 0)
	require.InDelta(t, 3, r.counter(`ocrproxy_requests_total\{kind="generic",operation="other",outcome="exhausted",provider="a"\}`), 0)

	// A shorter rest counts for the circuit that is open already.
	well.Store(true)
	r.change(strings.Replace(text(50, 2), "breaker: {", "breaker: {reset_timeout: 10ms, ", 1))
	require.Eventually(t, func() bool {
		status, _, err := r.post(a)
		return err == nil && status == http.StatusOK
	}, patience, idlePoll)
}

// A hundred wait at one call in an hour; another rate lets them go, and nobody loses his place.
func TestThoseWhoWaitGoByTheNewRate(t *testing.T) {
	t.Parallel()
	up := provide(t, echo)
	with := func(rate string) string {
		return "retry: {total_budget: 300h}\npacing: {rate: " + rate + "}\nproviders:\n" + entry("a", "127.0.0.1:0", up, "")
	}
	r := startChanging(t, with("0.0003"))
	a := r.address("a")
	var waiting sync.WaitGroup
	var good atomic.Int32
	for range 101 {
		waiting.Go(func() {
			if status, _, err := r.post(a); err == nil && status == http.StatusOK {
				good.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool {
		return r.current()[0].Queues.For("other").Snapshot().Waiting[0] == 100
	}, patience, idlePoll)
	r.change(with("10000"))
	waiting.Wait()
	require.EqualValues(t, 101, good.Load())
}

func TestAccountsComeAndGoAndWhatIsUnderWayIsFinished(t *testing.T) {
	t.Parallel()
	upstream, arrived, release := held(t)
	both := "providers:\n" + entry("a", "127.0.0.1:0", upstream, "") + entry("b", "127.0.0.1:0", upstream, "")
	one := "providers:\n" + entry("a", "127.0.0.1:0", upstream, "")
	r := startChanging(t, one)
	require.Empty(t, r.address("b"))
	require.Empty(t, r.change(both))
	b := r.address("b")
	got := make(chan int, 1)
	go func() {
		status, _, _ := r.post(b)
		got <- status
	}()
	<-arrived
	require.Empty(t, r.change(one))
	require.Eventually(t, func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(b, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, patience, idlePoll, "nothing new is taken")
	require.EqualValues(t, 1, r.inProgress(), "a drain would wait for it")
	release <- struct{}{}
	require.Equal(t, http.StatusOK, <-got)
	require.Eventually(t, func() bool { return r.counter(`ocrproxy_in_flight\{provider="b"\}`) == -1 }, patience, idlePoll)
	require.InDelta(t, 1, r.counter(`ocrproxy_requests_total\{kind="generic",operation="other",outcome="success",provider="b"\}`), 0, "what was counted stays")

	r.change(both) // and here it is again
	go func() { <-arrived; release <- struct{}{} }()
	status, _, err := r.post(r.address("b"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.InDelta(t, 2, r.counter(`ocrproxy_requests_total\{kind="generic",operation="other",outcome="success",provider="b"\}`), 0)
	require.InDelta(t, 0, r.counter(`ocrproxy_in_flight\{provider="b"\}`), 0)
}

func TestAnAccountThatIsRenamedKeepsItsListener(t *testing.T) {
	t.Parallel()
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	up := provide(t, echo)
	r := startChanging(t, "providers:\n"+entry("a", address, up, ""))
	require.Empty(t, r.change("providers:\n"+entry("z", address, up, "")))
	require.Empty(t, r.address("a"))
	status, _, err := r.post("http://" + address)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.InDelta(t, 1, r.counter(`ocrproxy_requests_total\{kind="generic",operation="other",outcome="success",provider="z"\}`), 0)
}

func TestWhatCannotBeAppliedLeavesAllAsItWas(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	up := provide(t, echo)
	one := "providers:\n" + entry("a", "127.0.0.1:0", up, "")
	r := startChanging(t, one)
	before := r.current()[0]
	for name, text := range map[string]string{
		"an address that is taken":       one + entry("c", "127.0.0.1:0", up, "") + entry("b", taken.Addr().String(), up, ""),
		"an admin token that is not one": one + "retry: {max_attempts: 2}\n",
	} {
		cfg := r.parse(text)
		if strings.HasPrefix(name, "an admin token") {
			cfg.Admin.TokenFile = file(t, "token", " ")
		}
		_, err := r.apply(t.Context(), cfg)
		require.Error(t, err, name)
		require.Same(t, before, r.current()[0], name)
		require.Len(t, r.servers, 1, name)
	}

	// A restart is needed for some, and the rest is applied.
	pending := r.change("state: {url: 'redis://127.0.0.1:1'}\nretry: {max_attempts: 2}\n" + one)
	require.Equal(t, []string{"state.url"}, pending)
	require.Equal(t, 2, r.current()[0].Policy("other").MaxAttempts)
	status, _, err := r.post(r.address("a"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
}

// Fifty changes under constant traffic, some of which take an account out and put it in again: no request fails, no count goes back, and nothing
// is left behind (the package's tests end with a look at all goroutines).
func TestFiftyChangesUnderLoad(t *testing.T) {
	t.Parallel()
	up := provide(t, echo)
	text := func(i int) string {
		s := fmt.Sprintf("log: {level: %s}\nretry: {max_attempts: %d, base_delay: 1ms}\nbreaker: {failure_threshold: %d, on_open: %s}\npacing: {max_in_flight: %d, rate: %d}\nrescue: {ttl: %dm}\nproviders:\n",
			[]string{"info", "warn"}[i%2], 2+i%5, 5+i%7, []string{"wait", "reject"}[i%2], 50+i, 1000*(i%2), 1+i%3)
		s += entry("a", "127.0.0.1:0", up, "")
		if i%3 > 0 {
			s += entry("b", "127.0.0.1:0", up, fmt.Sprintf(", auth: {type: none}, retry: {max_attempts: %d}", 1+i%2))
		}
		return s
	}
	r := startChanging(t, text(0))
	a := r.address("a")
	var stop atomic.Bool
	var sent atomic.Int64
	var load sync.WaitGroup
	for range 200 {
		load.Go(func() {
			for !stop.Load() {
				status, _, err := r.post(a)
				sent.Add(1)
				if err != nil || status != http.StatusOK {
					t.Errorf("a request failed: %d %v", status, err)
					return
				}
			}
		})
	}
	const counted = `ocrproxy_requests_total\{kind="generic",operation="other",outcome="success",provider="a"\}`
	last := -1.0 // not there before the first request has ended
	for i := range 50 {
		require.Empty(t, r.change(text(i+1)))
		now := r.counter(counted)
		require.GreaterOrEqual(t, now, last)
		last = now
		before := sent.Load()
		require.Eventually(t, func() bool { return sent.Load() > before+20 }, patience, idlePoll, "it goes on")
	}
	stop.Store(true)
	load.Wait()
	require.InDelta(t, float64(sent.Load()), r.counter(counted), 0, "each was counted once")
	r.change(text(0)) // without b
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.servers) == 1
	}, patience, idlePoll, "no listener is left of those that went")
	require.Zero(t, r.inProgress())
}

// What is shown of an account is what is in effect: of one that was refused nothing is, and one that acts again does not observe.
func TestWhatIsShownIsWhatIsInEffect(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	bad := provide(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	text := func(more string) string {
		return "retry: {max_attempts: 1}\nbreaker: {failure_threshold: 1}\nproviders:\n" + entry("a", "127.0.0.1:0", bad, more)
	}
	r := startChanging(t, text(""))
	_, _, err = r.post(r.address("a"))
	require.NoError(t, err)
	shown := func(name string) []float64 {
		return []float64{
			r.counter(`ocrproxy_breaker_state\{provider="` + name + `",state="open"\}`), r.counter(`ocrproxy_observing\{provider="` + name + `"\}`),
			r.counter(`ocrproxy_in_flight\{provider="` + name + `"\}`),
		}
	}
	require.Equal(t, []float64{1, -1, 0}, shown("a"))

	refused := text(", mode: observe") + entry("b", "127.0.0.1:0", bad, ", mode: observe") + entry("c", taken.Addr().String(), bad, "")
	cfg := r.parse(refused)
	_, err = r.apply(t.Context(), cfg)
	require.Error(t, err)
	cfg = r.parse(text(", mode: observe") + entry("b", "127.0.0.1:0", bad, ", mode: observe"))
	cfg.Admin.TokenFile = file(t, "token", " ")
	_, err = r.apply(t.Context(), cfg)
	require.Error(t, err)
	require.Equal(t, []float64{1, -1, 0}, shown("a"), "its circuit is open still")
	require.Equal(t, []float64{-1, -1, -1}, shown("b"))

	r.change(text(", mode: observe"))
	require.Equal(t, []float64{0, 1, 0}, shown("a"))
	r.change(text(""))
	require.Equal(t, []float64{1, -1, 0}, shown("a"))
	r.change(text(", mode: observe"))
	r.change("providers:\n" + entry("z", "127.0.0.1:0", bad, ""))
	require.Eventually(t, func() bool { return r.counter(`ocrproxy_in_flight\{provider="a"\}`) == -1 }, patience, idlePoll)
	require.Equal(t, []float64{-1, -1, -1}, shown("a"))
}
