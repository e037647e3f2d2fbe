package breaker

import (
	"slices"
	"time"
)

// Result is what an attempt says about the service. The zero value is Success.
type Result int

const (
	// Success means that the service is well.
	Success Result = iota
	// Failure means that the service is not.
	Failure
	// Neutral says nothing: neither counts nor resets.
	Neutral
	// Permanent is a success for health, since the service answered, and
	// counts for FatalRatio.
	Permanent
	// Refused is neutral for health and counts for AuthThreshold.
	Refused
)

// Caller stands for one request over all its attempts, which it makes one
// after the other. It remembers how many failures of the present series the
// request added: at most FailureThreshold-1 count (in ratio mode
// MinRequests-1), but always one. The zero value is ready. A Caller that moves
// on to another Breaker starts anew there.
type Caller struct {
	breaker *Breaker
	run     uint64
	added   int
}

// Permit allows one attempt. Its Done may be deferred with Neutral and called
// earlier with the real result.
type Permit struct {
	breaker    *Breaker
	caller     *Caller
	generation uint64
	started    time.Time // of a probe only
	done       bool      // guarded by the breaker's mutex
}

// Done reports the attempt's result. Only the first call counts, and only if
// the breaker has not changed its state since: what was sent before it opened
// neither prolongs the interval nor spoils the recovery. A probe's result is
// also dropped when its lease ended and its place went to another.
func (p *Permit) Done(r Result) {
	b := p.breaker
	b.mu.Lock()
	defer b.unlock()
	if p.done {
		return
	}
	p.done = true
	b.inFlight--
	if p.generation != b.generation {
		return
	}
	if b.state == HalfOpen {
		b.probed(p, r)
		return
	}
	b.count(p.caller, r)
}

// Probe reports whether the attempt is one of the few that find out whether an
// opened breaker may close.
func (p *Permit) Probe() bool { return !p.started.IsZero() }

// count takes in a result of the closed state; mu is held.
func (b *Breaker) count(c *Caller, r Result) {
	switch r {
	case Success, Permanent:
		b.refused = 0
		b.failures = 0
		if b.settings.FailureRatio <= 0 {
			b.run++
		}
		b.record(r)
	case Failure:
		if !b.mayAdd(c) {
			return
		}
		b.failures++
		b.record(r)
		if b.settings.FailureRatio <= 0 && b.settings.FailureThreshold > 0 && b.failures >= b.settings.FailureThreshold {
			b.open(ReasonFailures)
		}
	case Refused:
		if b.refuse() {
			b.open(ReasonAuth)
		}
	case Neutral:
	}
}

// record puts a result into the window and opens the breaker when the kind of
// result just seen has reached its ratio; mu is held. A success never opens.
func (b *Breaker) record(r Result) {
	s := &b.settings
	if !s.windowed() {
		return
	}
	now := time.Now()
	b.window.add(now, r)
	if r == Success {
		return
	}
	total := b.window.sum(now)
	if total.results() < s.MinRequests {
		return
	}
	switch {
	case r == Failure && reached(total.failures, total.results(), s.FailureRatio):
		b.open(ReasonFailures)
	case r == Permanent && reached(total.permanent, total.results(), s.FatalRatio):
		b.open(ReasonFatal)
	}
}

func reached(part, whole int, ratio float64) bool {
	return ratio > 0 && float64(part) >= ratio*float64(whole)
}

// refuse counts a refusal and reports whether they suffice to open; mu is held.
func (b *Breaker) refuse() bool {
	if b.settings.AuthThreshold <= 0 {
		return false
	}
	b.refused++
	return b.refused >= b.settings.AuthThreshold
}

// mayAdd notes one more failure of c, unless c has had its share; mu is held.
func (b *Breaker) mayAdd(c *Caller) bool {
	if c == nil {
		return true
	}
	if c.breaker != b || c.run != b.run {
		*c = Caller{breaker: b, run: b.run}
	}
	if c.added >= b.settings.share() {
		return false
	}
	c.added++
	return true
}

// probed takes in a probe's result; mu is held.
func (b *Breaker) probed(p *Permit, r Result) {
	place := slices.Index(b.probes, p)
	if place < 0 {
		return
	}
	switch r {
	case Success, Permanent:
		b.close()
		return
	case Failure:
		b.open(ReasonFailures)
		return
	case Refused:
		if b.refuse() || b.reason == ReasonAuth {
			b.open(ReasonAuth)
			return
		}
	case Neutral:
	}
	b.probes = slices.Delete(b.probes, place, place+1)
	b.wake()
}
