package proxy

import (
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
)

// What would have been done with an observed call, as the label action of its metric and the line of its request name it. Several may be true of one.
const (
	wouldRefuse   = "refused_precheck" // its document would not have been sent
	wouldTurnAway = "refused_circuit"  // the circuit would have been open
	wouldHold     = "held"             // the circuit would have been open, and the call would have waited for it
	wouldRetry    = "retried"          // the answer would have been asked for again
	wouldPause    = "paused"           // a throttle would have paused the operation, or slowed it
	wouldTrip     = "tripped"          // the circuit would have opened over it
	wouldReview   = "reviewed"         // a person would have been asked to look at the answer
	wouldBury     = "dead_lettered"    // a dead letter would have been written
	wouldPass     = "passed"           // nothing
	unobserved    = "unobserved"       // something was not looked at: too large, unreadable, or too much at once
)

// maxLooks bounds the calls whose copies wait to be looked at. Beyond it they are judged by what needs no look.
const maxLooks = 256

// observations are the metrics of all accounts that observe.
type observations struct {
	actions   *prometheus.CounterVec
	observing *prometheus.GaugeVec
}

func newObservations(reg prometheus.Registerer) observations {
	o := observations{
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ocrproxy_observed_total", Help: "What would have been done with the requests of accounts that observe.",
		}, []string{"provider", "operation", "action"}),
		observing: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ocrproxy_observing", Help: "1 for an account that observes and changes nothing; other accounts have no such series.",
		}, []string{"provider"}),
	}
	reg.MustRegister(o.actions, o.observing)
	return o
}

// Observer is what an account that observes has of its own.
type Observer struct {
	account string
	metrics observations

	waiting chan struct{} // a place for each call whose copies wait to be looked at, or are
	looking chan struct{} // a place for each that are: what is looked at must not take the processor from what is passed on

	mu         sync.Mutex // makes a result and what the circuit makes of it one step
	operations sync.Map   // of map[string]prometheus.Counter by action, by operation
}

// NewObserver has an account observe. It is to be made once for each.
func NewObserver(m *Metrics, account string) *Observer {
	return &Observer{
		account: account, metrics: m.observations,
		waiting: make(chan struct{}, maxLooks), looking: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
}

// look waits for a place to look at the copies of one call. It reports false when too many wait already; leave is to be called in any case.
func (v *Observer) look() (leave func(), ok bool) {
	select {
	case v.waiting <- struct{}{}:
	default:
		return func() {}, false
	}
	v.looking <- struct{}{}
	return func() { <-v.looking; <-v.waiting }, true
}

// done reports a result to the circuits and tells whether one of them opens over it.
func (v *Observer) done(c *circuit, p *permit, r breaker.Result) (tripped bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := c.closed()
	p.done(r)
	for i, closed := range c.closed() {
		tripped = tripped || before[i] && !closed
	}
	return tripped
}

// closed tells of the account's circuit and the credential's whether they are.
func (c *circuit) closed() [2]bool {
	isClosed := func(b *breaker.Breaker) bool { return b == nil || b.Snapshot().State == breaker.Closed }
	return [2]bool{isClosed(c.account), isClosed(c.credential)}
}

// count counts what would have been done with one call. All actions of an operation are present as soon as it is first called.
func (v *Observer) count(operation string, actions []string) {
	all, ok := v.operations.Load(operation)
	if !ok {
		counters := map[string]prometheus.Counter{}
		for _, action := range [...]string{
			wouldRefuse, wouldTurnAway, wouldHold, wouldRetry, wouldPause, wouldTrip, wouldReview, wouldBury, wouldPass, unobserved,
		} {
			counters[action] = v.metrics.actions.WithLabelValues(v.account, operation, action)
		}
		all, _ = v.operations.LoadOrStore(operation, counters)
	}
	for _, action := range actions {
		all.(map[string]prometheus.Counter)[action].Inc() //nolint:forcetypeassert // nothing else is stored
	}
}
