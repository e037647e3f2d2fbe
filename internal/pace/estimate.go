package pace

import "time"

// meter measures what the provider accepts: how long it takes, and how much per second.
type meter struct {
	duration time.Duration // smoothed, of accepted calls; 0: none yet
	began    time.Time     // of the open window
	latest   time.Time     // acceptance
	n        int           // accepted in the open window
	rate     float64       // of the last whole window
	smooth   float64       // the same, over a few of them
	count    int           // accepted in it
}

// enough accepted calls make a rate that can be believed.
const enough = 10

// window is about one round trip, and long enough for a count.
func (m *meter) window() time.Duration { return max(m.duration, 10*time.Millisecond) }

func (m *meter) accepted(now time.Time, took time.Duration, cost int) {
	if m.duration == 0 {
		m.duration = max(took, 1)
	} else {
		m.duration += (took - m.duration) / 10
	}
	window := m.window()
	if now.Sub(m.latest) > 2*window {
		m.began, m.n = now, 0 // nothing was asked for meanwhile
	} else {
		m.n += cost
	}
	m.latest = now
	if elapsed := now.Sub(m.began); elapsed >= window && m.n > 0 {
		m.rate, m.count = float64(m.n)/elapsed.Seconds(), m.n
		m.began, m.n = now, 0
		if m.smooth == 0 {
			m.smooth = m.rate
		}
		m.smooth += (m.rate - m.smooth) / 3
	}
}

// present is the accepted rate, 0 while too little has been accepted lately to tell.
func (m *meter) present(now time.Time) float64 {
	if m.count < enough || now.Sub(m.began) > 2*m.window() {
		return 0
	}
	return m.rate
}

// expected estimates how long a request that came now would wait for its turn, from what waits before it, its flow's share, and the speed at
// which turns come.
func (q *Queue) expected(now time.Time, r Request) time.Duration {
	rate := q.pacer.Rate()
	tuning := q.settings.tuning()
	wait := max(0, rate.Next(now, tuning).Sub(now))
	if q.state == Holding {
		wait = max(wait, q.probeAt.Sub(now))
	}
	work := q.flows.before(r)
	limited := rate.PerSecond(tuning) > 0
	flow := time.Duration(0)
	if limited {
		flow = rate.until(float64(work), tuning)
	} else if q.smearing() && work > 0 {
		flow = q.settings.Smear
	}
	if limit := q.settings.MaxInFlight; limit > 0 && q.inFlight >= limit {
		calls := 1.0
		if work > 0 {
			calls += float64(work) * float64(q.flows.count) / float64(q.flows.cost) // of the average cost
		}
		flow = max(flow, seconds(calls*q.meter.duration.Seconds()/float64(limit)))
	}
	return wait + flow
}

// before is the cost of all that goes before a request that came now.
func (f *flows) before(r Request) int {
	all, same := f.weight, 0
	if w := f.flows[flowKey{tenant: r.Tenant, priority: r.Priority, job: r.Job}]; w == nil {
		all += r.Priority.weight()
	} else {
		same = w.again.cost
		if !r.Again {
			same += w.fresh.cost
		}
	}
	// While this flow's turns come, the others get theirs in proportion to their weights, but no more than they have.
	others := float64(same+r.cost()) * (all/r.Priority.weight() - 1)
	return min(same+int(others), f.cost)
}
