package pace

import (
	"math"
	"time"
)

// Tuning says how a rate is found and kept.
type Tuning struct {
	Rate      float64       // per second, fixed: nothing is learned; 0: none
	Burst     int           // of a fixed rate: calls that may go at once; below 1 counts as 1
	Adaptive  bool          // learn the rate from throttles
	StartRate float64       // per second: where learning starts while nothing is known
	Recovery  time.Duration // from a throttle back to the rate that met it
}

// What a throttle and what follows it do to a learned rate.
const (
	keepMost  = 0.9 // of the rate is kept when the limit was met after many calls
	keepLeast = 0.5 // is kept at least, however soon it was met again
	keepRamp  = 0.7 // is kept at most when the limit was met while doubling towards it
	// The way back takes at least so many calls, so that at a slow rate, too, about one call in so many is throttled, not one in three.
	cycleCalls = 50
	weakCalls  = 10       // instead, from a limit that was met as good as at once
	atOnce     = 3        // calls
	haste      = 4.0      // times as fast the rate goes on beyond the last limit as towards it
	beyond     = 1.2      // times the last limit without a throttle: that limit is no more, and doubling is safe
	near       = 0.2      // two limits that differ by less are the same one: it is steady, and is probed half as often
	lowest     = 1.0 / 8  // of StartRate: no throttle pushes the rate lower, so that a request alone has its attempts within its time
	highest    = 10_000.0 // per second: no throttle has to be found beyond it, since no account gives as many
	rampStep   = 1.0 / 10 // of Recovery: the first doubling, and the longest time that counts for growth at once
	searchStep = 1.0 / 4  // of Recovery: the doubling beyond the last limit
)

// late is how late a timer may be for the next call to make up for it.
const late = 4 * time.Millisecond

// mostAhead is how far before its time a slot may have been given out. What lies further ahead was written by a clock that has been put back.
const mostAhead = 2 * time.Second

// Rate is what is known of the speed that a provider takes, and the slots given out at it. It is a plain value: nothing in it waits or reads a
// clock, so several processes can share one and change it by its methods. The zero value is ready: nothing is limited.
//
// After a throttle the rate is cut, then comes back to where it was along a cubic curve which is flat there and gets steep beyond, so that most
// of the time is spent near the limit. One throttle cuts once for all the calls that were on their way when it was told.
type Rate struct {
	Limit float64   `json:"limit,omitempty"` // per second; 0: none is known
	Top   float64   `json:"top,omitempty"`   // the rate that met the last throttle
	Low   float64   `json:"low,omitempty"`   // the rate right after it
	Pause time.Time `json:"pause,omitzero"`  // nobody goes before
	Debt  float64   `json:"debt,omitempty"`  // of what has gone and has not been worked off at Limit
	At    time.Time `json:"at,omitzero"`     // when Debt and Limit were last brought up to date
	Taken uint64    `json:"taken,omitempty"` // slots given out, the number of the last one
	Cut   uint64    `json:"cut,omitempty"`   // the last slot given out before the last cut
	Ramp  bool      `json:"ramp,omitempty"`  // doubling
	Goal  float64   `json:"goal,omitempty"`  // where doubling ends; 0: at the next throttle
	Loose bool      `json:"loose,omitempty"` // the limit is of a restart and goes when nobody waits
	Step  float64   `json:"step,omitempty"`  // seconds that a doubling takes
	Grown float64   `json:"grown,omitempty"` // seconds on the curve
	Weak  bool      `json:"weak,omitempty"`  // the last cut came as good as at once after the one before it, so that Top may be far too low
	Span  float64   `json:"span,omitempty"`  // seconds from Low back to Top
}

// PerSecond is the rate in force, 0 for none.
func (r *Rate) PerSecond(t Tuning) float64 {
	if t.Rate > 0 {
		return t.Rate
	}
	if !t.Adaptive {
		return 0
	}
	return r.Limit
}

