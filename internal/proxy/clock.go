package proxy

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
)

// clock bounds one attempt. Its context ends with a named cause, because the transport returns the cause and a timeout must be known by its
// type.
type clock struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  atomic.Pointer[classify.TimeoutError]
	until  time.Time // end of the whole request
	short  bool      // the attempt has so little of the request's time left that running out of it says nothing about the provider
	total  time.Duration
}

// startClock gives an attempt its own time, or what is left of the request's if that is less.
func (x *exchange) startClock() *clock {
	ctx, cancel := context.WithCancelCause(x.in.Context())
	c := &clock{ctx: ctx, cancel: cancel, until: x.deadline(), total: x.policy.Total}
	d := x.policy.attemptTimeout(x.size())
	limit := &classify.TimeoutError{What: "attempt timeout", After: d}
	if left := time.Until(c.until); left < d {
		c.short = left < d/2 && left < x.account.Policy(x.op.Name).Total/2
		d, limit = left, c.budget()
	}
	c.limit.Store(limit)
	c.timer = time.AfterFunc(d, func() { cancel(c.limit.Load()) })
	return c
}

func (c *clock) budget() *classify.TimeoutError {
	return &classify.TimeoutError{What: "total budget", After: c.total}
}

// extend lets an answer that has begun to stream run to the end of the request's time.
func (c *clock) extend() {
	c.limit.Store(c.budget())
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

// size is the number of bytes that go out.
func (x *exchange) size() int64 {
	switch {
	case x.replaced != nil:
		return int64(len(x.replaced))
	case x.body != nil:
		return x.body.Size()
	}
	return 0
}
