package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// crew is a number of workers with a backlog of documents.
type crew struct {
	scale   scale
	targets []string // addresses; the workers are dealt out over them in blocks
	workers int
	spread  time.Duration // in which all of them begin, in the provider's time
	from    sender
	// post sends a document somewhere else than through a worker's own connection; nil: it does not.
	post func(ctx context.Context, w *worker, n int) (reply, error)
}

// work lets the workers do the documents [0, documents) and returns when the last one is done or the context ends.
func (c crew) work(ctx context.Context, documents int, l ledger) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for i := range c.workers {
		wg.Go(func() {
			target := i * len(c.targets) / c.workers
			w := &worker{addr: c.targets[target]}
			defer w.close()
			pause(ctx, time.Duration(rand.Int64N(int64(c.scale.real(c.spread))+1)))
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= documents {
					return
				}
				l.note(n, c.one(ctx, w, n, target, time.Now()))
			}
		})
	}
	wg.Wait()
}

func (c crew) one(ctx context.Context, w *worker, n, target int, due time.Time) fate {
	post := c.post
	if post == nil {
		post = func(ctx context.Context, w *worker, n int) (reply, error) { return w.send(ctx, c.from, n) }
	}
	r, err := post(ctx, w, n)
	return fate{replied: err == nil, reply: r, err: err, took: time.Since(due), target: target}
}

// stream sends the documents [first, first+len) one each interval, on the tick whether earlier ones are answered or not, until over is closed.
// It returns how many it sent, when the last of them has its answer.
func (c crew) stream(ctx context.Context, first, most int, interval time.Duration, over <-chan struct{}, l ledger) int {
	var wg sync.WaitGroup
	idle := make(chan *worker, most)
	defer func() {
		wg.Wait()
		close(idle)
		for w := range idle {
			w.close()
		}
	}()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for sent := range most {
		var due time.Time
		select {
		case <-over:
			return sent
		case <-ctx.Done():
			return sent
		case due = <-tick.C:
		}
		wg.Go(func() {
			w := &worker{addr: c.targets[0]}
			select {
			case w = <-idle:
			default:
			}
			l.note(first+sent, c.one(ctx, w, first+sent, 0, due))
			idle <- w
		})
	}
	return most
}

// pause sleeps, less where the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
