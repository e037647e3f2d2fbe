package breaker

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestAccountsOwnBreaker(t *testing.T) {
	g := NewGroup("acct", consecutive(1), 0, Observer{})
	own := g.For("")
	require.Same(t, own, g.For(""))
	require.NotSame(t, own, g.For("key"))
}

func TestCredentialsAreSeparate(t *testing.T) {
	g := NewGroup("acct", consecutive(1), 4, Observer{})
	report(t, g.For("a"), Failure)
	isState(t, g.For("a"), Open)
	isState(t, g.For("b"), Closed)
	isState(t, g.For(""), Closed)
}

func TestMadeUpKeysEvictNoCounts(t *testing.T) {
	g := NewGroup("acct", consecutive(5), 16, Observer{})
	report(t, g.For("real"), times(4, Failure)...)
	for i := range 10_000 {
		report(t, g.For(fmt.Sprint("made up ", i)), Result(i%5/4)) // some of them fail
	}
	require.Len(t, g.keyed, 16)
	isState(t, g.For("real"), Closed)
	report(t, g.For("real"), Failure)
	isState(t, g.For("real"), Open)
}

func TestEvictionTakesTheOldestUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup("acct", consecutive(5), 3, Observer{})
		for _, key := range []string{"a", "b", "c"} {
			g.For(key)
			time.Sleep(time.Second)
		}
		report(t, g.For("b"), Failure) // not pristine
		a := g.For("a")                // used again
		g.For("d")                     // in place of c
		require.Contains(t, g.keyed, "b")
		require.Contains(t, g.keyed, "d")
		require.NotContains(t, g.keyed, "c")
		require.Same(t, a, g.For("a"))
	})
}

// What may be forgotten is what would be the same if it were made anew.
func TestPristine(t *testing.T) {
	s := consecutive(5)
	s.AuthThreshold, s.FatalRatio, s.MinRequests, s.Window = 5, 0.9, 20, 16*time.Second
	counting := byRatio()
	for name, c := range map[string]struct {
		settings Settings
		results  []Result
		pristine bool
	}{
		"unused":                 {s, nil, true},
		"good":                   {s, times(3, Success), true},
		"neutral":                {s, times(3, Neutral), true},
		"refused":                {s, times(1, Refused), false},
		"refused, not counted":   {consecutive(5), times(1, Refused), true},
		"permanent":              {s, times(1, Permanent), false},
		"permanent, not counted": {counting, times(1, Permanent), true},
		"failed":                 {s, times(1, Failure), false},
		"failed, in the window":  {counting, []Result{Failure, Success}, false},
		"failed, then good":      {consecutive(5), []Result{Failure, Success}, true},
		"open":                   {consecutive(1), times(1, Failure), false},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(c.settings, Observer{})
			report(t, b, c.results...)
			require.Equal(t, c.pristine, b.pristine(time.Now()))
		})
	}
}

func TestAnAttemptUnderWayIsNotForgotten(t *testing.T) {
	g := NewGroup("acct", consecutive(1), 1, Observer{})
	p := acquire(t, g.For("slow"))
	g.For("other")
	p.Done(Failure)
	isState(t, g.For("slow"), Open)
}

func TestOverflowIsShared(t *testing.T) {
	g := NewGroup("acct", consecutive(5), 2, Observer{})
	report(t, g.For("a"), Failure)
	report(t, g.For("b"), Failure)
	require.Same(t, g.For("c"), g.For("d"))
	require.NotSame(t, g.For("c"), g.For(""))
	require.Len(t, g.keyed, 2)

	report(t, g.For("a"), Success)
	require.NotSame(t, g.For("c"), g.For("d"), "a is pristine again: c takes its place, d shares")
}

func TestUnusedCredentialsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup("acct", consecutive(1), 1, Observer{})
		report(t, g.For("rotated"), Failure)
		require.Equal(t, Open, g.Snapshot().State)
		time.Sleep(time.Hour)
		require.Equal(t, Open, g.Snapshot().State)
		require.Same(t, g.overflow, g.For("next"))
		time.Sleep(time.Second)
		require.Equal(t, Closed, g.Snapshot().State, "nobody has used it for an hour")
		require.NotSame(t, g.overflow, g.For("next"))

		report(t, g.For(""), Failure)
		time.Sleep(2 * time.Hour)
		require.Equal(t, Open, g.Snapshot().State, "the account's own is never forgotten")
	})
}

func TestGroupShowsTheWorst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup("acct", consecutive(1), 4, Observer{})
		require.Equal(t, Snapshot{}, g.Snapshot())
		opened := time.Now()
		report(t, g.For("a"), Failure)
		time.Sleep(reset)
		acquire(t, g.For("a"))
		require.Equal(t, Snapshot{State: HalfOpen, Reason: ReasonFailures, OpenedAt: opened, OpenFor: reset, Failures: 1, Probes: 1}, g.Snapshot())
		report(t, g.For("b"), Failure)
		require.Equal(t, Snapshot{State: Open, Reason: ReasonFailures, OpenedAt: opened, OpenFor: reset, Failures: 1}, g.Snapshot())
	})
}

func TestGroupShowsItsOverflow(t *testing.T) {
	g := NewGroup("acct", consecutive(1), 0, Observer{})
	report(t, g.For("no place"), Failure)
	require.Equal(t, Open, g.Snapshot().State)
}

func TestGroupNamesTheReasonOfTheLongestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := consecutive(2)
		s.AuthThreshold = 1
		g := NewGroup("acct", s, 4, Observer{})
		report(t, g.For("a"), Refused)
		time.Sleep(time.Second)
		report(t, g.For("b"), Failure, Failure) // more failures, but later
		require.Equal(t, ReasonAuth, g.Snapshot().Reason)
	})
}

func TestGroupUpdate(t *testing.T) {
	g := NewGroup("acct", consecutive(3), 1, Observer{})
	for _, b := range []*Breaker{g.For(""), g.For("a"), g.overflow} {
		report(t, b, Failure)
	}
	g.Update(consecutive(2))
	for _, b := range []*Breaker{g.For(""), g.For("a"), g.overflow} {
		isState(t, b, Closed)
		report(t, b, Failure)
		isState(t, b, Open)
	}

	empty := NewGroup("acct", consecutive(3), 1, Observer{})
	empty.Update(consecutive(1))
	report(t, empty.For("new"), Failure)
	isState(t, empty.For("new"), Open)
}

func TestGroupUnderLoad(t *testing.T) {
	g := NewGroup("acct", consecutive(3), 8, Observer{})
	reg := prometheus.NewPedanticRegistry()
	NewMetrics(reg).Add(g)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 300 {
				if p, err := g.For(strconv.Itoa(i%20)).Acquire(&Caller{}, i%3 == 0); err == nil {
					p.Done(Result((worker + i) % 5))
				}
				if i%50 == 0 {
					g.Update(consecutive(3))
					_, err := reg.Gather()
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, len(g.keyed), 8)
}
