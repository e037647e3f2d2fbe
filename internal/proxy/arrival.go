package proxy

import (
	"errors"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

// followFrom is the size in bytes from which on a body goes out while it comes in. A smaller one arrives in a piece or two: head and body then go
// out in one write.
const followFrom = 64<<10 + 1

// errNotReceived ends a request whose body did not arrive, or could not be kept.
var errNotReceived = errors.New("the request's body was not received")

// receive takes the body before the first attempt, unless that one may follow it: the worker is near, and an attempt that begins with the whole
// body cannot fail because of it. A worker that stalls is not waited for longer than its request may take.
func (x *exchange) receive() *refusal {
	if x.in.ContentLength == 0 {
		return nil
	}
	x.uploads = time.Now()
	x.body = x.account.Bodies.Body(x.in.ContentLength)
	_ = x.control.SetReadDeadline(x.lastArrival()) // a writer without a connection has nothing to bound
	if err := x.body.Intake(x.in.Body); err == nil && x.mayFollow() {
		x.follows = true
		return nil
	}
	x.arrive()
	return x.refused
}

// mayFollow reports whether the first attempt may send the body while it arrives: where nothing needs the whole of it first, a repetition is
// harmless, and a worker that is slow keeps nobody from a turn.
func (x *exchange) mayFollow() bool {
	a := x.listener
	_, checked := a.Provider.Checks[x.op.Name]
	signs := slices.ContainsFunc(a.group(), func(a *Account) bool { return x.credentialOf(a).Signs() })
	return x.in.ContentLength >= followFrom && !x.lasting() && x.rpc == nil && x.resent == nil &&
		a.Idempotency.Header == "" && (a.Precheck == nil || !checked) && !signs &&
		x.circuit.wait() == 0 && x.queue().Free()
}

// arrive takes what is still to come of the body and reports whether it is there as a whole. If it is not, the request ends: x.refused tells the
// worker why, or it has gone.
func (x *exchange) arrive() bool {
	if x.body == nil || x.arrived {
		return true
	}
	if x.stop == retry.Canceled || x.refused != nil {
		return false
	}
	if x.follows {
		_ = x.control.SetReadDeadline(x.lastArrival())
	}
	_, err := x.body.Arrive()
	x.upload = x.body.Awaited()
	x.step("upload", x.uploads)
	if x.arrived = err == nil; x.arrived {
		_ = x.control.SetReadDeadline(time.Time{})
		return true
	}
	// The deadline stays: the server reads on after a refusal, and a worker that stalls must not hold it.
	x.err, x.stop = err, retry.Canceled
	if x.refused = notReceived(err); x.refused == nil {
		x.outcome = ClientGone
	}
	return false
}

// lastArrival is until when a worker may go on sending. Time in which the provider took nothing is not held against it: a document that it would
// have sent in time is kept.
func (x *exchange) lastArrival() time.Time {
	limit, now := x.deadline().Add(-x.policy.leastAttempt()), time.Now()
	held := now.Sub(x.uploads) - x.body.Awaited()
	return later(limit, sooner(limit.Add(held), now.Add(lingerTime)))
}

// notReceived is what a worker is told whose body was not received; nil: it has gone, and there is nobody to tell.
func notReceived(err error) *refusal {
	if tooLarge, ok := errors.AsType[*spool.TooLargeError](err); ok {
		return &refusal{status: http.StatusRequestEntityTooLarge, reason: "body_too_large", message: tooLarge.Error()}
	}
	if _, ok := errors.AsType[*spool.WriteError](err); ok {
		return &refusal{
			status: http.StatusServiceUnavailable, reason: "body_not_stored", retry: time.Second,
			message: "the proxy has no room to buffer this body; its log says why",
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &refusal{
			status: http.StatusRequestTimeout, reason: "body_timeout",
			message: "the body did not arrive within the time that the request may take",
		}
	}
	return nil
}
