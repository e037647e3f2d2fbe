package pace

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// otherScope is the scope of everything that was not declared.
const otherScope = "other"

// Metrics shows queues to Prometheus. Everything is read when it is scraped.
type Metrics struct {
	pause, depth *prometheus.Desc

	mu     sync.Mutex
	queues map[string]*Queues
}

// NewMetrics registers the metrics of all queues that will be added. Like every
// registration it must happen once per registry.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		queues: make(map[string]*Queues),
		pause: prometheus.NewDesc("ocrproxy_throttle_pause_seconds",
			"How much longer requests are held back after a throttled one, 0 if they are not.",
			[]string{"provider", "operation"}, nil),
		depth: prometheus.NewDesc("ocrproxy_queue_depth", "Requests that wait for their turn.", []string{"provider", "priority"}, nil),
	}
	reg.MustRegister(m)
	return m
}

// Add shows an account's queues from now on, in place of earlier ones of the
// same account.
func (m *Metrics) Add(q *Queues) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queues[q.Account()] = q
}

// Remove stops showing the queues of an account.
func (m *Metrics) Remove(account string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.queues, account)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- m.pause
	descs <- m.depth
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for account, queues := range m.queues {
		waiting := map[Priority]int{}
		for _, scope := range queues.Scopes() {
			s := queues.For(scope).Snapshot()
			metrics <- prometheus.MustNewConstMetric(m.pause, prometheus.GaugeValue, s.Paused.Seconds(), account, scope)
			for p, n := range s.Waiting {
				waiting[p] += n
			}
		}
		for _, p := range Priorities() {
			metrics <- prometheus.MustNewConstMetric(m.depth, prometheus.GaugeValue, float64(waiting[p]), account, p.String())
		}
	}
}
