package share

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/pace"
)

// quota is a provider that takes so many calls a second, with some at once.
type quota struct {
	perSecond, burst float64

	mu                  sync.Mutex
	tokens              float64
	at                  time.Time
	accepted, throttled atomic.Int64
}

func (q *quota) call() pace.Result {
	q.mu.Lock()
	now := time.Now()
	q.tokens = min(q.burst, q.tokens+q.perSecond*now.Sub(q.at).Seconds())
	q.at = now
	ok := q.tokens >= 1
	if ok {
		q.tokens--
	}
	q.mu.Unlock()
	if !ok {
		q.throttled.Add(1)
		time.Sleep(5 * time.Millisecond)
		return pace.Throttled
	}
	q.accepted.Add(1)
	time.Sleep(50*time.Millisecond + rand.N(50*time.Millisecond))
	return pace.Accepted
}

// sidecar is a process with one queue.
type sidecar struct {
	store  *Store
	pacer  *Pacer
	queue  *pace.Queue
	served atomic.Int64
}

func newSidecar(t *testing.T, address string, s pace.Settings) *sidecar {
	t.Helper()
	c := &sidecar{store: join(t, address)}
	a := account(c.store)
	queues := pace.NewQueues("invoices", nil, s, nil, nil)
	queues.Share(func(scope string, t pace.Tuning, wake func()) pace.Pacer {
		c.pacer = a.Pacer(scope, t, wake)
		return c.pacer
	})
	c.queue = queues.For("")
	return c
}

func newSidecars(t *testing.T, n int, address string, s pace.Settings) []*sidecar {
	t.Helper()
	all := make([]*sidecar, n)
	for i := range all {
		all[i] = newSidecar(t, address, s)
	}
	for _, c := range all {
		eventually(t, "sharing", func() bool {
			c.pacer.mu.Lock()
			defer c.pacer.mu.Unlock()
			return !c.pacer.alone && c.pacer.account.Peers() == n
		})
	}
	return all
}

// work makes one call after the other until the context ends.
func (c *sidecar) work(ctx context.Context, call func() pace.Result) error {
	again := false
	for ctx.Err() == nil {
		var turn pace.Turn
		if err := c.queue.Enter(&turn, pace.Request{Again: again}); err != nil {
			return err
		}
		if ready := turn.Ready(); ready != nil {
			select {
			case <-ready:
			case <-ctx.Done():
				turn.Leave()
				return nil
			}
			if err := turn.Err(); err != nil {
				return err
			}
		}
		result := call()
		if result == pace.Accepted {
			c.served.Add(1)
		}
		again = result == pace.Throttled
		turn.Done(result)
	}
	return nil
}

// run lets every sidecar have so many workers until the test ends, and watches them for windows of that length until one is good. On a machine that
// does much else, a window can be bad although nothing is wrong.
func run(t *testing.T, all []*sidecar, workers int, call func() pace.Result, window time.Duration, good func(least, most int64) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, c := range all {
		for range workers {
			running.Go(func() {
				if err := c.work(ctx, call); err != nil {
					t.Error(err)
				}
			})
		}
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	for range 6 {
		for _, c := range all {
			c.served.Store(0)
		}
		time.Sleep(window)
		least, most := int64(1<<62), int64(0)
		for _, c := range all {
			least, most = min(least, c.served.Load()), max(most, c.served.Load())
		}
		if good(least, most) {
			return
		}
	}
	require.Fail(t, "no window was good")
}

func settings() pace.Settings {
	return pace.Settings{StartRate: 2, Recovery: 2 * time.Second, MaxWaiting: 1000}
}

// Ten queues over one rate are together as fast as the rate says, and none is left out.
func TestTenQueuesShareAFixedRate(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, address string) {
		s := settings()
		s.Rate = 200
		all := newSidecars(t, 10, address, s)
		var total atomic.Int64
		call := func() pace.Result {
			total.Add(1)
			time.Sleep(20 * time.Millisecond)
			return pace.Accepted
		}
		const window = 3 * time.Second
		begin, before := time.Now(), int64(0)
		run(t, all, 10, call, window, func(least, most int64) bool {
			n := total.Load()
			together := float64(n - before)
			before = n
			t.Logf("%g calls, from %d to %d per queue", together, least, most)
			require.Less(t, float64(n), 1.05*s.Rate*(time.Since(begin)+ahead+stale).Seconds(), "never more than the rate")
			return math.Abs(together/(s.Rate*window.Seconds())-1) < 0.05 && float64(least) > 0.7*float64(most)
		})
	})
}

// Ten queues that learn one rate are throttled as seldom as one queue is.
func TestTenQueuesLearnOneRate(t *testing.T) {
	t.Parallel()
	address := startServer(t).address()
	s := settings()
	s.Adaptive = true
	all := newSidecars(t, 10, address, s)
	q := &quota{perSecond: 100, burst: 100}
	const window = 4 * time.Second
	var accepted, throttled int64
	run(t, all, 6, q.call, window, func(least, most int64) bool {
		took, refused := q.accepted.Load()-accepted, q.throttled.Load()-throttled
		accepted, throttled = accepted+took, throttled+refused
		t.Logf("%d accepted, %d throttled, from %d to %d per queue", took, refused, least, most)
		return float64(refused) <= 0.03*float64(took+refused) && float64(took) >= 0.9*q.perSecond*window.Seconds() && float64(least) > 0.6*float64(most)
	})
}

