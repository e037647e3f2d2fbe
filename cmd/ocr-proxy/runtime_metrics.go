package main

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// goRuntime collects the figures of the Go runtime, but for one: beside the gauge go_memstats_alloc_bytes there is a counter whose name differs by
// its ending alone. In OpenMetrics the ending is none of the name, the two are one, and strict parsers refuse the whole scrape. The figure itself
// stays, as go_memstats_heap_alloc_bytes.
type goRuntime struct{ all prometheus.Collector }

func newGoRuntime() goRuntime { return goRuntime{collectors.NewGoCollector()} }

// ambiguous reports whether that is the gauge. A description shows its name in its text only.
func ambiguous(d *prometheus.Desc) bool {
	return strings.Contains(d.String(), `fqName: "go_memstats_alloc_bytes",`)
}

// Describe implements [prometheus.Collector].
func (g goRuntime) Describe(descs chan<- *prometheus.Desc) {
	pass(descs, g.all.Describe, func(d *prometheus.Desc) bool { return !ambiguous(d) })
}

// Collect implements [prometheus.Collector].
func (g goRuntime) Collect(metrics chan<- prometheus.Metric) {
	pass(metrics, g.all.Collect, func(m prometheus.Metric) bool { return !ambiguous(m.Desc()) })
}

// pass hands on what comes from a source, as far as it is wanted.
func pass[T any](to chan<- T, source func(chan<- T), wanted func(T) bool) {
	from := make(chan T)
	go func() {
		defer close(from)
		source(from)
	}()
	for v := range from {
		if wanted(v) {
			to <- v
		}
	}
}
