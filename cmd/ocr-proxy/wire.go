package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/admin/client"
	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/calls"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/clients"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/share"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
	"github.com/ocr-proxy/ocr-proxy/internal/trace"
	"github.com/ocr-proxy/ocr-proxy/internal/watch"
	"github.com/ocr-proxy/ocr-proxy/internal/webhook"
)

const (
	// maxCredentials bounds the circuits of one account whose workers' credentials pass through.
	maxCredentials = 256
	// eagerProbe is how soon a request that holds may probe an open circuit.
	eagerProbe = 2 * time.Second
	// leaseSlack is what a probe's lease adds to the longest that a request may take.
	leaseSlack = 10 * time.Second
	// copyBuffers bounds the buffers that are kept for answers, copySize their size in bytes.
	copyBuffers, copySize = 256, 32 << 10
)

// shared is what all accounts use.
type shared struct {
	log      *zap.Logger
	environ  []string
	bodies   *spool.Pool
	maxBody  int64
	sink     proxy.Sink
	jobs     *dlq.Store    // nil: jobs are not journaled
	state    *share.Store  // nil: nothing is shared with other processes
	tracer   *trace.Tracer // nil: nothing is traced
	tell     *announcer
	version  string
	ending   context.Context //nolint:containedctx // the life of the process
	requests *proxy.Metrics
	breakers *breaker.Metrics
	queues   *pace.Metrics
	watches  *watch.Metrics
	copies   *proxy.Buffers
	calls    *calls.Table
	seed     maphash.Seed

	standing map[standingKey]*standing // what outlives a change of settings, also of accounts that were taken out and may come back
	secrets  map[string]secret         // by account and key
	ways     map[string]way            // by account
}

func newShared(ending context.Context, cfg *config.Config, environ []string, logger *zap.Logger, reg prometheus.Registerer, bodies *spool.Pool, sink proxy.Sink, tell *announcer) *shared {
	return &shared{
		log: logger, tell: tell, environ: environ, bodies: bodies, maxBody: int64(cfg.Body.MaxBytes), sink: sink, version: cfg.DeadLetters.ProcessingVersion, ending: ending,
		requests: proxy.NewMetrics(reg), breakers: breaker.NewMetrics(reg), queues: pace.NewMetrics(reg), watches: watch.NewMetrics(reg),
		calls:  calls.New(calls.Limits{TTL: cfg.Rescue.TTL, MaxBytes: int64(cfg.Rescue.MaxBytes)}),
		copies: proxy.NewBuffers(copySize, copyBuffers), seed: maphash.MakeSeed(),
		standing: map[standingKey]*standing{}, secrets: map[string]secret{}, ways: map[string]way{},
	}
}

// account wires one entry of the providers list.
func (s *shared) account(ctx context.Context, c config.Provider) (*proxy.Account, error) {
	kind, err := provider.Find(c.Kind)
	if err != nil {
		return nil, err
	}
	own, err := s.secret(ctx, c, "auth", c.Auth)
	if err != nil {
		return nil, fmt.Errorf("provider %s: auth: %w", c.Name, err)
	}
	var replaySecret *credential.Credential // nil: the account's own
	if c.ReplayAuth.OwnCredential() {
		if replaySecret, err = s.secret(ctx, c, "replay_auth", c.ReplayAuth); err != nil {
			return nil, fmt.Errorf("provider %s: replay_auth: %w", c.Name, err)
		}
	}
	visitors, err := s.visitors(c)
	if err != nil {
		return nil, fmt.Errorf("provider %s: clients.token_file: %w", c.Name, err)
	}
	out, err := s.way(c)
	if err != nil {
		return nil, fmt.Errorf("provider %s: upstream_tls.ca_file: %w", c.Name, err)
	}
	rules, err := ruleTable(c.Rules)
	if err != nil {
		return nil, fmt.Errorf("provider %s: rules: %w", c.Name, err)
	}
	scopes := append([]string{provider.Other}, kind.Operations...)
	policies := make(map[string]proxy.Policy, len(scopes))
	for _, operation := range scopes {
		policies[operation] = policy(c.Retry.For(operation))
	}
	st := s.stand(c, kind, scopes)
	return &proxy.Account{
		Name: c.Name, Provider: kind, Upstream: c.UpstreamURL(),
		Policy: func(operation string) proxy.Policy { return policies[operation] },
		Rules:  rules, Injection: injection(c.InjectToken), Scrutiny: scrutiny(c.Review), RepairPages: c.RepairPages, Precheck: prechecked(c.Precheck), Idempotency: proxy.Idempotency{Header: c.IdempotencyHeader, Bare: !c.IdempotencyQuoted}, Credential: own, ReplayCredential: replaySecret, Self: selfAddress(c), Letters: s.openLetters(c.Name),
		Names: callNames(c), Clients: visitors, Observe: s.observer(c), Breakers: st.breakers, HoldOpen: holds(c), Queues: st.queues, Permits: st.permits, Adaptive: learns(c), TripOnThrottle: trips(c), OnSustained: sustained(c.Breaker), Purse: st.purse,
		Calls: s.calls, Jobs: s.jobs, Transport: out.plain, GRPCTransport: out.grpc, Bodies: s.bodies, MaxBody: s.maxBody, CopyBuffers: s.copies, Sink: s.sink, Version: s.version,
		Metrics: st.metrics, Watch: st.watch, Tracer: s.tracer, Log: s.log, ErrorLog: log.New(io.Discard, "", 0), Ending: s.ending, Seed: s.seed,
	}, nil
}

