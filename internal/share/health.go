package share

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// longestHiccup is how long the server may be silent before that is news.
const longestHiccup = time.Second

// health is whether the server is there. Only the watching goroutine changes what is told of it.
type health struct {
	log       *zap.Logger
	gauge     prometheus.Gauge
	errors    prometheus.Counter
	usable    atomic.Bool // the last that was heard of the server was good
	connected atomic.Bool // what is told: see Store.Connected

	told     bool      // one of the two states has been told
	good     int       // rounds in a row
	lastGood time.Time // of all rounds
}

func newHealth(reg prometheus.Registerer, log *zap.Logger) *health {
	h := &health{
		log: log, lastGood: time.Now(),
		gauge:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "ocrproxy_state_connected", Help: "1 while the state shared with other processes can be reached, 0 while this one goes on alone."}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{Name: "ocrproxy_state_errors_total", Help: "Questions to the shared state that failed."}),
	}
	reg.MustRegister(h.gauge, h.errors)
	return h
}

// failed takes in that a question failed. From now on nobody asks any more until a round of the watching goroutine was good: with a server
// that hangs, each question would take all of its patience.
func (h *health) failed(ctx context.Context) {
	if ctx.Err() != nil {
		return // it was broken off
	}
	h.usable.Store(false)
	h.errors.Inc()
}

// round takes in how a round of the watching goroutine ended, and tells a change.
func (h *health) round(err error) {
	now := time.Now()
	if err != nil {
		h.good = 0
		if !h.told || h.connected.Load() && now.Sub(h.lastGood) > longestHiccup {
			h.turn(false)
			h.log.Warn("the shared state is away; going on alone", zap.String("why", describe(err)))
		}
		return
	}
	h.usable.Store(true)
	h.lastGood = now
	h.good++
	if !h.told || !h.connected.Load() && h.good > 1 {
		h.turn(true)
		h.log.Info("the shared state is connected")
	}
}

func (h *health) turn(connected bool) {
	h.told = true
	h.connected.Store(connected)
	value := 0.0
	if connected {
		value = 1
	}
	h.gauge.Set(value)
}
