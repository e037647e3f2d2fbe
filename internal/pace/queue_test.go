package pace

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// bench is a queue with the turns that a test has entered.
type bench struct {
	*testing.T
	q     *Queue
	qs    *Queues
	start time.Time
}

func newBench(t *testing.T, s Settings) *bench {
	qs := NewQueues("acct", nil, s, nil, nil)
	return &bench{t, qs.For("other"), qs, time.Now()}
}

// enter takes a turn, or a place in line, that must be had.
func (b *bench) enter(r Request) *Turn {
	b.Helper()
	turn := new(Turn)
	require.NoError(b, b.q.Enter(turn, r))
	return turn
}

// has reports whether a turn has come.
func (b *bench) has(turn *Turn) bool {
	b.Helper()
	synctest.Wait()
	if turn.Ready() == nil {
		return true
	}
	select {
	case <-turn.Ready():
		require.NoError(b, turn.Err())
		return true
	default:
		return false
	}
}

// order enters requests that have to wait, lets time pass and returns the names in the order in which their turns came.
func (b *bench) order(requests ...Request) (tenants []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range requests {
		turn := b.enter(r)
		wg.Go(func() {
			if turn.Ready() != nil {
				<-turn.Ready()
			}
			mu.Lock()
			defer mu.Unlock()
			tenants = append(tenants, fmt.Sprint(r.Tenant, r.Priority.String()[:1]))
			turn.Done(Other)
		})
	}
	wg.Wait()
	return tenants
}

func (b *bench) throttle() {
	turn := b.enter(Request{})
	turn.Done(Throttled)
}

func TestWithoutLimitsEverybodyGoesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, usual())
		for range 1000 {
			require.Nil(t, b.enter(Request{}).Ready())
		}
		require.Equal(t, 1000, b.q.Snapshot().InFlight)
		require.Zero(t, b.q.Snapshot().Rate)
	})
}

func TestFixedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{Rate: 10, Burst: 3})
		var came []time.Duration
		var turns []*Turn
		for range 6 {
			turns = append(turns, b.enter(Request{}))
		}
		for _, turn := range turns {
			if turn.Ready() != nil {
				<-turn.Ready()
			}
			came = append(came, time.Since(b.start).Round(time.Millisecond))
		}
		ms := time.Millisecond
		require.Equal(t, []time.Duration{0, 0, 0, 100 * ms, 200 * ms, 300 * ms}, came)
		turns[5].Done(Throttled)
		require.InDelta(t, 10, b.q.Snapshot().Rate, 0, "nothing is learned")
		require.False(t, b.q.Snapshot().Learned)
	})
}

func TestPagesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{Rate: 10})
		require.True(t, b.has(b.enter(Request{Cost: 20})), "a large one goes when its turn comes")
		next := b.enter(Request{})
		time.Sleep(1990 * time.Millisecond)
		require.False(t, b.has(next))
		time.Sleep(11 * time.Millisecond)
		require.True(t, b.has(next), "and is paid for afterwards")
	})
}

func TestMaxInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{MaxInFlight: 2})
		first, second := b.enter(Request{}), b.enter(Request{})
		third, fourth := b.enter(Request{}), b.enter(Request{})
		time.Sleep(time.Hour)
		require.False(t, b.has(third))
		first.Done(Other)
		require.True(t, b.has(third))
		require.False(t, b.has(fourth))
		first.Leave()
		require.False(t, b.has(fourth), "a turn is given back once")
		second.Leave()
		require.True(t, b.has(fourth))
	})
}

func TestATurnThatLeavesGivesItsSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{Rate: 1})
		first, second, third := b.enter(Request{}), b.enter(Request{}), b.enter(Request{})
		second.Leave()
		require.False(t, b.has(third))
		first.Leave()
		require.True(t, b.has(third), "at once: neither of them made a call")
	})
}

func TestPauseHoldsAndLetsTheCrowdOutEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{MaxPause: time.Minute, Smear: time.Second})
		b.q.Pause(b.start.Add(2 * time.Second))
		b.q.Pause(b.start.Add(time.Second))
		require.Equal(t, 2*time.Second, b.q.Remaining(), "never shorter")
		var turns []*Turn
		for range 10 {
			turns = append(turns, b.enter(Request{}))
		}
		for i, turn := range turns {
			<-turn.Ready()
			require.Equal(t, 2*time.Second+time.Duration(i)*100*time.Millisecond, time.Since(b.start))
			require.True(t, turn.Paused())
		}
		time.Sleep(time.Second)
		late := b.enter(Request{})
		require.True(t, b.has(late))
		require.False(t, late.Paused())
	})
}

