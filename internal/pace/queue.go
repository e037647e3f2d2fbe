// Package pace decides when calls may go to a provider that can take only so many: one queue per operation of an account, which learns from
// throttles how fast it may go, and shares what there is fairly among those who wait.
package pace

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Priority is how urgent a request is among those that wait.
type Priority uint8

// The priorities, by which shares of the rate are weighted.
const (
	Normal Priority = iota
	High
	Low
)

// String is the priority's name in headers and metrics.
func (p Priority) String() string { return [...]string{"normal", "high", "low"}[p] }

// Priorities lists all of them.
func Priorities() []Priority { return []Priority{High, Normal, Low} }

// Request is what a queue needs to know of one call.
type Request struct {
	Tenant   string    // whose turn it is among tenants; "": nobody's in particular
	Priority Priority  // share among what waits
	Cost     int       // of the quota: 1, or the pages where those are what counts; below 1 counts as 1
	Again    bool      // the request has had its turn before: it goes to the head of its tenant's, and finds a place in a full queue
	Job      bool      // the call starts a job and needs a permit
	Deadline time.Time // when the turn must have come; zero: it may take for ever
}

func (r *Request) cost() int { return max(r.Cost, 1) }

// TooLongError says that a request's turn would come after its deadline.
type TooLongError struct {
	Wait time.Duration // until its turn would have come
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the queue is %s long, which is more than the request has", e.Wait)
}

// FullError says that no more requests may wait.
type FullError struct {
	Wait time.Duration // until a request that came now would have its turn
}

func (e *FullError) Error() string { return "the queue is full" }

// CircuitState is what a queue needs to know of the account's breaker.
type CircuitState uint8

// The states.
const (
	Closed  CircuitState = iota
	Holding              // nobody leaves but a probe, once the wait is 0
	Passing              // everybody leaves at once, to be told
)

// Circuit tells the state of an account's breaker and, while it holds, how long until a probe may leave. It is never called under a queue's lock.
type Circuit func() (CircuitState, time.Duration)

// reprobe is the time until the next probe may leave when one was given back unused, for example because the breaker did not want it.
const reprobe = 50 * time.Millisecond

// Snapshot is a queue at one moment.
type Snapshot struct {
	Waiting  map[Priority]int
	InFlight int
	Rate     float64       // calls, or pages, per second; 0: nothing limits it
	Learned  bool          // the rate was learned from throttles; else it is fixed, or that of a restart after an outage
	Paused   time.Duration // left
	Held     bool          // by an open circuit
	Oldest   time.Duration // that somebody has waited
}

// Queue is where the calls of one operation of one account wait for their turn. A turn comes when nothing stands against it any more: a pause, an
// open circuit, too many calls under way, too many open jobs, the rate. No goroutine belongs to it: turns are given out by whoever brings news,
// and by one timer.
type Queue struct {
	circuit Circuit
	permits *Permits
	looks   atomic.Uint64 // at the circuit, begun

	mu       sync.Mutex
	settings Settings
	pacer    Pacer
	flows    flows
	inFlight int
	meter    meter
	waits    waits
	bound    bool // it was the rate that let nobody go when somebody was last held up

	paused    time.Time // the end of the pause that those who wait have been told of
	crowd     bool      // those who waited in it have not all been let out
	crowdSize int       // the most that have been in it at a time; 0: not yet known
	smearNext time.Time

	state   CircuitState
	looked  uint64    // the look that told it
	probeAt time.Time // no probe before
	probing bool      // one is out
	before  float64   // accepted per second before the circuit opened

	timer *time.Timer
	armed time.Time // zero: the timer is not set
}

func newQueue(s Settings, c Circuit, p *Permits) *Queue {
	return &Queue{circuit: c, permits: p, settings: s, pacer: &own{tuning: s.tuning()}}
}

