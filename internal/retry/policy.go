// Package retry decides whether and when to try again. Its functions are pure; the loop that acts on them lives in the proxy.
package retry

import (
	"math/rand/v2"
	"time"
)

// Stop says why the proxy made no further attempt. It is orthogonal to the class, which says what happened.
type Stop uint8

// The reasons to stop.
const (
	Continue    Stop = iota // no reason: try again
	Final                   // the last answer is final: a success, or an error that no repetition mends
	Attempts                // all attempts are used
	Elapsed                 // the time ran out during an attempt
	HintTooLong             // the provider asks to wait longer than the time that is left
	Overflow                // the computed wait, or the one for its turn, is longer than the time that is left
	Full                    // there is no place to wait for its turn
	Crowded                 // too many retries are under way at once on this account
	Breaker                 // the circuit is open, and will still be after the wait
	Unsafe                  // the provider may have done the work, and doing it twice costs twice
	Canceled                // the worker hung up
	Shutdown                // the proxy is ending
)

// Stops lists every reason that is counted, for metrics that are present from start-up.
func Stops() []Stop {
	return []Stop{Attempts, Elapsed, HintTooLong, Overflow, Crowded, Breaker, Unsafe, Shutdown}
}

// String is the reason as the metric retry_outcomes_total names it, and "" for those that it does not count.
func (s Stop) String() string {
	switch s {
	case Attempts:
		return "exhausted_attempts"
	case Elapsed:
		return "exhausted_time"
	case HintTooLong:
		return "hint_too_long"
	case Overflow:
		return "budget_overflow"
	case Crowded:
		return "retry_budget"
	case Breaker:
		return "breaker"
	case Unsafe:
		return "not_safe"
	case Shutdown:
		return "shutdown"
	case Continue, Final, Full, Canceled:
	}
	return ""
}

// Policy is how often and after which waits a request is tried.
type Policy struct {
	MaxAttempts int           // all tries, the first included; at least 1
	Base, Cap   time.Duration // full jitter: uniform in [0, min(Cap, Base·2^n)], n counting retries from 0
	Total       time.Duration // wall clock of the whole request
	// Jitter draws from [0, ceiling]; nil draws uniformly at random.
	Jitter func(ceiling time.Duration) time.Duration
}

// hintJitter is the share of a hint, and maxHintJitter the time, that is added at most so that a fleet does not wake as one.
const (
	hintJitter    = 10 // a tenth
	maxHintJitter = time.Second
)

// Next tells how long to wait before the attempt after the n-th (n from 1), elapsed time into the request. A hint above zero supersedes the
// computed wait and is never undercut. Both bounds bind: with any Stop but Continue there is no further attempt and the wait is how long it
// would have been.
func (p Policy) Next(n int, elapsed, hint time.Duration) (time.Duration, Stop) {
	jitter := p.Jitter
	if jitter == nil {
		jitter = Uniform
	}
	wait, tooLong := jitter(p.ceiling(n-1)), Overflow
	if hint > 0 {
		wait, tooLong = hint+jitter(min(hint/hintJitter, maxHintJitter)), HintTooLong
	}
	switch {
	case n >= p.MaxAttempts:
		return wait, Attempts
	case wait >= p.Total-elapsed:
		return wait, tooLong
	}
	return wait, Continue
}

// ceiling is min(Cap, Base·2^n) without overflow.
func (p Policy) ceiling(n int) time.Duration {
	c := p.Base
	for range n {
		if c >= p.Cap {
			break
		}
		c *= 2
		if c <= 0 {
			return p.Cap
		}
	}
	return min(c, p.Cap)
}

// Uniform draws a duration from [0, ceiling] at random.
func Uniform(ceiling time.Duration) time.Duration {
	if ceiling <= 0 {
		return 0
	}
	return rand.N(ceiling + 1) //nolint:gosec // spreading a crowd needs no secrecy
}
