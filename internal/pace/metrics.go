package pace

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics shows gates to Prometheus. Everything is read when it is scraped.
type Metrics struct {
	pause *prometheus.Desc

	mu    sync.Mutex
	gates map[string]*Gates
}

// NewMetrics registers the metrics of all gates that will be added. Like every
// registration it must happen once per registry.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		gates: make(map[string]*Gates),
		pause: prometheus.NewDesc("ocrproxy_throttle_pause_seconds",
			"How much longer requests are held back after a throttled one, 0 if they are not.",
			[]string{"provider", "operation"}, nil),
	}
	reg.MustRegister(m)
	return m
}

// Add shows an account's gates from now on, in place of earlier ones of the
// same account.
func (m *Metrics) Add(g *Gates) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gates[g.account] = g
}

// Remove stops showing the gates of an account.
func (m *Metrics) Remove(account string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.gates, account)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) { descs <- m.pause }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for account, gates := range m.gates {
		for scope, left := range gates.Remaining() {
			metrics <- prometheus.MustNewConstMetric(m.pause, prometheus.GaugeValue, left.Seconds(), account, scope)
		}
	}
}
