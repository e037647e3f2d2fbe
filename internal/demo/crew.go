package demo

import (
	"context"
	"sync"
	"time"
)

// crewSize is how many workers send documents at one time.
const crewSize = 6

// crew is a small pool of workers and what they have brought back.
type crew struct {
	worker *worker
	heard  func(result) // told of each document at its end, one at a time
	inbox  chan errand

	working sync.WaitGroup
	open    sync.WaitGroup // documents handed out and not back yet

	mu      sync.Mutex
	results []result
}

// hire starts the workers. dismiss ends them.
func hire(ctx context.Context, w *worker, heard func(result)) *crew {
	c := &crew{worker: w, heard: heard, inbox: make(chan errand)}
	for range crewSize {
		c.working.Go(func() {
			for e := range c.inbox {
				c.done(w.read(ctx, e.account, e.document))
			}
		})
	}
	return c
}

func (c *crew) done(r result) {
	defer c.open.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = append(c.results, r)
	c.heard(r)
}

// process hands the documents out over the given time, or as fast as the workers take them, and returns when all are back. When the context
// ends it hands out no more.
func (c *crew) process(ctx context.Context, errands []errand, over time.Duration) error {
	for i, e := range errands {
		if i > 0 {
			if err := pause(ctx, over/time.Duration(len(errands))); err != nil {
				break
			}
		}
		c.open.Add(1)
		select {
		case c.inbox <- e:
		case <-ctx.Done():
			c.open.Done()
		}
	}
	c.open.Wait()
	return context.Cause(ctx)
}

// dismiss waits for the workers to end and returns what they brought back.
func (c *crew) dismiss() []result {
	close(c.inbox)
	c.working.Wait()
	return c.results
}

// pause sleeps, unless the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
