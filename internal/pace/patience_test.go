package pace

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fates counts how the documents of a crowd ended.
type fates struct{ done, told, late, exhausted int }

// crowd has many documents done at once, each with its time and its attempts. A throttle names that rate; 0: none.
func (f *fleet) crowd(documents int, budget time.Duration, named float64) (all fates) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range documents {
		wg.Go(func() {
			fate := f.patient(time.Now().Add(budget), named)
			mu.Lock()
			defer mu.Unlock()
			all.done += fate.done
			all.told += fate.told
			all.late += fate.late
			all.exhausted += fate.exhausted
		})
	}
	wg.Wait()
	return all
}

// patient has one document done as long as there are time and attempts.
func (f *fleet) patient(deadline time.Time, named float64) fates {
	var turn Turn
	for n := range 6 {
		if f.q.Enter(&turn, Request{Again: n > 0, Deadline: deadline}) != nil {
			return fates{told: 1}
		}
		if ready := turn.Ready(); ready != nil {
			select {
			case <-ready:
			case <-time.After(time.Until(deadline)):
				turn.Leave()
				return fates{late: 1}
			}
			if turn.Err() != nil {
				return fates{told: 1}
			}
		}
		if f.u.call() == good {
			turn.Done(Accepted)
			return fates{done: 1}
		}
		turn.Seed(named)
		turn.Done(Throttled)
	}
	return fates{exhausted: 1}
}

// trickle has documents done one after the other, so slowly that their rate is the demand's and not the provider's.
func (f *fleet) trickle(documents int, every time.Duration) {
	var wg sync.WaitGroup
	for range documents {
		time.Sleep(every)
		wg.Go(func() { f.do(Request{}) })
	}
	wg.Wait()
}

// stray throttles one call.
func (f *fleet) stray() {
	var turn Turn
	if err := f.q.Enter(&turn, Request{}); err != nil {
		panic(err)
	}
	if turn.Ready() != nil {
		<-turn.Ready()
	}
	turn.Done(Throttled)
}

// A thousand documents are nothing for this provider. Whatever the queue has learned when there was little to do, nobody is told that his turn comes too
// late when it would come in time.
func TestALimitThatIsAGuessTurnsNobodyAway(t *testing.T) {
	for _, c := range []struct {
		name   string
		named  float64
		before func(f *fleet)
	}{
		{"nothing is known", 0, func(*fleet) {}},
		{"the provider names far too low a rate", 10, func(*fleet) {}},
		{"a stray throttle of a slow day", 0, func(f *fleet) {
			f.u.service = 10 * time.Second
			f.trickle(60, 900*time.Millisecond)
			f.stray()
			f.u.service = 1500 * time.Millisecond
		}},
		{"a slow day on which every call was throttled", 0, func(f *fleet) {
			for range 12 {
				f.stray()
				time.Sleep(time.Second)
			}
		}},
		{"an outage of a slow day, on an account that has been throttled", 0, func(f *fleet) {
			f.crowd(1000, time.Hour, 0)
			time.Sleep(time.Minute)
			f.trickle(60, 500*time.Millisecond)
			for range 5 {
				f.f.tell(false)
			}
			time.Sleep(2 * time.Second)
			f.f.tell(true)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(newUpstream(1, 100, 10), usual())
				c.before(f)
				require.Equal(t, fates{done: 1000}, f.crowd(1000, 89*time.Second, c.named))
			})
		})
	}
}

// A limit that was met again where it had been is believed: who cannot have his turn before his time is over does not wait for that.
func TestASteadyLimitIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(newUpstream(1, 22.2, 22), usual())
		f.work(100, 3000)
		rate, s := f.q.pacer.Rate(), usual()
		require.InDelta(t, 100, rate.until(2220, s.tuning()).Seconds(), 12)
	})
}

// Calls that may run at one time are calls, however many pages each of them has.
func TestPagesAreNoCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{MaxInFlight: 4, Rate: 1000})
		turn := b.enter(Request{})
		time.Sleep(5 * time.Second)
		turn.Done(Accepted)
		var turns []*Turn
		for range 4 + 8 {
			turns = append(turns, b.enter(Request{Cost: 30, Deadline: time.Now().Add(20 * time.Second)}))
			time.Sleep(100 * time.Millisecond)
		}
		require.False(t, b.has(turns[4]))
		err := b.q.Enter(new(Turn), Request{Cost: 30, Deadline: time.Now().Add(10 * time.Second)})
		require.ErrorContains(t, err, "11.25s", "nine turns of four at one time, each of five seconds")
	})
}

// A provider that names a rate at which it throttles is not believed twice.
func TestARateThatIsNamedTooHigh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUpstream(1, 10, 1)
		f := newFleet(u, usual())
		require.Equal(t, fates{done: 600}, f.crowd(600, 89*time.Second, 100))
		require.LessOrEqual(t, u.refused, 700, "all of them once, since they came at once")
	})
}

// A rate grows while it holds somebody up. Those whom something else holds up say nothing of it, however many they are: it must not be without bound when it is needed.
func TestARateGrowsOnlyWhereItBinds(t *testing.T) {
	for name, s := range map[string]Settings{"calls in flight": {MaxInFlight: 4}, "open jobs": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := usual()
				limits.MaxInFlight = s.MaxInFlight
				permits := NewPermits(4, time.Hour, time.Minute)
				qs := NewQueues("acct", nil, limits, nil, permits)
				f := &fleet{u: newUpstream(1, 1000, 1000), f: &fuse{changed: qs.CircuitChanged}, qs: qs, q: qs.For("other")}
				f.stray()
				start := time.Now()
				var wg sync.WaitGroup
				for range 40 {
					wg.Go(func() {
						for time.Since(start) < 2*time.Hour {
							f.do(Request{Job: true})
						}
					})
				}
				time.Sleep(time.Hour)
				rate := f.q.Snapshot().Rate
				wg.Wait()
				require.Greater(t, rate, 2.0)
				require.Less(t, rate, 300.0, "four at a time of one and a half seconds, of which two end at the same time now and then")
			})
		})
	}
}
