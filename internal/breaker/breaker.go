// Package breaker stops sending to a service that fails again and again, and
// notices with single probes when it is well. It counts results and knows
// nothing of protocols: the caller turns an answer into a Result.
//
// A Breaker is closed (everything passes), open (nothing passes) or half-open
// (a few probes pass). Nothing runs in the background: open turns half-open
// inside Acquire, and reading never changes a state. A Group holds the
// breakers of one provider account, Metrics shows groups to Prometheus.
package breaker

import (
	"slices"
	"sync"
	"time"
)

// busyWait is what a caller is told to wait while all probe places are taken:
// nobody knows when a probe will report, so it is a polling interval.
const busyWait = 250 * time.Millisecond

// Breaker decides whether an attempt may be made. Make one with New; all its
// methods may be called concurrently.
type Breaker struct {
	observer Observer

	mu         sync.Mutex
	settings   Settings
	state      State
	reason     Reason    // why it is not closed
	generation uint64    // raised by every state change, so that late reports are known as such
	since      time.Time // when it stopped being closed
	reopened   time.Time // when the present open interval began
	sustained  bool      // the observer knows of this outage's length

	failures int    // consecutive failures
	run      uint64 // names the present series of failures; see Caller
	refused  int    // consecutive refusals
	window   window

	inFlight int       // permits not reported yet
	probes   []*Permit // places taken while half-open, possibly by probes that are lost
	fleet    *fleet    // nil: acts by itself

	changed chan struct{} // nil while nobody asked
	events  []func()      // for the observer, in order
	telling bool          // somebody is delivering events
}

// New returns a closed breaker.
func New(s Settings, o Observer) *Breaker {
	return &Breaker{observer: o, settings: s, window: newWindow(s.Window)}
}

// Acquire asks to make one attempt. The permit must be handed back with Done.
// When the breaker does not let the attempt pass, the error is an *OpenError
// that says for how long.
//
// The caller c names the request that the attempt belongs to; nil stands for a
// request whose failures all count. A waiting request would rather hold than
// be refused: while one asks, an open breaker probes every EagerProbe (or
// ResetTimeout, if that is shorter) instead of every ResetTimeout. To hold,
// take Changed first, then Acquire, then wait for whichever comes first,
// the channel or OpenError.Wait.
func (b *Breaker) Acquire(c *Caller, waiting bool) (*Permit, error) {
	b.mu.Lock()
	if b.state == Closed {
		b.inFlight++
		generation := b.generation
		b.mu.Unlock()
		return &Permit{breaker: b, caller: c, generation: generation}, nil
	}
	defer b.unlock()
	now := time.Now()
	if wait := b.wait(now, waiting); wait > 0 {
		return nil, &OpenError{State: b.state, Reason: b.reason, Wait: wait}
	}
	if b.state == Open {
		b.enter(HalfOpen)
	}
	b.probes = slices.DeleteFunc(b.probes, func(p *Permit) bool { return b.lost(p, now) })
	p := &Permit{breaker: b, caller: c, generation: b.generation, started: now}
	b.probes = append(b.probes, p)
	b.inFlight++
	return p, nil
}

// Wait says how long it takes until an Acquire that is not waiting could
// succeed: 0 when it could now, and a fraction of a second while all probe
// places are taken. It changes no state, so ask it before sleeping; a breaker
// that acts together with others notes that somebody wants to pass.
func (b *Breaker) Wait() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wait(time.Now(), false)
}

// Sustained reports whether the outage lasts: the breaker has not been closed for more than twice its ResetTimeout.
func (b *Breaker) Sustained() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state != Closed && time.Since(b.since) > 2*b.settings.ResetTimeout
}

// Held reports whether the breaker is not closed, and how long it takes until an
// Acquire that is waiting could succeed. Like Wait it changes nothing.
func (b *Breaker) Held() (wait time.Duration, held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wait(time.Now(), true), b.state != Closed
}

// Changed returns a channel that is closed at the next event that may let a
// refused caller in: a change of state, a probe place given back, new
// settings. To miss none, take the channel before calling Acquire.
func (b *Breaker) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// Update replaces the settings and keeps the state and its counts; only a
// change of Window empties the window. A running open interval is measured
// against the new ResetTimeout.
func (b *Breaker) Update(s Settings) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.Window != b.settings.Window {
		b.window = newWindow(s.Window)
	}
	b.settings = s
	b.wake()
}

// Snapshot returns the present state. It never changes it: an open breaker
// whose interval is over stays open until somebody asks to pass.
func (b *Breaker) Snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	s := Snapshot{State: b.state, Reason: b.reason, Failures: b.failures}
	if b.settings.FailureRatio > 0 {
		s.Failures = b.window.sum(now).failures
	}
	if b.state == Closed {
		return s
	}
	s.OpenedAt = b.since
	s.OpenFor = now.Sub(b.since)
	s.Probes = b.taken(now)
	return s
}

// pristine reports whether forgetting this breaker would lose nothing: it is
// closed, nothing speaks against the service, and no attempt is under way.
func (b *Breaker) pristine(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != Closed || b.inFlight > 0 || b.failures > 0 || b.refused > 0 {
		return false
	}
	if !b.settings.windowed() {
		return true
	}
	total := b.window.sum(now)
	return total.failures == 0 && (b.settings.FatalRatio <= 0 || total.permanent == 0)
}

// wait is Wait and OpenError.Wait; mu is held.
func (b *Breaker) wait(now time.Time, waiting bool) time.Duration {
	switch b.state {
	case Open:
		if left := b.settings.probeAfter(waiting) - now.Sub(b.reopened); left > 0 {
			return left
		}
		if b.ask(now, waiting) {
			return busyWait
		}
		return 0
	case HalfOpen:
		if b.ask(now, waiting) {
			return busyWait
		}
		if b.taken(now) < b.settings.places() {
			return 0
		}
		soonest := busyWait
		for _, p := range b.probes {
			if left := b.settings.ProbeLease - now.Sub(p.started); left > 0 {
				soonest = min(soonest, left)
			}
		}
		return soonest
	case Closed:
	}
	return 0
}

// taken counts the places of probes that are not lost; mu is held.
func (b *Breaker) taken(now time.Time) int {
	n := 0
	for _, p := range b.probes {
		if !b.lost(p, now) {
			n++
		}
	}
	return n
}

// lost reports whether a probe has overstayed its lease; mu is held.
func (b *Breaker) lost(p *Permit, now time.Time) bool {
	return b.settings.ProbeLease > 0 && now.Sub(p.started) >= b.settings.ProbeLease
}
