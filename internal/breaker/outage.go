package breaker

import "time"

const (
	// probeLease is how long a process may probe for all, until it has to ask again. While a probe is under way it does.
	probeLease = 3 * time.Second
	// leaseMargin is how much earlier a process stops to use its lease than the others take it to be over.
	leaseMargin = time.Second
	// idleLater is how much later than the others a process asks to probe that nobody has asked to pass.
	idleLater = 500 * time.Millisecond
	// askedLately is how long it counts that somebody has asked to pass.
	askedLately = 5 * time.Second
	// somebody is who probes while it has been lost who does. Whoever does says so within the lease.
	somebody = "?"
)

// Outage is what the breakers of several processes know together. It is a plain value, kept where all of them can read and change it, and its
// times are those of one clock that all of them can ask. The zero value is a service that is well.
type Outage struct {
	// Turn is raised by every opening, failed probe and closing.
	Turn uint64 `json:"turn"`
	// Open is true while the breakers are not closed.
	Open bool `json:"open,omitempty"`
	// Reason says why.
	Reason Reason `json:"reason,omitempty"`
	// Since is when the first of them opened, Reopened when the present open interval began.
	Since    time.Time `json:"since,omitzero"`
	Reopened time.Time `json:"reopened,omitzero"`
	// Prober is the process that may probe until Lease; empty: none may.
	Prober string    `json:"prober,omitempty"`
	Lease  time.Time `json:"lease,omitzero"`
	// Wanted is true when another process would like to probe.
	Wanted bool `json:"wanted,omitempty"`
}

// news is what has happened in one process that the others have not been told.
type news int

const (
	nothing  news = iota
	opened        // by what this process has seen of the service
	reopened      // a probe has failed
	closed        // a probe has succeeded
)

// Told is what one breaker has to tell the others, at one moment.
type Told struct {
	me              string
	turn            uint64 // of the outage that the breaker has heard of last
	event           uint64 // names the last event in this process
	news            news
	state           State
	reason          Reason
	since, reopened time.Duration // ago
	probing         bool          // a probe is under way
	due             time.Duration // since when a probe might go; negative: none may yet
	asked           bool          // somebody wants to pass
}

// Change returns what the outage becomes by what was told, and whether that is another. It is a pure function; now is the time on the clock
// that all ask.
func (t Told) Change(o Outage, now time.Time) (Outage, bool) {
	before := o
	if o.Turn < t.turn {
		// What all knew has been lost, or an older state was told by one that had missed the last.
		o = t.outage(now, t.turn)
		if o.Open {
			o.Prober, o.Lease = somebody, now.Add(probeLease)
		}
	}
	switch t.news {
	case opened:
		if !o.Open {
			o = t.outage(now, max(o.Turn, t.turn)+1)
		}
	case reopened:
		if o.Turn <= t.turn {
			o = t.outage(now, t.turn+1)
		}
	case closed:
		if o.Turn <= t.turn && o.Open {
			o = Outage{Turn: t.turn + 1}
		}
	case nothing:
	}
	if o.Open {
		o = t.lease(o, now)
	}
	return o, o != before
}

// outage is the state of this breaker alone.
func (t Told) outage(now time.Time, turn uint64) Outage {
	if t.state == Closed {
		return Outage{Turn: turn}
	}
	return Outage{Turn: turn, Open: true, Reason: t.reason, Since: now.Add(-t.since), Reopened: now.Add(-t.reopened)}
}

// lease gives this breaker the lease to probe for all where it is its turn, prolongs the one it has, or says that it would like to have it.
// Who has it keeps it while nobody else would like to, so that a request that comes once in a long time finds it there.
func (t Told) lease(o Outage, now time.Time) Outage {
	free := now.Sub(o.Lease) // for how long; for ages if there never was a lease
	if o.Prober == "" {
		free = idleLater
	}
	take, keep := false, o.Wanted
	switch {
	case o.Prober == t.me && free < 0:
		take = (t.probing || !o.Wanted) && -free < probeLease-leaseMargin
	case o.Prober == somebody && t.probing:
		take = true
	case free < 0: // it is another's
		o.Wanted = o.Wanted || t.asked && t.due >= 0
	default:
		take, keep = t.asked && t.due >= 0 || t.due >= idleLater && free >= idleLater, false
	}
	if take {
		o.Prober, o.Lease, o.Wanted = t.me, now.Add(probeLease), keep
	}
	return o
}