// callNames are the host names by which an account's listener may be called; nil: any. Some clients keep the provider's own name and are led here by
// other means.
func callNames(c config.Provider) *proxy.Names {
	if !c.ChecksHosts() {
		return nil
	}
	more := append([]string{c.UpstreamURL().Hostname()}, c.Hosts...)
	if host, _, err := net.SplitHostPort(c.Listen); err == nil {
		more = append(more, host)
	}
	return proxy.NewNames(more...)
}

// visitors are the tokens of those who may use an account; nil: whoever reaches it may.
func (s *shared) visitors(c config.Provider) (*clients.Tokens, error) {
	if c.Clients.TokenFile == "" {
		return nil, nil //nolint:nilnil // nobody is asked
	}
	return clients.Open(c.Clients.TokenFile, s.log.With(zap.String("provider", c.Name)))
}

// stand gives what an account has beside its settings: that of before where it is the same account, else made anew.
func (s *shared) stand(c config.Provider, kind *provider.Provider, scopes []string) *standing {
	key := keyOf(c)
	if st := s.standing[key]; st != nil {
		return st
	}
	st := &standing{purse: new(retry.Purse), recovered: make(chan struct{}, 1)}
	tell := s.tell
	if c.Observes() {
		tell = new(announcer) // nobody is called about what is only looked at
	}
	watched := watch.New(watch.Options{Name: c.Name, Kind: c.Kind, Emitter: tell, Log: s.log, Metrics: s.watches})
	var (
		breakers *breaker.Group
		queues   *pace.Queues
	)
	breakers = breaker.NewGroup(c.Name, breakerSettings(c), maxCredentials, breakerObserver(c, s.log, tell, func() {
		queues.CircuitChanged()
		state := breakers.Snapshot().State
		watched.Turn(circuitOf(state))
		if state == breaker.Closed {
			select {
			case st.recovered <- struct{}{}:
			default: // it is known
			}
		}
	}))
	st.hold.Store(holds(c))
	holding, passing := proxy.CircuitOf(breakers, true), proxy.CircuitOf(breakers, false)
	permits := s.permits(c, kind)
	queues = pace.NewQueues(c.Name, scopes, queueSettings(c), func() (pace.CircuitState, time.Duration) {
		if st.hold.Load() {
			return holding()
		}
		return passing()
	}, permits)
	if !c.Observes() { // what would be must not reach the proxies that act
		s.together(c, breakers, queues, permits)
	}
	st.breakers, st.queues, st.permits, st.watch = breakers, queues, permits, watched
	st.metrics = s.requests.Account(c.Name, c.Kind, st.purse)
	s.standing[key] = st
	return st
}

// observer is what an account that observes has of its own; nil: it acts.
func (s *shared) observer(c config.Provider) *proxy.Observer {
	if !c.Observes() {
		return nil
	}
	return proxy.NewObserver(s.requests, c.Name)
}

