package dlq

import (
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// droppedFull is the reason for letters that the size limit kept out.
const droppedFull = "full"

// metrics counts what happens to letters.
type metrics struct {
	written     *prometheus.CounterVec
	writeErrors prometheus.Counter
	dropped     *prometheus.CounterVec
	jobErrors   prometheus.Counter

	registerer prometheus.Registerer
	collectors []prometheus.Collector
}

// newMetrics registers the counters, and a collector that reads the store's
// state whenever it is asked. A nil registerer leaves them unregistered.
func newMetrics(s *Store, r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		written: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ocrproxy_dead_letters_written_total",
			Help: "New dead letters. A repeated failure of an open letter is not a new one.",
		}, []string{"provider", "outcome", "class"}),
		writeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ocrproxy_dead_letters_write_errors_total",
			Help: "Dead letters that could not be written, other than for the size limit.",
		}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ocrproxy_dead_letters_dropped_total",
			Help: "Dead letters that were dropped on purpose.",
		}, []string{"reason"}),
		jobErrors:  newJobErrors(),
		registerer: r,
	}
	m.dropped.WithLabelValues(droppedFull)
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.written, m.writeErrors, m.dropped, m.jobErrors, newStateCollector(s), newJobCollector(s.jobs)} {
		if err := r.Register(c); err != nil {
			m.unregister()
			return nil, errors.Join(errors.New("register the metrics of dead letters"), err)
		}
		m.collectors = append(m.collectors, c)
	}
	return m, nil
}

func (m *metrics) unregister() {
	for _, c := range m.collectors {
		m.registerer.Unregister(c)
	}
}

func (m *metrics) countWritten(e *Envelope) {
	s := seriesOf(e.Provider, e.Outcome)
	m.written.WithLabelValues(s.provider, s.outcome, strings.ToValidUTF8(e.ErrorClass, "\uFFFD")).Inc()
}

// stateCollector reports what lies in the store at the moment of the scrape.
type stateCollector struct {
	store               *Store
	open, bytes, oldest *prometheus.Desc
	unread, limit       *prometheus.Desc
}

func newStateCollector(s *Store) *stateCollector {
	return &stateCollector{
		store:  s,
		open:   prometheus.NewDesc("ocrproxy_dead_letters_open", "Dead letters that wait for somebody.", []string{"provider", "outcome"}, nil),
		bytes:  prometheus.NewDesc("ocrproxy_dead_letters_bytes", "Size of all dead letters, payloads and results in bytes.", nil, nil),
		limit:  prometheus.NewDesc("ocrproxy_dead_letters_limit_bytes", "Size of the store beyond which new dead letters are dropped, 0 when there is none.", nil, nil),
		oldest: prometheus.NewDesc("ocrproxy_dead_letters_oldest_open_seconds", "Seconds since the first attempt of the oldest open dead letter, 0 when there is none.", nil, nil),
		unread: prometheus.NewDesc("ocrproxy_dead_letters_unread", "Open dead letters that cannot be read now and are not among those counted as open.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.open
	ch <- c.bytes
	ch <- c.limit
	ch <- c.oldest
	ch <- c.unread
}

// Collect implements [prometheus.Collector].
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	c.store.reconcile()
	ch <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(c.store.usage.most()))
	if c.store.usage.isTold() {
		ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(c.store.usage.bytes()))
	}
	if !c.store.index.isKnown() {
		return // Absent rather than wrong while a big store is counted.
	}
	open, oldest := c.store.index.counts()
	for s, n := range open {
		ch <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(n), s.provider, s.outcome)
	}
	age := 0.0
	if !oldest.IsZero() {
		age = max(time.Since(oldest).Seconds(), 0)
	}
	ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, age)
	ch <- prometheus.MustNewConstMetric(c.unread, prometheus.GaugeValue, float64(c.store.unread.Load()))
}