// A pause that one is told holds all.
func TestPausesAreShared(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, address string) {
		all := newSidecars(t, 2, address, settings())
		all[0].queue.Pause(time.Now().Add(3 * time.Second))
		require.Positive(t, all[0].queue.Remaining())
		eventually(t, "the pause elsewhere", func() bool { return all[1].queue.Remaining() > time.Second })
		var turn pace.Turn
		require.NoError(t, all[1].queue.Enter(&turn, pace.Request{}))
		require.True(t, turn.Paused())
		before := all[1].queue.Remaining()
		<-turn.Ready()
		require.NoError(t, turn.Err())
		require.Positive(t, before)
		turn.Done(pace.Accepted)
	})
}

// One throttle cuts the rate once, however many processes hear of it; one recovery resumes it once.
func TestOneCutForAll(t *testing.T) {
	t.Parallel()
	s := settings()
	s.Adaptive = true
	all := newSidecars(t, 5, startServer(t).address(), s)
	all[0].pacer.Throttled(pace.Evidence{Seed: 100})
	limit := func(c *sidecar) float64 {
		v, _ := c.pacer.cell.Get()
		return v.Limit
	}
	for _, c := range all {
		eventually(t, "the limit", func() bool { return limit(c) == 90 })
	}
	for _, c := range all {
		c.pacer.Throttled(pace.Evidence{}) // of calls that had left before
	}
	cut := func() bool {
		for _, c := range all {
			c.pacer.mu.Lock()
			pending := len(c.pacer.pending)
			c.pacer.mu.Unlock()
			if pending > 0 {
				return false
			}
		}
		return true
	}
	eventually(t, "everybody's change", cut)
	require.InDelta(t, 90, limit(all[0]), 0)

	for _, c := range all {
		c.pacer.Resume(1000)
	}
	eventually(t, "everybody's change", cut)
	for _, c := range all {
		eventually(t, "half the rate", func() bool { return limit(c) == 45 })
	}
}

// Killing the server lets everybody go on at his part of the rate: nobody errs, nobody stands still. When it is back, empty, all share again what
// was known.
func TestPacingWithoutTheServer(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	s := settings()
	s.Adaptive = true
	all := newSidecars(t, 3, server.address(), s)
	all[0].pacer.Throttled(pace.Evidence{Seed: 100})
	for _, c := range all {
		eventually(t, "the limit", func() bool { return c.pacer.Rate().Limit > 0 })
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	calls := make([]atomic.Int64, len(all))
	for i, c := range all {
		running.Go(func() {
			err := c.work(ctx, func() pace.Result {
				calls[i].Add(1)
				return pace.Other
			})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	goOn := func(what string) {
		t.Helper()
		for i := range calls {
			from := calls[i].Load()
			start := time.Now()
			eventually(t, what, func() bool { return calls[i].Load() > from+3 })
			require.Less(t, time.Since(start), 5*time.Second, what)
		}
	}
	alone := func(want bool) func() bool {
		return func() bool {
			for _, c := range all {
				c.pacer.mu.Lock()
				is := c.pacer.alone
				c.pacer.mu.Unlock()
				if is != want {
					return false
				}
			}
			return true
		}
	}
	goOn("calls together")
	server.kill()
	goOn("calls while it is being noticed")
	eventually(t, "everybody alone", alone(true))
	for _, c := range all {
		require.InDelta(t, 30, c.pacer.Rate().Limit, 12, "a third of what all had")
	}
	goOn("calls alone")
	server.start(t)
	eventually(t, "everybody together", alone(false))
	goOn("calls together again")
	for _, c := range all {
		eventually(t, "what was known", func() bool { v, _ := c.pacer.cell.Get(); return v.Limit > 60 })
	}
	cancel()
	running.Wait()
}

// A provider that takes whatever it is asked for is not what the workers wait for: it is their own calls, and at times the trip to the server. The
// rate must not go on growing because of that, nor must slots be reserved that nobody is going to use.
func TestARateThatLimitsNobodyDoesNotGrow(t *testing.T) {
	t.Parallel()
	address := startServer(t).address()
	s := settings()
	s.Adaptive, s.StartRate = true, 100
	c := newSidecars(t, 1, address, s)[0]
	var called atomic.Int64
	call := func() pace.Result {
		if called.Add(1) == 1 {
			return pace.Throttled
		}
		time.Sleep(20 * time.Millisecond)
		return pace.Accepted
	}
	const workers, most = 16, 16 / 0.02 // A worker cannot make more calls a second than it has time for.
	highest, slots := 0.0, 0
	run(t, []*sidecar{c}, workers, call, 4*time.Second, func(least, _ int64) bool {
		c.pacer.mu.Lock()
		highest, slots = max(highest, c.pacer.known.Limit), max(slots, cap(c.pacer.slots))
		c.pacer.mu.Unlock()
		t.Logf("%d calls in 4 s; the rate is %.4g, room for %d slots", least, highest, slots)
		return least > most/4
	})
	require.Less(t, highest, 8.0*most)
	require.LessOrEqual(t, slots, 4*mostSlots)
}
