package main

import (
	"fmt"
	"slices"
	"time"
)

// tick is how often the machine is looked at.
const tick = 5 * time.Millisecond

// watch sleeps short times until stop is closed and says how much longer they were: what the machine, its other work included, did to everybody
// who waited for a moment.
type watch struct {
	stop, done chan struct{}
	late       []time.Duration
}

func newWatch() *watch {
	w := &watch{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			began := time.Now()
			select {
			case <-w.stop:
				return
			case <-time.After(tick):
				w.late = append(w.late, time.Since(began)-tick)
			}
		}
	}()
	return w
}

// end gives the quantiles of the delays.
func (w *watch) end() delays {
	close(w.stop)
	<-w.done
	slices.Sort(w.late)
	return delays{quantile(w.late, 0.5), quantile(w.late, 0.99), quantile(w.late, 1)}
}

// delays are how late the machine was.
type delays struct{ p50, p99, most time.Duration }

func (d delays) cell() string {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return fmt.Sprintf("%.1f, %.1f, %.0f", ms(d.p50), ms(d.p99), ms(d.most))
}
