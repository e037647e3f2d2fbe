package trace

import "github.com/prometheus/client_golang/prometheus"

// What can become of a span.
const (
	Sent    = "sent"    // The collector took it.
	Failed  = "failed"  // The collector did not take it, or was not there.
	Dropped = "dropped" // There was no room for it in the queue.
)

// Metrics counts what becomes of spans.
type Metrics struct{ spans *prometheus.CounterVec }

// NewMetrics registers the metrics, which are 0 while nothing is traced.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{spans: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ocrproxy_trace_spans_total",
		Help: "Spans of traces by what became of them.",
	}, []string{"result"})}
	for _, result := range []string{Sent, Failed, Dropped} {
		m.spans.WithLabelValues(result)
	}
	reg.MustRegister(m.spans)
	return m
}

func (m *Metrics) add(result string, n int) { m.spans.WithLabelValues(result).Add(float64(n)) }