// Learned reports whether the rate in force was learned from throttles.
func (r *Rate) Learned(t Tuning) bool { return t.Rate <= 0 && r.PerSecond(t) > 0 && !r.Loose }

// credit is how much may go at once above the rate.
func credit(t Tuning) float64 {
	if t.Rate > 0 {
		return float64(max(t.Burst, 1) - 1)
	}
	return 0
}

// Next is when the next slot comes, now or earlier if there is one.
func (r *Rate) Next(now time.Time, t Tuning) time.Time {
	at := now
	if limit := r.PerSecond(t); limit > 0 {
		owed := r.owed(now, t) - credit(t)
		if owed > 1e-6 { // a millionth of a call is an error of rounding
			at = now.Add(seconds(owed/limit) + 1)
		}
	}
	if r.Pause.After(at) {
		return r.Pause
	}
	return at
}

// owed is the debt at that time. Below zero it makes up for a timer that was late, so that the rate is kept on average and a learned one
// does not depend on how late timers are; by no more than a call, since to catch up is to be early.
func (r *Rate) owed(now time.Time, t Tuning) float64 {
	if r.At.IsZero() || r.At.Sub(now) > mostAhead {
		return 0
	}
	limit := r.PerSecond(t)
	return max(-min(1, limit*late.Seconds()), r.Debt-limit*now.Sub(r.At).Seconds())
}

// Take gives out the next slot, whatever Next says, and returns its number. More tells that others wait for theirs: only then does the rate grow.
func (r *Rate) Take(now time.Time, cost int, more bool, t Tuning) uint64 {
	r.Taken++
	limit := r.PerSecond(t)
	if limit == 0 {
		return r.Taken
	}
	if ahead := r.At.Sub(now); ahead > 0 && ahead <= mostAhead {
		now = r.At // slots have been reserved ahead
	}
	r.Debt = r.owed(now, t) + float64(cost)
	if t.Rate <= 0 {
		r.grow(now, more, t)
	}
	r.At = now
	return r.Taken
}

// Slot is a time at which one call may go.
type Slot struct {
	At     time.Time
	Number uint64
}

// Reserve gives out the slots of cost 1 that come until then, at most so many, for a process that shares the rate and asks ahead. A call that
// costs more takes several. More tells that others will wait beyond them. It is for rates that limit: without one all slots are now.
func (r *Rate) Reserve(now, until time.Time, most int, more bool, t Tuning) (slots []Slot) {
	for len(slots) < most {
		now = r.Next(now, t)
		if now.After(until) {
			break
		}
		slots = append(slots, Slot{now, r.Take(now, 1, more, t)})
	}
	return slots
}

// GiveBack returns what a slot cost because no call was made in it.
func (r *Rate) GiveBack(cost int) { r.Debt = max(0, r.Debt-float64(cost)) }

// grow moves the rate along its curve by the time since the last slot.
func (r *Rate) grow(now time.Time, more bool, t Tuning) {
	defer func() { r.Limit = min(r.Limit, highest) }()
	if !more {
		if r.Loose {
			r.Limit, r.Loose, r.Ramp, r.Debt = 0, false, false, 0
		}
		return
	}
	since := r.At
	if r.Pause.After(since) {
		since = r.Pause
	}
	step := min(now.Sub(since).Seconds(), max(rampStep*t.Recovery.Seconds(), 2/r.Limit))
	if step <= 0 {
		return
	}
	if r.Ramp {
		r.Step = min(r.Step, r.search(r.Limit, t))
		r.Limit *= math.Exp2(step / r.Step)
		if r.Goal > 0 && r.Limit >= r.Goal {
			r.Limit, r.Ramp = r.Goal, false
		}
		return
	}
	r.Grown += step
	if r.Grown < r.Span {
		r.Limit = r.Top - (r.Top-r.Low)*cube(1-r.Grown/r.Span)
		return
	}
	r.Limit = r.Top * (1 + (1-keepMost)*cube(haste*(r.Grown-r.Span)/r.cycle(t)))
	if r.Limit > beyond*r.Top {
		r.Ramp, r.Goal, r.Step = true, 0, searchStep*r.cycle(t)
	}
}

