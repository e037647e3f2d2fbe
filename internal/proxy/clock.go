package proxy

import (
	"context"
	"fmt"
	"math"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

// clock bounds one attempt and notes whether its request left. Its context ends with a named cause, because the transport returns the cause
// and a timeout must be known by its type.
type clock struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	bare   context.Context // ctx without the trace, for what is not sent to the provider
	trace  httptrace.ClientTrace

	own   time.Duration // the attempt's own time
	total time.Duration // the whole request's, for its error text
	until time.Time     // end of the whole request
	short bool          // so little of the request's time was left that running out of it says nothing about the provider

	arriving *spool.Body   // that the attempt follows; nil: it has the whole body
	credited time.Duration // for what the worker was waited for
	byTotal  atomic.Bool   // the request's time runs out first
	sent     atomic.Bool
}

// startClock gives an attempt its own time, or what is left of the request's if that is less.
func (x *exchange) startClock() *clock {
	c := &clock{own: x.policy.attemptTimeout(x.size()), total: x.total, until: x.attemptsEnd()}
	d := c.own
	if left := time.Until(c.until); left < d {
		c.short = left < d/2 && left < x.account.Policy(x.op.Name).Total/2
		c.byTotal.Store(true)
		d = left
	}
	parent := x.in.Context()
	if x.finishes() {
		parent = x.account.Ending // paid for in any case: what a worker that hangs up does not take is kept
	}
	ctx, cancel := context.WithCancelCause(parent)
	c.trace.WroteHeaders = func() { c.sent.Store(true) }
	c.bare = ctx
	c.ctx, c.cancel = httptrace.WithClientTrace(ctx, &c.trace), cancel
	if !x.follows || x.arrived {
		c.timer = time.AfterFunc(d, c.expire)
		return c
	}
	c.arriving = x.body
	c.timer = time.AfterFunc(math.MaxInt64, c.expire) // it sets itself again, and must know itself for that
	c.timer.Reset(d)
	return c
}

// finishes reports whether an attempt goes on although its worker hangs up.
func (x *exchange) finishes() bool { return x.flight != nil || x.paid }

// expire ends the attempt because its time is over. What went into waiting for the worker is not the provider's.
func (c *clock) expire() {
	if c.arriving != nil && !c.byTotal.Load() {
		if more := c.arriving.Awaited() - c.credited; more > 0 {
			c.credited += more
			left := time.Until(c.until)
			c.byTotal.Store(left < more)
			c.timer.Reset(min(left, more))
			return
		}
	}
	cause := &classify.TimeoutError{What: "attempt timeout", After: c.own}
	if c.byTotal.Load() {
		cause = &classify.TimeoutError{What: "total budget", After: c.total}
	}
	c.cancel(cause)
}

// extend lets an answer that has begun to stream run to the end of the request's time.
func (c *clock) extend() {
	c.byTotal.Store(true)
	c.timer.Reset(time.Until(c.until))
}

// stop ends the attempt's context.
func (c *clock) stop() {
	c.timer.Stop()
	c.cancel(nil)
}

// explain names the time that ran out where an error only says that the context ended.
func (c *clock) explain(err error) error {
	if c.ctx.Err() == nil || classify.IsTimeout(err) {
		return err
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