// Enter asks for a turn. Without an error the turn has come, or Ready will tell. The error is a *TooLongError or a *FullError; the turn is then
// as unused as before.
//
// A deadline that passes while the request waits is the caller's to notice, who then leaves; no turn is given after it.
func (q *Queue) Enter(t *Turn, r Request) error {
	now := time.Now()
	*t = Turn{queue: q, entered: now, cost: r.cost(), priority: r.Priority, job: r.Job && q.permits != nil}
	q.mu.Lock()
	if q.flows.count == 0 && q.state == Closed && q.hasRoom() && !t.job {
		if slot, _, ok := q.pacer.Take(now, t.cost, false); ok {
			q.grant(t, slot, now)
			q.mu.Unlock()
			return nil
		}
	}
	err := q.line(t, r, now)
	q.mu.Unlock()
	if err != nil {
		*t = Turn{}
	}
	return err
}

// line puts a turn in line, and gives it out at once if nothing stands against that.
func (q *Queue) line(t *Turn, r Request, now time.Time) error {
	if q.isFull() && !r.Again && q.state != Passing {
		return &FullError{Wait: q.expected(now, r)}
	}
	if !r.Deadline.IsZero() && q.state != Passing {
		if wait := q.expected(now, r); now.Add(wait).After(r.Deadline) {
			return &TooLongError{Wait: wait}
		}
	}
	t.tenant, t.again, t.deadline = r.Tenant, r.Again, r.Deadline
	t.paused = q.paused.After(now) || q.smearing() || q.state == Holding
	t.stage = waiting
	q.flows.add(t)
	q.pump(now)
	if t.stage == waiting {
		t.ready = make(chan struct{})
	}
	return t.err
}

func (q *Queue) isFull() bool {
	return q.settings.MaxWaiting > 0 && q.flows.count >= q.settings.MaxWaiting
}

func (q *Queue) hasRoom() bool {
	return q.settings.MaxInFlight <= 0 || q.inFlight < q.settings.MaxInFlight
}

// grant gives a turn out. It does not stand in line any more.
func (q *Queue) grant(t *Turn, slot uint64, now time.Time) {
	t.stage, t.slot, t.granted = granted, slot, now
	q.inFlight++
	q.waits.observe(t.priority, now.Sub(t.entered))
	if t.ready != nil {
		close(t.ready)
	}
}

// tell ends a wait for a turn that cannot come in time. It does not stand in line any more.
func (q *Queue) tell(t *Turn, wait time.Duration) {
	t.stage, t.err = told, &TooLongError{Wait: wait}
	if t.ready != nil {
		close(t.ready)
	}
}

// pump gives out all turns whose time has come, and sets the timer for the next.
func (q *Queue) pump(now time.Time) {
	var again time.Time
	for q.flows.count > 0 {
		t, at := q.choose(now)
		again = sooner(again, at)
		if t == nil {
			q.bound = false
			break
		}
		if q.expired(t, now) {
			continue
		}
		at, ok := q.leave(t, now)
		if !ok {
			again = sooner(again, at)
			break
		}
	}
	q.arm(again)
}

// sooner returns the earlier of two times, of which zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// choose returns whose turn it is; nil: nobody's before at, or before somebody brings news if that is zero. It may return both, where others may go
// before at.
func (q *Queue) choose(now time.Time) (t *Turn, at time.Time) {
	switch {
	case q.state == Passing:
		return q.flows.next(true), time.Time{}
	case q.state == Holding && q.probing:
		return nil, time.Time{}
	case q.state == Holding && q.probeAt.After(now):
		return nil, q.probeAt
	case !q.hasRoom():
		return nil, time.Time{}
	}
	permit := false
	if len(q.flows.jobs) > 0 {
		permit, at = q.permits.free(now)
	}
	return q.flows.next(permit), at
}

// expired ends the wait of a turn whose deadline has passed.
func (q *Queue) expired(t *Turn, now time.Time) bool {
	if t.deadline.IsZero() || !now.After(t.deadline) {
		return false
	}
	q.flows.remove(t)
	q.tell(t, now.Sub(t.entered))
	return true
}