// group tells each account, before it serves, which others its calls may go to. The accounts are those of the entries, in their order.
func group(entries []config.Provider, accounts []*proxy.Account) error {
	named := make(map[string]*proxy.Account, len(accounts))
	for _, a := range accounts {
		named[a.Name] = a
	}
	for i, c := range entries {
		if len(c.Fallback)+len(c.Spread) == 0 {
			continue
		}
		var shares []proxy.Share
		for _, name := range slices.Sorted(maps.Keys(c.Spread)) {
			shares = append(shares, proxy.Share{Account: named[name], Weight: c.Spread[name]})
		}
		var fallback []*proxy.Account
		for _, name := range c.Fallback {
			fallback = append(fallback, named[name])
		}
		var err error
		if accounts[i].Group, err = proxy.NewGroup(accounts[i], shares, fallback); err != nil {
			return fmt.Errorf("provider %s: fallback and spread: %w", c.Name, err)
		}
	}
	return nil
}

// permits bound the open jobs of an account. Those that were open when the last process ended are open still.
func (s *shared) permits(c config.Provider, kind *provider.Provider) *pace.Permits {
	lease := proxy.JobsRun(kind)
	permits := pace.NewPermits(c.Pacing.OpenJobs, lease, c.Pacing.Recovery)
	if s.jobs != nil {
		for _, id := range s.jobs.RunningJobs(c.Name, time.Now().Add(-lease)) {
			permits.Started(id)
		}
	}
	return permits
}

// holds reports whether requests wait for an open circuit.
func holds(c config.Provider) bool { return c.Breaker.OnOpen == "wait" }

// trips reports whether throttles count as failures of the account.
func trips(c config.Provider) bool { return c.Breaker.OnThrottle == "trip" }

// sustained says what follows from an outage that lasts.
func sustained(c config.Breaker) proxy.OnSustained {
	switch c.OnSustained {
	case "review":
		return proxy.ToPeople
	case "fallback":
		return proxy.FallBack
	}
	return proxy.Alert
}

// learns reports whether the account's queues learn their rate from throttles. A rate that is fixed is not learned, and a throttle that is a
// failure says nothing about a rate.
func learns(c config.Provider) bool { return c.Pacing.Adaptive && c.Pacing.Rate == 0 && !trips(c) }

func queueSettings(c config.Provider) pace.Settings {
	p := c.Pacing
	return pace.Settings{
		Rate: p.Rate, Burst: p.Burst, MaxInFlight: p.MaxInFlight, Adaptive: learns(c), StartRate: p.StartRate, Recovery: p.Recovery,
		MaxWaiting: p.MaxWaiting, MaxPause: max(c.Retry.TotalBudget, c.Retry.CapDelay), Smear: proxy.Smear,
	}
}

// openLetters are those of an account; nil without a store.
func (s *shared) openLetters(account string) *dlq.OpenLetters {
	if s.jobs == nil {
		return nil
	}
	return s.jobs.OpenLetters(account)
}

// selfAddress is where this machine reaches an account's listener.
func selfAddress(c config.Provider) string {
	address, err := client.Address(c.Listen)
	if err != nil {
		address = c.Listen // the listener will say what is wrong with it
	}
	if c.TLS.Enabled() {
		return "https://" + address
	}
	return "http://" + address
}

func policy(c config.Retry) proxy.Policy {
	p := proxy.Policy{
		Policy:         retry.Policy{MaxAttempts: c.MaxAttempts, Base: c.BaseDelay, Cap: c.CapDelay, Total: c.TotalBudget},
		AttemptTimeout: c.AttemptTimeout, AttemptTimeoutPerMB: c.AttemptTimeoutPerMB, UnknownRetries: c.UnknownRetries,
		PurseRatio: c.Budget.Ratio, PurseFloor: c.Budget.Floor,
	}
	switch c.Ambiguous {
	case "never":
		p.Ambiguous = proxy.RepeatNever
	case "always":
		p.Ambiguous = proxy.RepeatAlways
	}
	return p
}

