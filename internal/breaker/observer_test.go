package breaker

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// An observer that looks at the breaker and uses it must not hang, and what it
// causes is told after what it was told.
func TestObserverMayCallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *Breaker
		var heard []State
		b = New(consecutive(1), Observer{Transition: func(_, to State, _ Reason, _ time.Time) {
			if to == Open {
				isState(t, b, Open)
				time.Sleep(reset)
				report(t, b, Success)
				isState(t, b, Closed)
			}
			heard = append(heard, to)
		}})
		report(t, b, Failure)
		require.Equal(t, []State{Open, HalfOpen, Closed}, heard)
	})
}

func TestTransitionsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var heard []string
		b := New(consecutive(1), Observer{Transition: func(from, to State, reason Reason, since time.Time) {
			heard = append(heard, fmt.Sprintf("%s>%s %s %s", from, to, reason, since.Sub(start)))
		}})
		time.Sleep(time.Second)
		report(t, b, Failure)
		time.Sleep(reset)
		report(t, b, Failure)
		time.Sleep(reset)
		report(t, b, Success)
		require.Equal(t, []string{
			"closed>open failures 1s",
			"open>half_open failures 1s",
			"half_open>open failures 1s",
			"open>half_open failures 1s",
			"half_open>closed failures 1s",
		}, heard)
	})
}

func TestSustainedIsToldOncePerOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var heard []string
		b := New(consecutive(1), Observer{Sustained: func(reason Reason, since time.Time) {
			heard = append(heard, fmt.Sprintf("%s %s at %s", reason, since.Sub(start), time.Since(start)))
		}})
		outage := func() {
			report(t, b, Failure)
			for range 5 {
				time.Sleep(reset)
				report(t, b, Failure)
			}
			time.Sleep(reset)
			report(t, b, Success)
		}
		outage()
		require.Equal(t, []string{"failures 0s at 30s"}, heard, "at 20 s it is not more than two intervals")
		outage()
		require.Equal(t, []string{"failures 0s at 30s", "failures 1m0s at 1m30s"}, heard)
	})
}

// Many goroutines change one breaker; the observer must see an unbroken chain,
// one call at a time.
func TestConcurrentTransitionsStayInOrder(t *testing.T) {
	s := consecutive(1)
	s.ResetTimeout = 0 // every refusal is over at once
	s.HalfOpenProbes = 4
	var calls []([2]State) // unguarded: the race detector checks that calls do not overlap
	b := New(s, Observer{Transition: func(from, to State, _ Reason, _ time.Time) {
		calls = append(calls, [2]State{from, to})
	}})
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 500 {
				p, err := b.Acquire(&Caller{}, false)
				if err != nil {
					continue
				}
				p.Done(Result((worker + i) % 2))
				p.Done(Failure)
			}
		})
	}
	wg.Wait()
	last := Closed
	for _, c := range calls {
		require.Equal(t, last, c[0])
		last = c[1]
	}
	require.Greater(t, len(calls), 100)
	require.Equal(t, last, b.Snapshot().State)
	require.Zero(t, b.inFlight)
}
