package dlq

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errStopped ends what runs in the background when the store closes.
var errStopped = errors.New("the dead-letter store is closing")

// errand runs long work over the whole store in the background, one piece at
// a time. Nobody waits for it longer than he wants, except for close.
type errand struct {
	ctx  context.Context //nolint:containedctx // The life of the store: it ends what runs.
	stop context.CancelCauseFunc

	mu      sync.Mutex
	running chan struct{} // Closed when the work under way is done; nil: there is none.
	closed  bool
}

func newErrand() *errand {
	e := &errand{}
	e.ctx, e.stop = context.WithCancelCause(context.Background())
	return e
}

// run begins the work unless some is under way, and waits for whichever it is
// at most so long. It tells whether that is done.
func (e *errand) run(wait time.Duration, work func(ctx context.Context)) (done bool) {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return false
	}
	running := e.running
	if running == nil {
		running = make(chan struct{})
		e.running = running
		go func() {
			defer func() {
				e.mu.Lock()
				defer e.mu.Unlock()
				e.running = nil
				close(running)
			}()
			work(e.ctx)
		}()
	}
	e.mu.Unlock()
	if wait <= 0 {
		return false
	}
	enough := time.NewTimer(wait)
	defer enough.Stop()
	select {
	case <-running:
		return true
	case <-enough.C:
		return false
	}
}

// close ends the work under way and waits for it. None begins afterwards.
func (e *errand) close() {
	e.mu.Lock()
	e.closed = true
	running := e.running
	e.mu.Unlock()
	e.stop(errStopped)
	if running != nil {
		<-running
	}
}