// Who comes while a crowd is let out joins it. Those whom its time leaves over must not leave as one.
func TestACrowdIsNeverLetOutAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{MaxPause: time.Minute, Smear: time.Second})
		b.q.Pause(b.start.Add(time.Second))
		gone := map[int]int{} // calls by tenth of a second
		var mu sync.Mutex
		call := func() {
			came := time.Now()
			turn := b.enter(Request{})
			if turn.Ready() != nil {
				<-turn.Ready()
			}
			mu.Lock()
			gone[int(time.Since(b.start)/(100*time.Millisecond))]++
			require.Less(t, time.Since(came), 2300*time.Millisecond)
			mu.Unlock()
			turn.Done(Accepted)
		}
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(call)
		}
		for range 300 { // 100 a second, from the beginning of the pause
			calls.Go(call)
			time.Sleep(10 * time.Millisecond)
		}
		calls.Wait()
		require.Zero(t, gone[9], "in the pause")
		for tenth, n := range gone {
			require.Less(t, n, 25, "in the tenth of a second %d of %v", tenth, gone)
		}
	})
}

func TestMaxPauseBoundsEachHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{MaxPause: 5 * time.Second})
		b.q.Pause(b.start.Add(time.Hour))
		require.Equal(t, 5*time.Second, b.q.Remaining())
		time.Sleep(4 * time.Second)
		b.q.Pause(b.start.Add(time.Hour).UTC().Round(0)) // a date from a header has no monotonic part
		require.Equal(t, 5*time.Second, b.q.Remaining())
		b.qs.Update(Settings{})
		require.Equal(t, 5*time.Second, b.q.Remaining(), "a running pause keeps its end")
		b.q.Pause(time.Unix(1<<40, 0))
		require.Greater(t, b.q.Remaining(), 200*365*24*time.Hour, "no overflow")
	})
}

func TestWhoHasNoTimeForAPauseIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{Rate: 1})
		b.enter(Request{})
		patient := b.enter(Request{Deadline: b.start.Add(time.Minute)})
		hasty := b.enter(Request{Deadline: b.start.Add(8 * time.Second)})
		b.q.Pause(b.start.Add(10 * time.Second))
		<-hasty.Ready()
		var long *TooLongError
		require.ErrorAs(t, hasty.Err(), &long)
		require.Equal(t, 10*time.Second, long.Wait)
		require.Zero(t, time.Since(b.start))
		<-patient.Ready()
		require.NoError(t, patient.Err())
		require.Equal(t, 10*time.Second, time.Since(b.start))

		require.ErrorAs(t, b.q.Enter(new(Turn), Request{Deadline: time.Now().Add(-1)}), &long, "and whoever comes too late, too")
	})
}

func TestExpectedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{Rate: 10, MaxWaiting: 200})
		wait := func(r Request) time.Duration {
			r.Deadline = time.Now().Add(time.Nanosecond)
			var long *TooLongError
			require.ErrorAs(t, b.q.Enter(new(Turn), r), &long)
			return long.Wait.Round(10 * time.Millisecond)
		}
		for range 101 {
			b.enter(Request{Tenant: "bulk"})
		}
		require.Equal(t, 10100*time.Millisecond, wait(Request{Tenant: "bulk"}))
		require.Equal(t, 100*time.Millisecond, wait(Request{Tenant: "bulk", Again: true}))
		require.Equal(t, 200*time.Millisecond, wait(Request{Tenant: "other"}), "one of each")
		require.Equal(t, 500*time.Millisecond, wait(Request{Tenant: "other", Priority: Low}), "one in five")
		require.Equal(t, 100*time.Millisecond, wait(Request{Tenant: "other", Priority: High}))
		for range 100 {
			b.enter(Request{Tenant: "other", Priority: Low})
		}
		left, full := b.q.Full()
		require.True(t, full)
		require.Positive(t, left)
		var tooMany *FullError
		require.ErrorAs(t, b.q.Enter(new(Turn), Request{Tenant: "bulk"}), &tooMany)
		require.InDelta(t, 12.7, tooMany.Wait.Seconds(), 0.2, "100 before it and, meanwhile, a quarter as many of the other")
		b.enter(Request{Tenant: "bulk", Again: true})
		time.Sleep(5 * time.Second)
		_, full = b.q.Full()
		require.False(t, full)
	})
}

func TestExpectedWaitWhereCallsUnderWayAreTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{MaxInFlight: 2})
		first := b.enter(Request{})
		time.Sleep(2 * time.Second)
		first.Done(Accepted)
		b.enter(Request{})
		b.enter(Request{})
		for range 9 {
			b.enter(Request{})
		}
		var long *TooLongError
		require.ErrorAs(t, b.q.Enter(new(Turn), Request{Deadline: time.Now().Add(time.Second)}), &long)
		require.Equal(t, 10*time.Second, long.Wait, "ten calls of two seconds, two at a time")
	})
}

func TestSharesByTenantAndPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{Rate: 10})
		b.enter(Request{})
		var requests []Request
		for range 16 {
			requests = append(requests, Request{Tenant: "a"})
		}
		for range 3 {
			requests = append(requests, Request{Tenant: "b"}, Request{Tenant: "b", Priority: Low}, Request{Tenant: "b", Priority: High})
		}
		got := b.order(requests...)
		require.Equal(t, []string{"bh", "bh", "bh", "an", "bn", "an", "bn", "an", "bn", "an", "bl"}, got[:11])
		require.Equal(t, "bl", got[15], "low comes, too, once for every four of a")
	})
}

func TestRetriesGoFirstAmongTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{Rate: 10})
		b.enter(Request{})
		first, second := b.enter(Request{Tenant: "a"}), b.enter(Request{Tenant: "b"})
		again := b.enter(Request{Tenant: "a", Again: true})
		time.Sleep(101 * time.Millisecond)
		require.True(t, b.has(again))
		time.Sleep(100 * time.Millisecond)
		require.True(t, b.has(second), "the other tenant is not overtaken for ever")
		require.False(t, b.has(first))
	})
}

func TestTenantsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{Rate: 1000})
		b.q.Pause(time.Now().Add(time.Second))
		var turns []*Turn
		for i := range 5000 {
			turns = append(turns, b.enter(Request{Tenant: fmt.Sprint("tenant ", i), Priority: Priority(i % 3)}))
		}
		b.q.mu.Lock()
		require.LessOrEqual(t, len(b.q.flows.flows), maxFlows+3)
		b.q.mu.Unlock()
		time.Sleep(7 * time.Second)
		for _, turn := range turns {
			require.True(t, b.has(turn))
		}
		b.q.mu.Lock()
		defer b.q.mu.Unlock()
		require.Empty(t, b.q.flows.flows)
	})
}

func TestAnOpenCircuitLetsOneProbeOutAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state, opens := Closed, time.Now()
		qs := NewQueues("acct", nil, usual(), func() (CircuitState, time.Duration) { return state, max(0, time.Until(opens)) }, nil)
		b := &bench{t, qs.For("other"), qs, time.Now()}
		set := func(to CircuitState, wait time.Duration) {
			state, opens = to, time.Now().Add(wait)
			qs.CircuitChanged()
		}
		set(Holding, 2*time.Second)
		require.True(t, b.q.Snapshot().Held)
		first, second, third := b.enter(Request{}), b.enter(Request{}), b.enter(Request{})
		time.Sleep(1999 * time.Millisecond)
		require.False(t, b.has(first))
		time.Sleep(2 * time.Millisecond)
		require.True(t, b.has(first))
		time.Sleep(time.Hour)
		require.False(t, b.has(second), "the probe is still out")
		set(Holding, 2*time.Second)
		first.Done(Other)
		time.Sleep(1999 * time.Millisecond)
		require.False(t, b.has(second))
		time.Sleep(2 * time.Millisecond)
		require.True(t, b.has(second))
		second.Leave() // the breaker did not want it
		require.False(t, b.has(third), "not in a loop")
		time.Sleep(time.Second)
		require.True(t, b.has(third))
		for range 20 {
			b.enter(Request{})
		}
		set(Closed, 0)
		third.Done(Accepted)
		got := b.q.Snapshot()
		require.InDelta(t, 1, got.Rate, 0.01, "half the rate of the start, where nothing is known")
		require.False(t, got.Learned, "no throttle taught it")
		require.Equal(t, 1, got.InFlight)
		time.Sleep(10 * time.Second)
		got = b.q.Snapshot()
		require.Zero(t, got.Waiting[Normal])
		require.Zero(t, got.Rate, "when nobody waits the restart is over")
	})
}

func TestTheLatestLookAtTheCircuitCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		looks, slow := 0, make(chan struct{})
		qs := NewQueues("acct", nil, usual(), func() (CircuitState, time.Duration) {
			mu.Lock()
			looks++
			first := looks == 1
			mu.Unlock()
			if first {
				<-slow
				return Holding, time.Hour
			}
			return Closed, 0
		}, nil)
		q := qs.For("other")
		go q.look()
		synctest.Wait()
		q.look()
		close(slow)
		synctest.Wait()
		require.False(t, q.Snapshot().Held, "it is old news")
	})
}

