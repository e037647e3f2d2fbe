package listen

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Shown is a listener as metrics show it.
type Shown struct {
	Door         *Door
	Certificates *Certificates // nil: it serves in the clear
}

// Metrics shows listeners to Prometheus. Everything is read when it is scraped.
type Metrics struct {
	open, limit, reached, expires, taken *prometheus.Desc

	shown atomic.Pointer[map[string]Shown]
}

// NewMetrics registers the metrics of all listeners, once per registry.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	label := []string{"listener"}
	m := &Metrics{
		open:    prometheus.NewDesc("ocrproxy_connections", "Connections that are open at a listener.", label, nil),
		limit:   prometheus.NewDesc("ocrproxy_connections_limit", "Connections that may be open at a listener.", label, nil),
		reached: prometheus.NewDesc("ocrproxy_connections_limit_reached_total", "Times that a listener had as many connections as it may.", label, nil),
		expires: prometheus.NewDesc("ocrproxy_tls_certificate_expiry_timestamp_seconds", "When the first certificate of the chain that a listener shows expires.", label, nil),
		taken:   prometheus.NewDesc("ocrproxy_tls_last_reload_successful", "1 if what a listener's certificate files hold is in effect.", label, nil),
	}
	m.shown.Store(new(map[string]Shown))
	reg.MustRegister(m)
	return m
}

// Show shows these listeners, by their names, and no others any more.
func (m *Metrics) Show(all map[string]Shown) { m.shown.Store(&all) }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.open, m.limit, m.reached, m.expires, m.taken} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, name string, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, name)
	}
	for name, s := range *m.shown.Load() {
		open, limit, reached := s.Door.state()
		gauge(m.open, name, float64(open))
		gauge(m.limit, name, float64(limit))
		out <- prometheus.MustNewConstMetric(m.reached, prometheus.CounterValue, float64(reached), name)
		if c := s.Certificates; c != nil {
			gauge(m.expires, name, float64(c.current.Load().expires.Unix()))
			taken := 1.0
			if c.failed.Load() {
				taken = 0
			}
			gauge(m.taken, name, taken)
		}
	}
}
