package pace

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever happens, everybody who waits is let go, told or leaves, and no limit is passed.
func TestRandomStorms(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) { storm(t, seed) })
	}
}

// storm has many requests meet a queue in which everything that can happen does, at random.
func storm(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	some := func(limit time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(limit))) }
	s := Settings{
		Adaptive: seed%2 == 0, StartRate: 5, Recovery: time.Second, MaxWaiting: 60, MaxPause: 3 * time.Second, Smear: time.Second,
		MaxInFlight: int(seed/2%3) * 7,
	}
	if seed%7 == 3 {
		s.Rate, s.Burst = 30, 3
	}
	jobLimit := int(seed/3%3) * 2
	permits := NewPermits(jobLimit, 20*time.Second, time.Second)
	var mu sync.Mutex
	state, opens := Closed, time.Time{}
	circuit := func() (CircuitState, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		return state, max(0, time.Until(opens))
	}
	qs := NewQueues("acct", []string{"a", "b"}, s, circuit, permits)
	set := func(to CircuitState, wait time.Duration) {
		mu.Lock()
		state, opens = to, time.Now().Add(wait)
		mu.Unlock()
		qs.CircuitChanged()
	}

	inFlight, starting := map[*Queue]int{}, 0
	fates := map[string]int{}
	note := func(change func()) {
		mu.Lock()
		defer mu.Unlock()
		change()
	}
	jobs := 0
	request := func(n int, r Request, q *Queue, patience, took time.Duration, result Result, leaves, starts bool) {
		var turn Turn
		if r.Deadline.IsZero() == (n%3 == 0) {
			r.Deadline = time.Time{}
		}
		if err := q.Enter(&turn, r); err != nil {
			var full *FullError
			var long *TooLongError
			if !errors.As(err, &full) && !errors.As(err, &long) {
				t.Errorf("unexpected %v", err)
			}
			turn.Leave()
			note(func() { fates["refused"]++ })
			return
		}
		if ready := turn.Ready(); ready != nil {
			select {
			case <-ready:
			case <-time.After(patience):
				turn.Leave()
				turn.Done(Accepted)
				note(func() { fates["left"]++ })
				return
			}
			if turn.Err() != nil {
				turn.Leave()
				note(func() { fates["told"]++ })
				return
			}
			if !r.Deadline.IsZero() && time.Now().After(r.Deadline) {
				t.Errorf("seed %d: a turn after its deadline", seed)
			}
		}
		note(func() {
			fates["gone"]++
			inFlight[q]++
			if state != Passing && s.MaxInFlight > 0 && inFlight[q] > s.MaxInFlight {
				t.Errorf("seed %d: %d in flight", seed, inFlight[q])
			}
			if turn.permit {
				starting++
				if open, limit := permits.Open(); jobLimit > 0 && starting+open > max(limit, 1) && limit == jobLimit {
					t.Errorf("seed %d: %d permits and %d open jobs of %d", seed, starting, open, limit)
				}
			}
		})
		time.Sleep(took)
		name := ""
		note(func() {
			inFlight[q]--
			if turn.permit {
				starting--
			}
			if turn.permit && starts {
				jobs++
				name = time.Now().String() + string(rune('a'+jobs%26))
			}
		})
		if name != "" {
			permits.Started(name)
			time.AfterFunc(took, func() { permits.Ended(name) })
		}
		if leaves {
			turn.Leave()
		} else {
			turn.Done(result)
		}
		turn.Leave()
		turn.Done(Throttled)
	}

	var wg sync.WaitGroup
	const total = 400
	for n := range total {
		switch rng.IntN(40) {
		case 0:
			set(Holding, some(2*time.Second))
		case 1, 2, 3:
			set(Closed, 0)
		case 4:
			set(Passing, 0)
		case 5:
			qs.For("a").Pause(time.Now().Add(some(4 * time.Second)))
		case 6:
			qs.For("b").Pause(time.Now().Add(some(time.Second)))
		case 7:
			if seed%2 == 1 {
				permits.Refused()
			}
		case 8:
			qs.For("b").Snapshot()
			qs.For("b").Full()
		}
		r := Request{
			Tenant: string(rune('A' + rng.IntN(4))), Priority: Priority(rng.IntN(3)), Cost: rng.IntN(3), Again: rng.IntN(6) == 0,
			Job: rng.IntN(3) == 0, Deadline: time.Now().Add(some(20 * time.Second)),
		}
		q := qs.For([]string{"a", "b"}[rng.IntN(2)])
		patience, took := some(40*time.Second), 1+some(time.Second)
		result, leaves, starts := Result(rng.IntN(3)), rng.IntN(10) == 0, rng.IntN(2) == 0
		wg.Go(func() { request(n, r, q, patience, took, result, leaves, starts) })
		time.Sleep(some(60 * time.Millisecond))
	}
	set(Closed, 0)
	wg.Wait()
	sum := 0
	for _, n := range fates {
		sum += n
	}
	require.Equal(t, total, sum, "%v", fates)
	require.Positive(t, fates["gone"])
	time.Sleep(time.Minute)
	for _, scope := range qs.Scopes() {
		q := qs.For(scope)
		got := q.Snapshot()
		require.Zero(t, got.InFlight)
		require.Equal(t, map[Priority]int{High: 0, Normal: 0, Low: 0}, got.Waiting)
		require.Empty(t, q.flows.flows)
		require.Empty(t, q.flows.jobs)
		require.Empty(t, q.flows.others)
		require.Zero(t, q.flows.cost)
		require.Zero(t, q.flows.weight)
		require.False(t, q.probing)
		require.True(t, q.armed.IsZero(), "no timer runs for nobody")
	}
	require.Zero(t, permits.starting)
	require.Empty(t, permits.open)
}
