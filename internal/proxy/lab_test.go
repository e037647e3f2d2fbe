package proxy

import (
	"bytes"
	"context"
	"hash/maphash"
	"io"
	"log"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/memnet"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

const (
	listener = "proxy:80"    // where the worker reaches the account
	vendor   = "provider:80" // where the account reaches its provider
)

// inBubble runs a test in fake time.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// setup is what a test may change of an account before it exists.
type setup struct {
	kind    string
	base    string // path of the upstream
	policy  Policy
	breaker breaker.Settings
	bodies  spool.Limits
	queue   pace.Settings
	hold    bool // for an open circuit
	// openJobs are the jobs that may be open; 0: any number.
	openJobs int
	account  func(a *Account)
}

// top is a draw that makes every wait the longest that it may be.
func top(ceiling time.Duration) time.Duration { return ceiling }

func defaults(kind string) setup {
	return setup{
		kind: kind,
		policy: Policy{
			Policy:         retry.Policy{MaxAttempts: 4, Base: time.Second, Cap: 30 * time.Second, Total: 90 * time.Second, Jitter: top},
			AttemptTimeout: 10 * time.Second, PurseRatio: 0.2, PurseFloor: 10,
		},
		breaker: breaker.Settings{
			FailureThreshold: 5, MinRequests: 20, Window: time.Minute, ResetTimeout: time.Minute, HalfOpenProbes: 1,
			ProbeLease: 100 * time.Second, EagerProbe: 2 * time.Second,
		},
		queue:  pace.Settings{StartRate: 2, Recovery: 10 * time.Second, MaxWaiting: 10000},
		bodies: spool.Limits{MaxBytes: 32 << 20, MemoryPerBody: 1 << 20, MemoryTotal: 16 << 20},
	}
}

// build makes the account, its registry and what it writes to.
func (s setup) build(t testing.TB, upstream *url.URL, transport http.RoundTripper) (*Account, *graveyard, *observer.ObservedLogs, *prometheus.Registry) {
	t.Helper()
	kind, err := provider.Find(s.kind)
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	if s.bodies.Dir == "" {
		s.bodies.Dir = t.TempDir()
	}
	bodies, err := spool.New(s.bodies, registry)
	require.NoError(t, err)
	core, logs := observer.New(zapcore.DebugLevel)
	scopes := append([]string{provider.Other}, kind.Operations...)
	var queues *pace.Queues
	group := breaker.NewGroup("acct", s.breaker, 16, breaker.Observer{
		Transition: func(breaker.State, breaker.State, breaker.Reason, time.Time) { queues.CircuitChanged() },
	})
	breaker.NewMetrics(registry).Add(group)
	s.queue.MaxPause, s.queue.Smear = max(s.policy.Total, s.policy.Cap), Smear
	permits := pace.NewPermits(s.openJobs, time.Hour, s.queue.Recovery)
	queues = pace.NewQueues("acct", scopes, s.queue, CircuitOf(group, s.hold), permits)
	pace.NewMetrics(registry).Add(queues)
	sink := &graveyard{}
	purse := new(retry.Purse)
	a := &Account{
		Name: "acct", Provider: kind, Upstream: upstream,
		Policy: func(string) Policy { return s.policy }, Credential: credential.Passthrough(),
		Breakers: group, HoldOpen: s.hold, Queues: queues, Permits: permits, Adaptive: s.queue.Adaptive, Purse: purse, Transport: transport, Bodies: bodies, MaxBody: s.bodies.MaxBytes,
		CopyBuffers: NewBuffers(32<<10, 8), Sink: sink, Version: "v1", Metrics: NewMetrics(registry).Account("acct", s.kind, purse),
		Log: zap.New(core), ErrorLog: log.New(io.Discard, "", 0), Ending: context.Background(), Seed: maphash.MakeSeed(),
	}
	if s.account != nil {
		s.account(a)
	}
	return a, sink, logs, registry
}

// lab is an account between a worker and a scripted provider, on a network in memory. Everything in it is real but the network, the clock and
// the dead-letter store, which only keeps what it is given.
type lab struct {
	t        *testing.T
	account  *Account
	upstream *scripted
	sink     *graveyard
	logs     *observer.ObservedLogs
	registry *prometheus.Registry
	worker   *http.Transport
	network  *memnet.Network
}

// newLab opens a lab inside a bubble. It is torn down when the test ends.
func newLab(t *testing.T, s setup, steps ...step) *lab {
	t.Helper()
	network := new(memnet.Network)
	upstream := &scripted{t: t, network: network, steps: steps}
	out := &http.Transport{DialContext: upstream.dial, DisableCompression: true}
	base, err := url.Parse("http://" + strings.TrimSuffix(vendor, ":80") + s.base)
	require.NoError(t, err)
	l := &lab{t: t, upstream: upstream, network: network, worker: &http.Transport{DialContext: network.DialContext, DisableCompression: true}}
	l.account, l.sink, l.logs, l.registry = s.build(t, base, out)
	upstreamServer := serve(t, network, vendor, upstream)
	proxyServer := serve(t, network, listener, l.account)
	t.Cleanup(func() {
		l.worker.CloseIdleConnections()
		proxyServer()
		out.CloseIdleConnections()
		upstreamServer()
		l.noTurnIsOut()
	})
	return l
}

func serve(t *testing.T, network *memnet.Network, address string, handler http.Handler) (stop func()) {
	t.Helper()
	l, err := network.Listen(address)
	require.NoError(t, err)
	server := &http.Server{Handler: handler, Protocols: Protocols(), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(panics{t}, "", 0)}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return func() {
		_ = server.Close()
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	}
}

// panics fails a test for what a server says about a handler that panicked; the deliberate abort of a connection is not among it.
type panics struct{ t *testing.T }

func (p panics) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("panic")) {
		p.t.Errorf("%s", line)
	}
	return len(line), nil
}