func TestACircuitThatRejectsLetsEverybodyPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := Closed
		qs := NewQueues("acct", nil, Settings{Rate: 1, MaxWaiting: 2}, func() (CircuitState, time.Duration) { return state, 0 }, nil)
		b := &bench{t, qs.For("other"), qs, time.Now()}
		b.enter(Request{})
		waiting := b.enter(Request{})
		b.q.Pause(time.Now().Add(100 * time.Millisecond))
		state = Passing
		qs.CircuitChanged()
		require.True(t, b.has(waiting))
		for range 5 {
			require.Nil(t, b.enter(Request{Deadline: time.Now()}).Ready())
		}
		_, full := b.q.Full()
		require.False(t, full)
		waiting.Leave()
		time.Sleep(200 * time.Millisecond)
		state = Closed
		qs.CircuitChanged()
		require.False(t, b.has(b.enter(Request{})), "who passed took no slot and gives none back")
	})
}

func TestTheFirstThrottleBringsTheRateThatWasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, usual())
		var wg sync.WaitGroup
		for range 100 {
			turn := b.enter(Request{})
			wg.Go(func() {
				time.Sleep(time.Second)
				turn.Done(Accepted)
			})
			time.Sleep(50 * time.Millisecond)
		}
		b.throttle()
		require.InDelta(t, 18, b.q.Snapshot().Rate, 1.5, "0.9 of 20 per second")
		require.True(t, b.q.Snapshot().Learned)
		wg.Wait()

		b = newBench(t, usual())
		b.throttle()
		require.InDelta(t, 2, b.q.Snapshot().Rate, 0, "nothing is known")

		b = newBench(t, usual())
		turn := b.enter(Request{})
		turn.Seed(50)
		turn.Done(Throttled)
		require.InDelta(t, 45, b.q.Snapshot().Rate, 1e-9, "the provider has named it")

		b = newBench(t, Settings{})
		b.throttle()
		require.Zero(t, b.q.Snapshot().Rate, "nothing is to be learned")
	})
}

// Ten thousand that wait for years cost a grant no more than ten do.
func TestAGrantDoesNotLookAtAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Settings{Rate: 1e6})
		b.q.Pause(time.Now().Add(time.Second))
		turns := make([]Turn, 100_000)
		for i := range turns {
			require.NoError(t, b.q.Enter(&turns[i], Request{Tenant: string(rune('a' + i%20))}))
		}
		time.Sleep(2 * time.Second)
		require.Equal(t, len(turns), b.q.Snapshot().InFlight)
	})
}

func TestAnImmediateTurnDoesNotAllocate(t *testing.T) {
	for _, s := range []Settings{usual(), {Rate: 1e12}, {MaxInFlight: 10}} {
		q := NewQueues("acct", nil, s, nil, nil).For("other")
		var turn Turn
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if q.Enter(&turn, Request{Tenant: "a"}) != nil || turn.Ready() != nil {
				t.Error("not at once")
			}
			turn.Done(Accepted)
		}))
	}
}

func BenchmarkImmediateTurn(b *testing.B) {
	q := NewQueues("acct", nil, usual(), nil, nil).For("other")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var turn Turn
		for pb.Next() {
			_ = q.Enter(&turn, Request{Tenant: "a"})
			turn.Done(Accepted)
		}
	})
}

func BenchmarkGrantBesideTenThousand(b *testing.B) {
	q := NewQueues("acct", nil, Settings{MaxInFlight: 1}, nil, nil).For("other")
	var running Turn
	_ = q.Enter(&running, Request{})
	turns := make([]Turn, 10_000)
	for i := range turns {
		_ = q.Enter(&turns[i], Request{Tenant: string(rune('a' + i%20))})
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		_ = q.Enter(&turns[i%len(turns)], Request{}) // measured with its wait in line, since the flow is the last
		turns[i%len(turns)].Leave()
	}
}

func TestAfterAnOutageNothingLimitsAnOperationThatNobodyAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := Holding
		qs := NewQueues("acct", nil, usual(), func() (CircuitState, time.Duration) { return state, 0 }, nil)
		b := &bench{t, qs.For("other"), qs, time.Now()}
		qs.CircuitChanged()
		state = Closed
		qs.CircuitChanged()
		require.Zero(t, b.q.Snapshot().Rate)
		require.True(t, b.has(b.enter(Request{})))
		require.True(t, b.has(b.enter(Request{})), "and so it is")

		state = Holding
		qs.CircuitChanged()
		for range 4 {
			b.enter(Request{})
		}
		state = Closed
		qs.CircuitChanged()
		require.Positive(t, b.q.Snapshot().Rate, "a crowd is let out slowly")
		time.Sleep(time.Minute)
		require.Zero(t, b.q.Snapshot().Rate)
	})
}
