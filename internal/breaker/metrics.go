package breaker

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics shows groups to Prometheus. Everything is read when it is scraped.
type Metrics struct {
	state, openSeconds, transitions, rejected *prometheus.Desc

	mu     sync.Mutex
	groups map[string]*Group
}

// NewMetrics registers the metrics of all groups that will be added. Like
// every registration it must happen once per registry.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ocrproxy_breaker_"+name, help, append([]string{"provider"}, labels...), nil)
	}
	m := &Metrics{
		groups:      make(map[string]*Group),
		state:       desc("state", "1 for the state the circuit breaker is in, the worst one of the account.", "state"),
		openSeconds: desc("open_seconds", "How long the circuit breaker has not been closed, 0 if it is."),
		transitions: desc("transitions_total", "Changes of a circuit breaker's state.", "from", "to"),
		rejected:    desc("rejected_total", "Requests turned away because a circuit breaker was not closed."),
	}
	reg.MustRegister(m)
	return m
}

// Add shows a group from now on, in place of an earlier one of the same
// account.
func (m *Metrics) Add(g *Group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.groups[g.account] = g
}

// Remove stops showing the group of an account.
func (m *Metrics) Remove(account string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.groups, account)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- m.state
	descs <- m.openSeconds
	descs <- m.transitions
	descs <- m.rejected
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for account, g := range m.groups {
		snapshot := g.Snapshot()
		for _, s := range States() {
			in := 0.0
			if s == snapshot.State {
				in = 1
			}
			metrics <- prometheus.MustNewConstMetric(m.state, prometheus.GaugeValue, in, account, s.String())
		}
		metrics <- prometheus.MustNewConstMetric(m.openSeconds, prometheus.GaugeValue, snapshot.OpenFor.Seconds(), account)
		metrics <- prometheus.MustNewConstMetric(m.rejected, prometheus.CounterValue, float64(g.rejected.Load()), account)
		for _, t := range [][2]State{{Closed, Open}, {Open, HalfOpen}, {HalfOpen, Open}, {HalfOpen, Closed}, {Open, Closed}} {
			n := g.transitions[t[0]][t[1]].Load()
			if n == 0 && t[0] == Open && t[1] == Closed {
				continue // it takes another process whose probe has succeeded
			}
			metrics <- prometheus.MustNewConstMetric(m.transitions, prometheus.CounterValue, float64(n), account, t[0].String(), t[1].String())
		}
	}
}