// cycle is how many seconds the way back takes where nothing is known of the limit's steadiness.
func (r *Rate) cycle(t Tuning) float64 { return max(t.Recovery.Seconds(), r.calls()/r.Top) }

// calls is how many the way back takes at least.
func (r *Rate) calls() float64 {
	if r.Weak {
		return weakCalls
	}
	return cycleCalls
}

// search is how many seconds a doubling takes that starts from that rate.
func (r *Rate) search(from float64, t Tuning) float64 {
	return searchStep * max(t.Recovery.Seconds(), r.calls()/from)
}

// Evidence is what a throttle is judged by.
type Evidence struct {
	Slot     uint64  // of the throttled call
	Accepted float64 // per second in the last round trip; 0: unknown
	Seed     float64 // per second, named by the provider; 0: it did not
}

// Throttled cuts the rate, unless the call left before the last cut and so tells nothing new. It reports whether it did.
func (r *Rate) Throttled(now time.Time, e Evidence, t Tuning) bool {
	if t.Rate > 0 || !t.Adaptive {
		return false
	}
	if r.Limit == 0 {
		r.first(now, e, t)
		return true
	}
	if e.Slot <= r.Cut {
		return false
	}
	n := float64(e.Slot - r.Cut)
	keep := min(keepMost, max(keepLeast, (n-1)/n))
	r.Weak = n < atOnce
	if r.Ramp {
		keep = min(keep, keepRamp)
	} else {
		keep = max(keep, min(keepMost, e.Accepted/r.Limit)) // what is accepted all the time is no limit: it was met too close behind another call
	}
	was := r.Top
	if e.Seed > beyond*r.Limit {
		e.Seed = 0 // that much was not asked for: something else is what limits
	}
	r.meet(r.Limit, keep, e, t)
	if math.Abs(r.Top-was) < near*was && keep == keepMost {
		r.Span *= 2
	}
	r.Debt = max(r.owed(now, t), 1) // the bucket is empty: the next call needs a slot's time
	r.At = now
	return true
}

// first sets the first limit that anybody knows of.
func (r *Rate) first(now time.Time, e Evidence, t Tuning) {
	switch {
	case e.Seed > 0:
		r.meet(e.Seed, keepMost, e, t)
	case e.Accepted > 0:
		r.meet(max(e.Accepted, t.StartRate), keepMost, e, t)
	default:
		r.Limit, r.Top, r.Low = t.StartRate, t.StartRate, t.StartRate
		r.Ramp, r.Goal, r.Step = true, 0, rampStep*t.Recovery.Seconds()
		r.Cut = r.Taken
	}
	r.Debt, r.At = 1, now
}

// meet notes the limit that was met and goes below it.
func (r *Rate) meet(limit, keep float64, e Evidence, t Tuning) {
	r.Top = limit
	if e.Seed > 0 {
		r.Top = e.Seed
		limit = min(limit, e.Seed)
	}
	floor := lowest * t.StartRate
	r.Top = min(max(r.Top, floor), highest)
	r.Limit = min(max(limit*keep, floor), r.Top)
	r.Low, r.Span, r.Grown = r.Limit, r.cycle(t), 0
	r.Ramp, r.Loose, r.Cut = false, false, r.Taken
}

// PauseUntil lets nobody go until then. It never shortens a pause, and reports whether it made it longer.
func (r *Rate) PauseUntil(until time.Time) bool {
	if !until.After(r.Pause) {
		return false
	}
	r.Pause = until
	return true
}