func scrutiny(c config.Review) proxy.Scrutiny {
	s := proxy.Scrutiny{Threshold: c.Threshold, Fields: c.Fields, Required: map[string][]string{}, Actions: map[string]proxy.Action{}}
	for sign, action := range c.SilentFailures() {
		switch action {
		case "review":
			s.Actions[sign] = proxy.LookAt
		case "retry":
			s.Actions[sign] = proxy.Elsewhere
		}
	}
	for kind, names := range c.Required {
		for _, name := range names {
			s.Required[strings.ToLower(kind)] = append(s.Required[strings.ToLower(kind)], strings.ToLower(name))
		}
	}
	switch c.Aggregate {
	case "min":
		s.Aggregate = proxy.ByMin
	case "p10":
		s.Aggregate = proxy.ByP10
	}
	return s
}

// prechecked says which checks are made before a document is sent; nil: none.
func prechecked(c config.Precheck) *proxy.Precheck {
	if !c.Enabled {
		return nil
	}
	p := &proxy.Precheck{}
	for _, name := range c.Skip {
		p.Skip = append(p.Skip, precheck.Check(name))
	}
	if !c.RejectBlank {
		p.Skip = append(p.Skip, precheck.Blank)
	}
	return p
}

func injection(c string) proxy.Injection {
	switch c {
	case "content":
		return proxy.InjectContent
	case "false":
		return proxy.InjectNever
	}
	return proxy.InjectPerCall
}

func breakerSettings(c config.Provider) breaker.Settings {
	b := c.Breaker
	return breaker.Settings{
		FailureThreshold: b.FailureThreshold, FailureRatio: b.FailureRatio, MinRequests: b.MinRequests, Window: b.Window,
		ResetTimeout: b.ResetTimeout, HalfOpenProbes: b.HalfOpenProbes, FatalRatio: b.FatalRatio, AuthThreshold: b.AuthThreshold,
		ProbeLease: c.Retry.TotalBudget + leaseSlack, EagerProbe: eagerProbe,
	}
}

// circuitOf is a breaker's state in the words of the watch.
func circuitOf(s breaker.State) watch.Circuit {
	switch s {
	case breaker.Open:
		return watch.Open
	case breaker.HalfOpen:
		return watch.HalfOpen
	case breaker.Closed:
	}
	return watch.Closed
}

// breakerObserver logs and announces what the circuits of an account do, and calls turned after each change. A failed probe is no news: its
// circuit has been open all along.
func breakerObserver(c config.Provider, log *zap.Logger, tell *announcer, turned func()) breaker.Observer {
	log = log.With(zap.String("provider", c.Name))
	if c.Observes() {
		log = log.With(zap.Bool("observed", true)) // it says what would be: nothing is refused
	}
	announce := func(event string, reason breaker.Reason, since time.Time) {
		_ = tell.Emit(event, time.Now(), circuit{Account: c.Name, Kind: c.Kind, Reason: reason, Since: since.UTC()}) // a loss has been logged
	}
	return breaker.Observer{
		Transition: func(from, to breaker.State, reason breaker.Reason, since time.Time) {
			turned()
			log.Warn("breaker", zap.Stringer("from", from), zap.Stringer("to", to), zap.String("why", string(reason)), zap.Time("since", since))
			if from == breaker.Closed {
				announce(webhook.BreakerOpened, reason, since)
			}
			if to == breaker.Closed {
				announce(webhook.BreakerClosed, reason, since)
			}
		},
		Sustained: func(reason breaker.Reason, since time.Time) {
			log.Error("the circuit has stayed open for more than two reset timeouts; is the provider down?", zap.String("why", string(reason)), zap.Time("since", since))
			announce(webhook.BreakerSustained, reason, since)
		},
	}
}

func ruleTable(rules []config.Rule) (classify.Table, error) {
	var table classify.Table
	for _, r := range rules {
		class, err := classify.Parse(r.Class)
		if err != nil {
			return nil, err
		}
		table = append(table, classify.Row{Status: r.Status, Code: r.Code, Class: class})
	}
	return table, nil
}

// upstreamAuthorities are those of a file in PEM form; nil for the system's alone.
func upstreamAuthorities(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	return os.ReadFile(file) //nolint:gosec // the configuration names the file
}

// upstreamRoots are the system's authorities and those given in PEM form; nil for the system's alone.
func upstreamRoots(pem []byte) (*x509.CertPool, error) {
	if pem == nil {
		return nil, nil //nolint:nilnil // nil is how the standard library spells "the system's"
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("holds no certificate in PEM form")
	}
	return roots, nil
}
