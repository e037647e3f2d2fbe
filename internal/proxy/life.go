package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// life is how long the request goes on: as long as its worker is there or, once some of it has been paid for and can be kept, to its end.
func (x *exchange) life() context.Context {
	if x.paid || x.flight != nil && x.earned() {
		return x.account.Ending
	}
	return x.in.Context()
}

// earned reports whether the provider has done work for this request that must not be paid for again: all of it, or some items of a batch.
func (x *exchange) earned() bool {
	return x.class().Good() || x.batch != nil && x.batch.good > 0
}

// sleep waits for d or until wake is closed. It ends early, with the reason, when nobody is left to wait for or the proxy is ending.
func (x *exchange) sleep(d time.Duration, wake <-chan struct{}) retry.Stop {
	began := time.Now()
	if !x.arrive() { // whoever has to wait can as well receive meanwhile
		return retry.Canceled
	}
	timer := time.NewTimer(d - time.Since(began))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-x.account.Ending.Done():
		return retry.Shutdown
	case <-x.life().Done():
		return x.interrupted()
	}
	return retry.Continue
}

// interrupted is why nothing more can be done for the request: its worker has hung up with nothing earned, or the proxy is ending. It is asked
// before anything is held against the provider.
func (x *exchange) interrupted() retry.Stop {
	switch {
	case x.account.Ending.Err() != nil:
		return retry.Shutdown
	case x.life().Err() != nil:
		return retry.Canceled
	}
	return retry.Continue
}

// gone reports whether the worker has hung up. The end of the proxy ends its context too.
func (x *exchange) gone() bool {
	return x.in.Context().Err() != nil && !errors.Is(context.Cause(x.in.Context()), ErrShutdown)
}

// deadline is when the request must have ended.
func (x *exchange) deadline() time.Time { return x.start.Add(x.total) }

// fits reports whether an attempt after that wait would have time for anything.
func (x *exchange) fits(wait time.Duration) bool {
	return time.Since(x.start)+wait < x.policy.Total-x.policy.leastAttempt()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