// Resume starts again after an outage: at half the rate that the provider took before it, doubling up to that, and then as if that had been
// the last limit. Where no limit was known it doubles until nobody waits.
func (r *Rate) Resume(now time.Time, accepted float64, t Tuning) {
	if t.Rate > 0 || !t.Adaptive {
		return
	}
	known := r.Limit > 0 && !r.Loose
	goal, bound := min(max(accepted, t.StartRate), highest), false
	if known {
		bound = goal > (1-2*near)*r.Limit
		goal = min(goal, r.Limit)
	}
	r.Limit, r.Low, r.Top = goal/2, goal, goal
	r.Ramp, r.Goal, r.Step = true, goal, rampStep*t.Recovery.Seconds()
	r.Span = r.cycle(t)
	r.Grown = 0
	if !bound {
		r.Grown = r.Span // it was the demand: there is no reason to linger
	}
	if !known {
		r.Goal, r.Loose = 0, true
	}
	r.Debt, r.At = 0, now
	r.Cut = r.Taken // what left before the outage tells nothing of after it
}

// Shift returns the same with all times moved, for a reader whose clock differs by that much.
func (r *Rate) Shift(by time.Duration) Rate {
	moved := *r
	if !moved.Pause.IsZero() {
		moved.Pause = moved.Pause.Add(by)
	}
	if !moved.At.IsZero() {
		moved.At = moved.At.Add(by)
	}
	return moved
}

// until is how long that much cost takes to be let go at the rate, as it is going to grow if no throttle comes. It is for rates that are known. A limit that was
// met once is a guess: whoever is told that it will not do for him gives up what he might have had. One that was met again where it was is believed.
func (r *Rate) until(cost float64, t Tuning) time.Duration {
	if t.Rate > 0 {
		return seconds(cost / t.Rate)
	}
	if !r.Ramp {
		if r.Span > 1.5*r.cycle(t) {
			return seconds(cost / max(r.Limit, r.Top))
		}
		return seconds(r.climb(cost, t))
	}
	if r.Goal == 0 {
		return seconds(r.searching(cost, r.Limit, r.Step, t))
	}
	s, ramp := doubling(cost, r.Limit, r.Step), r.Step*math.Log2(r.Goal/r.Limit)
	if s <= ramp {
		return seconds(s)
	}
	rest := cost - (r.Goal-r.Limit)*r.Step/math.Ln2
	if r.Grown < r.Span {
		return seconds(ramp + rest/r.Goal) // the limit of before the outage
	}
	return seconds(ramp + r.climb(rest, t))
}

// climb is the least number of seconds in which that much cost goes along the curve and beyond it.
func (r *Rate) climb(cost float64, t Tuning) (s float64) {
	cycle, grown := r.cycle(t), r.Grown
	if left := r.Span - grown; left > 0 {
		went := r.Top*left - (r.Top-r.Low)*r.Span/4*math.Pow(left/r.Span, 4)
		if cost < went {
			return left * cost / went
		}
		s, cost, grown = left, cost-went, r.Span
	}
	most := math.Cbrt((beyond-1)/(1-keepMost)) * cycle / haste // seconds from Top until the rate doubles
	if left := most - (grown - r.Span); left > 0 {
		went := beyond * r.Top * left
		if cost < went {
			return s + left*cost/went
		}
		s, cost = s+left, cost-went
	}
	return s + r.searching(cost, max(r.Limit, beyond*r.Top), searchStep*cycle, t)
}

// searching is how many seconds it takes until that much cost is gone at a rate that doubles until it is throttled, at first in that step.
func (r *Rate) searching(cost, from, step float64, t Tuning) (s float64) {
	for {
		step = min(step, r.search(from, t))
		went := from * step / math.Ln2
		if cost <= went || step <= searchStep*t.Recovery.Seconds() {
			return s + doubling(cost, from, step)
		}
		s, cost, from = s+step, cost-went, 2*from
	}
}

// doubling is how many seconds it takes until that much cost is gone at a rate that doubles in each step.
func doubling(cost, from, step float64) float64 { return step * math.Log2(1+cost*math.Ln2/(from*step)) }

func cube(x float64) float64 { return x * x * x }

// seconds converts without overflow.
func seconds(s float64) time.Duration {
	return time.Duration(min(s*float64(time.Second), math.MaxInt64/2))
}
