package dlq

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// newJobErrors counts the starts that are not in the journal although they should be.
func newJobErrors() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ocrproxy_job_write_errors_total",
		Help: "Accepted job starts that could not be journaled, a full store included.",
	})
}

// jobCollector reports the open jobs at the moment of the scrape.
type jobCollector struct {
	jobs *jobIndex
	open *prometheus.Desc
}

func newJobCollector(x *jobIndex) *jobCollector {
	return &jobCollector{
		jobs: x,
		open: prometheus.NewDesc("ocrproxy_jobs_open", "Accepted jobs whose end has not been seen yet.", []string{"provider"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (c *jobCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.open }

// Collect implements [prometheus.Collector].
func (c *jobCollector) Collect(ch chan<- prometheus.Metric) {
	for account, n := range c.jobs.open(time.Now()) {
		ch <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(n), account)
	}
}