// call is what a worker asks.
type call struct {
	method string // POST
	target string // /ocr
	host   string // by which the worker reaches the listener; "": proxy
	header string // lines "K: V", separated by |
	body   string
}

// reply is what the worker gets.
type reply struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
	err     error         // the connection broke, before or within the body
	took    time.Duration // until the last byte
}

// outcome is the proxy's own header of that name.
func (r reply) own(name string) string { return r.header.Get(instructionPrefix + name) }

// send makes a call and reads the answer to its end.
func (l *lab) send(ctx context.Context, c call) (r reply) {
	l.t.Helper()
	start := time.Now()
	defer func() { r.took = time.Since(start) }()
	req := c.request(ctx, l.t, "http://proxy")
	resp, err := l.worker.RoundTrip(req)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, trailer: resp.Trailer, body: string(body), err: err}
}

func (c call) request(ctx context.Context, t *testing.T, base string) *http.Request {
	t.Helper()
	method, target := c.method, c.target
	if method == "" {
		method = http.MethodPost
	}
	if target == "" {
		target = "/ocr"
	}
	var body io.Reader = http.NoBody
	if c.body != "" {
		body = bytes.NewReader([]byte(c.body))
	}
	req, err := http.NewRequestWithContext(ctx, method, base+target, body)
	require.NoError(t, err)
	req.Header, req.Host = headerOf(c.header), c.host
	return req
}

// headerOf reads lines "K: V" that are separated by |.
func headerOf(lines string) http.Header {
	h := http.Header{}
	for line := range strings.SplitSeq(lines, "|") {
		if k, v, ok := strings.Cut(line, ": "); ok {
			h.Add(k, v)
		}
	}
	return h
}

// later makes a call in the background.
func (l *lab) later(ctx context.Context, c call) <-chan reply {
	done := make(chan reply, 1)
	go func() { done <- l.send(ctx, c) }()
	return done
}

// figure is the sum over all series of a metric that have those labels (name, value, name, value …), as a scrape shows them: values, or numbers
// of observations.
func (l *lab) figure(metric string, labels ...string) int {
	l.t.Helper()
	families, err := l.registry.Gather()
	require.NoError(l.t, err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() != "ocrproxy_"+metric {
			continue
		}
		for _, series := range family.GetMetric() {
			have := map[string]string{}
			for _, pair := range series.GetLabel() {
				have[pair.GetName()] = pair.GetValue()
			}
			matches := true
			for i := 0; i < len(labels); i += 2 {
				matches = matches && have[labels[i]] == labels[i+1]
			}
			if matches {
				sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
			}
		}
	}
	return int(sum)
}

func (l *lab) requests(outcome Outcome) int {
	return l.figure("requests_total", "outcome", string(outcome))
}
func (l *lab) attempts(class string) int { return l.figure("attempts_total", "class", class) }
func (l *lab) ended(word string) int     { return l.figure("retry_outcomes_total", "outcome", word) }

// circuit is the state of the account's breaker, without those of credentials.
func (l *lab) circuit() breaker.Snapshot { return l.account.Breakers.For("").Snapshot() }

// quiet asserts that nothing is left of any request.
func (l *lab) quiet() {
	l.t.Helper()
	synctest.Wait()
	require.Zero(l.t, l.account.Purse.InProgress(), "no request is in progress")
	for _, gauge := range []string{"in_flight", "body_spilled_bytes", "body_memory_bytes"} {
		require.Zero(l.t, l.figure(gauge), gauge)
	}
}

// noTurnIsOut tells that every turn has been given back, whatever became of its call: one that was not would be missing for as long as the process lives.
func (l *lab) noTurnIsOut() {
	l.t.Helper()
	for _, a := range l.account.group() {
		for _, scope := range a.Queues.Scopes() {
			queue := a.Queues.For(scope).Snapshot()
			require.Zero(l.t, queue.InFlight, scope)
			require.Zero(l.t, queue.Oldest, scope)
		}
	}
}
