package pace

import "time"

// Result is what became of a call.
type Result uint8

// The results.
const (
	Other     Result = iota // says nothing about the rate
	Accepted                // the provider took it
	Throttled               // it was too much
)

// stage is how far a turn has come.
type stage uint8

const (
	unused stage = iota
	waiting
	granted
	told
)

// Turn is one request's place in a queue, and then its leave to make one call. The zero value is ready for Enter, and so is one that was given
// back. Its methods are for the one goroutine that entered it.
type Turn struct {
	queue *Queue // nil: not in use
	ready chan struct{}
	err   error
	seed  float64

	// Guarded by the queue's lock.
	stage    stage
	priority Priority
	job      bool // needs a permit
	again    bool
	paused   bool
	probe    bool // let out of an open circuit
	permit   bool // holds one
	cost     int
	slot     uint64
	tenant   string
	entered  time.Time
	granted  time.Time
	deadline time.Time

	flow          *flow // nil: not in line
	before, after *Turn // in line
}

// Ready is closed when the turn has come or cannot come any more; nil: it has come already.
func (t *Turn) Ready() <-chan struct{} { return t.ready }

// Err is why the turn cannot come; nil: it has come. It is asked after Ready was closed.
func (t *Turn) Err() error { return t.err }

// Paused reports whether the turn has waited for the end of a pause or of an outage, and not for the rate alone.
func (t *Turn) Paused() bool {
	q := t.queue
	if q == nil {
		return t.paused
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.paused
}

// Seed tells the calls per second that the provider has named, before Done(Throttled).
func (t *Turn) Seed(rate float64) { t.seed = rate }

// Leave gives the turn, or the place in the queue, back: no call was made.
func (t *Turn) Leave() { t.end(func(q *Queue, now time.Time) { q.unused(t, now) }) }

// Done tells what became of the call. Only the first of Leave and Done counts. The breaker is told first, and so are the permits of a job that
// has started, because the next turn may be given out at once.
func (t *Turn) Done(r Result) {
	t.end(func(q *Queue, now time.Time) {
		if t.stage != granted {
			q.unused(t, now)
			return
		}
		q.settle(t, r, now)
	})
}

// end takes the turn out of its queue.
func (t *Turn) end(settle func(q *Queue, now time.Time)) {
	q := t.queue
	if q == nil {
		return
	}
	t.queue = nil
	q.mu.Lock()
	now := time.Now()
	settle(q, now)
	if t.permit {
		q.permits.giveBack()
	}
	if q.flows.count > 0 || !q.armed.IsZero() {
		q.pump(now)
	}
	q.mu.Unlock()
	if t.permit {
		q.permits.tell()
	}
	if t.probe {
		q.look()
	}
}

// unused takes back a turn, or a place in line, of which nothing was made.
func (q *Queue) unused(t *Turn, now time.Time) {
	switch t.stage {
	case waiting:
		q.flows.remove(t)
	case granted:
		q.inFlight--
		if t.slot != 0 {
			q.pacer.GiveBack(t.slot, t.cost)
		}
		if t.probe {
			q.probing = false
			q.probeAt = now.Add(reprobe)
		}
	case unused, told:
	}
}

// settle takes back a turn whose call was made.
func (q *Queue) settle(t *Turn, r Result, now time.Time) {
	q.inFlight--
	if t.probe {
		q.probing = false
		q.probeAt = now.Add(reprobe) // unless the breaker says otherwise, which is asked next
	}
	switch r {
	case Accepted:
		q.meter.accepted(now, now.Sub(t.granted), t.cost)
	case Throttled:
		q.pacer.Throttled(Evidence{Slot: t.slot, Accepted: q.meter.present(now), Seed: t.seed})
	case Other:
	}
}
