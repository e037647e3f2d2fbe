package webhook

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// What can become of an event.
const (
	Delivered = "delivered" // The receiver took it.
	Failed    = "failed"    // It was given up: refused, or tried too often or for too long.
	Dropped   = "dropped"   // It was never tried: the outbox was full, could not be written or was damaged.
)

// Metrics counts what becomes of events.
type Metrics struct {
	deliveries *prometheus.CounterVec
	outbox     atomic.Pointer[Outbox]
}

// NewMetrics registers the metrics, which are 0 while there is no outbox. A nil registerer leaves them unregistered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ocrproxy_webhook_deliveries_total",
		Help: "Webhook events by what became of them.",
	}, []string{"result"})}
	for _, result := range []string{Delivered, Failed, Dropped} {
		m.deliveries.WithLabelValues(result)
	}
	if reg == nil {
		return m
	}
	reg.MustRegister(m.deliveries, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ocrproxy_webhook_backlog",
		Help: "Webhook events that wait to be delivered.",
	}, func() float64 {
		if b := m.outbox.Load(); b != nil {
			return float64(b.Backlog())
		}
		return 0
	}))
	return m
}

// watch makes an outbox the one whose backlog is shown; nil: none.
func (m *Metrics) watch(b *Outbox) { m.outbox.Store(b) }