// leave lets a turn go that is next, if there is a slot; otherwise at is when to try again, zero when news will come.
func (q *Queue) leave(t *Turn, now time.Time) (at time.Time, ok bool) {
	if q.state == Passing {
		q.flows.serve(t)
		q.grant(t, 0, now)
		return time.Time{}, true
	}
	if at := q.smear(now); at.After(now) {
		return at, false
	}
	if t.job && !q.permits.take(now) {
		return now.Add(time.Millisecond), false // somebody in another queue was faster
	}
	more := q.flows.count > 1 && q.state == Closed && q.bound // what waits for an outage, another call or a job to end asks for no higher rate
	slot, at, ok := q.pacer.Take(now, t.cost, more)
	if !ok {
		q.bound = true
		if t.job {
			q.permits.giveBack()
		}
		return at, false
	}
	t.permit = t.job
	q.flows.serve(t)
	q.smeared(now)
	q.probing = q.state == Holding
	t.probe = q.probing
	q.grant(t, slot, now)
	return time.Time{}, true
}

// arm sets the timer; the zero time stops it.
func (q *Queue) arm(at time.Time) {
	if at.Equal(q.armed) {
		return
	}
	q.armed = at
	switch {
	case at.IsZero():
		q.timer.Stop()
	case q.timer == nil:
		q.timer = time.AfterFunc(time.Until(at), q.ring)
	default:
		q.timer.Reset(time.Until(at))
	}
}

// ring is what the timer does.
func (q *Queue) ring() {
	q.mu.Lock()
	q.armed = time.Time{}
	if q.state == Holding {
		q.mu.Unlock()
		q.look()
		return
	}
	q.pump(time.Now())
	q.mu.Unlock()
}

// wake is called when there may be news that nobody told the queue: free permits, another process's pause or slots.
func (q *Queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.notePause(now)
	q.pump(now)
}

// look asks the circuit. The lock is not held meanwhile, so that the breaker may call the queue under a lock of its own; of two looks the later
// one counts.
func (q *Queue) look() {
	if q.circuit == nil {
		return
	}
	number := q.looks.Add(1)
	state, wait := q.circuit()
	q.mu.Lock()
	defer q.mu.Unlock()
	if number < q.looked {
		return
	}
	q.looked = number
	now := time.Now()
	was := q.state
	q.state = state
	switch {
	case state == Closed && was != Closed:
		q.probing, q.bound = false, true
		q.pacer.Resume(q.before)
	case state != Closed && was == Closed:
		q.before = q.meter.smooth
		q.probeAt = time.Time{}
	}
	if state == Holding {
		if was != Holding {
			q.flows.each(func(t *Turn) { t.paused = true })
		}
		if at := now.Add(wait); wait > 0 || q.probeAt.Before(at) {
			q.probeAt = at
		}
	}
	q.pump(now)
}

// Full reports whether a request that came now would find no place, and when its turn would come if it did.
func (q *Queue) Full() (wait time.Duration, full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.isFull() || q.state == Passing {
		return 0, false
	}
	return q.expected(time.Now(), Request{}), true
}

// Paced reports whether a rate holds calls back at present, so that their costs count.
func (q *Queue) Paced() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	rate := q.pacer.Rate()
	return rate.PerSecond(q.settings.tuning()) > 0
}

// Free reports whether calls go through as they come, however long they take: no rate, no pause and no limit of calls in flight holds others back.
func (q *Queue) Free() bool {
	if q.Paced() || q.Remaining() > 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.settings.MaxInFlight == 0
}

// Snapshot tells how the queue stands.
func (q *Queue) Snapshot() Snapshot {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	rate := q.pacer.Rate()
	s := Snapshot{
		Waiting: make(map[Priority]int, len(q.flows.waiting)), InFlight: q.inFlight,
		Rate: rate.PerSecond(q.settings.tuning()), Learned: rate.Learned(q.settings.tuning()), Paused: max(0, rate.Pause.Sub(now)), Held: q.state == Holding,
	}
	for _, p := range Priorities() {
		s.Waiting[p] = q.flows.waiting[p]
	}
	switch first := q.flows.oldest(); {
	case !first.IsZero():
		s.Oldest = now.Sub(first)
	case rate.Loose:
		s.Rate = 0 // it binds a crowd, and whoever comes alone ends it
	}
	return s
}

// update replaces the settings. What has been learned stays, and so does a running pause.
func (q *Queue) update(s Settings) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settings = s
	q.pacer.Tune(s.tuning())
	q.pump(time.Now())
}
