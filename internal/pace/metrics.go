package pace

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// waitBounds are the bounds of the histogram of waits.
var waitBounds = [...]time.Duration{ //nolint:gochecknoglobals // a constant that Go has no syntax for
	time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
	2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
}

// waits counts the waits of a queue by priority. A turn that comes at once costs one addition, so that the usual path pays next to nothing for it.
type waits [3]struct {
	counts [len(waitBounds) + 1]uint64
	sum    time.Duration
}

func (w *waits) observe(p Priority, wait time.Duration) {
	i := 0
	for i < len(waitBounds) && wait > waitBounds[i] {
		i++
	}
	w[p].counts[i]++
	w[p].sum += wait
}

func (w *waits) add(o *waits) {
	for p := range w {
		for i := range w[p].counts {
			w[p].counts[i] += o[p].counts[i]
		}
		w[p].sum += o[p].sum
	}
}

// Metrics shows queues to Prometheus. Everything is read when it is scraped.
type Metrics struct {
	depth, wait, oldest, permits, jobs, pause, rate *prometheus.Desc

	mu       sync.Mutex
	accounts map[string]*Queues
}

// NewMetrics registers the metrics of all queues that will be added. Like every
// registration it must happen once per registry.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		accounts: make(map[string]*Queues),
		depth:    prometheus.NewDesc("ocrproxy_queue_depth", "Requests that wait for their turn.", []string{"provider", "priority"}, nil),
		wait: prometheus.NewDesc("ocrproxy_queue_wait_seconds", "How long requests have waited for the turns that came.",
			[]string{"provider", "priority"}, nil),
		oldest: prometheus.NewDesc("ocrproxy_queue_oldest_seconds", "How long the request that has waited longest for its turn waits now, 0 if none does.",
			[]string{"provider"}, nil),
		permits: prometheus.NewDesc("ocrproxy_job_permits_taken",
			"Jobs that hold a permit, in all processes that share the account where those can be reached.", []string{"provider"}, nil),
		jobs: prometheus.NewDesc("ocrproxy_jobs_limit", "Jobs that may be open at the provider, 0 if no limit is set or known.", []string{"provider"}, nil),
		pause: prometheus.NewDesc("ocrproxy_throttle_pause_seconds",
			"How much longer requests are held back after a throttled one, 0 if they are not.", []string{"provider", "operation"}, nil),
		rate: prometheus.NewDesc("ocrproxy_pacing_rate", "Calls per second that are let go, 0 if nothing limits them.",
			[]string{"provider", "operation"}, nil),
	}
	reg.MustRegister(m)
	return m
}

// Add shows an account's queues from now on, in place of earlier ones of the
// same account.
func (m *Metrics) Add(q *Queues) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accounts[q.account] = q
}

// Remove stops showing the queues of an account.
func (m *Metrics) Remove(account string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.accounts, account)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.depth, m.wait, m.oldest, m.permits, m.jobs, m.pause, m.rate} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	accounts := maps.Clone(m.accounts)
	m.mu.Unlock()
	for _, account := range accounts {
		account.collect(m, metrics)
	}
}

func (q *Queues) collect(m *Metrics, metrics chan<- prometheus.Metric) {
	var depth [3]int
	var all waits
	var oldest time.Time
	for scope, queue := range q.scopes {
		queue.mu.Lock()
		for p, n := range queue.flows.waiting {
			depth[p] += n
		}
		all.add(&queue.waits)
		if first := queue.flows.oldest(); !first.IsZero() && (oldest.IsZero() || first.Before(oldest)) {
			oldest = first
		}
		rate := queue.pacer.Rate()
		limit := rate.PerSecond(queue.settings.tuning())
		queue.mu.Unlock()
		metrics <- prometheus.MustNewConstMetric(m.pause, prometheus.GaugeValue, max(0, time.Until(rate.Pause)).Seconds(), q.account, scope)
		metrics <- prometheus.MustNewConstMetric(m.rate, prometheus.GaugeValue, limit, q.account, scope)
	}
	for _, p := range Priorities() {
		metrics <- prometheus.MustNewConstMetric(m.depth, prometheus.GaugeValue, float64(depth[p]), q.account, p.String())
		buckets := make(map[float64]uint64, len(waitBounds))
		count := uint64(0)
		for i, n := range all[p].counts {
			count += n
			if i < len(waitBounds) {
				buckets[waitBounds[i].Seconds()] = count
			}
		}
		metrics <- prometheus.MustNewConstHistogram(m.wait, count, all[p].sum.Seconds(), buckets, q.account, p.String())
	}
	longest, taken, limit := time.Duration(0), 0, 0
	if !oldest.IsZero() {
		longest = time.Since(oldest)
	}
	if p := q.scopes[otherScope].permits; p != nil { // all scopes have the same
		taken, limit = p.Open()
	}
	metrics <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, longest.Seconds(), q.account)
	metrics <- prometheus.MustNewConstMetric(m.permits, prometheus.GaugeValue, float64(taken), q.account)
	metrics <- prometheus.MustNewConstMetric(m.jobs, prometheus.GaugeValue, float64(limit), q.account)
}
