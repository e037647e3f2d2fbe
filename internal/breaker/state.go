package breaker

import (
	"fmt"
	"time"
)

// State is a breaker's state. The zero value is Closed, and a greater state is
// a worse one.
type State int

const (
	// Closed lets every attempt pass.
	Closed State = iota
	// HalfOpen lets a few probes pass to see whether the service is well.
	HalfOpen
	// Open lets nothing pass.
	Open
)

// States returns all states, best first.
func States() []State { return []State{Closed, HalfOpen, Open} }

// String returns closed, half_open or open.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half_open"
	case Open:
		return "open"
	}
	return fmt.Sprintf("state %d", int(s))
}

// MarshalText returns the text of String, for JSON; it never fails.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reason says why a breaker is not closed. The empty Reason belongs to a
// closed one.
type Reason string

const (
	// ReasonFailures means too many failures, in a row or by ratio, or a
	// failed probe.
	ReasonFailures Reason = "failures"
	// ReasonAuth means that the credential was refused again and again.
	ReasonAuth Reason = "auth"
	// ReasonFatal means that too many answers were permanent errors.
	ReasonFatal Reason = "fatal"
)

// Snapshot is a breaker's state at one moment.
type Snapshot struct {
	// State is the state, unchanged by looking.
	State State
	// Reason says why it is not closed; empty when it is.
	Reason Reason
	// OpenedAt is when it stopped being closed; failed probes do not move it.
	// Zero when it is closed.
	OpenedAt time.Time
	// OpenFor is how long it has not been closed; 0 when it is.
	OpenFor time.Duration
	// Failures is the number of consecutive failures, in ratio mode that of
	// failures in the window. Those of probes are not among them.
	Failures int
	// Probes is how many probes are under way.
	Probes int
}

// OpenError refuses an attempt. It tells nothing of the traffic that opened
// the breaker.
type OpenError struct {
	// State is Open, or HalfOpen when all probe places are taken.
	State State
	// Reason says why the breaker is not closed.
	Reason Reason
	// Wait is the time until the same Acquire could succeed, never negative;
	// while all probe places are taken it is a fraction of a second.
	Wait time.Duration
}

// Error names state, reason and the time to come back.
func (e *OpenError) Error() string {
	return fmt.Sprintf("circuit breaker is %s (%s), try again in %s", e.State, e.Reason, e.Wait)
}

// Observer is told what a breaker does, in order and without its lock, so that
// it may call back into it. Calls must be quick: they run in the request that
// caused them.
type Observer struct {
	// Transition reports a change of state: why the breaker is or was not
	// closed, and since when. Nil: nobody listens.
	Transition func(from, to State, reason Reason, openSince time.Time)
	// Sustained reports, once per outage, that the breaker opened again after
	// more than twice its ResetTimeout without being closed, and why it did.
	// Nil: nobody listens.
	Sustained func(reason Reason, openSince time.Time)
}
