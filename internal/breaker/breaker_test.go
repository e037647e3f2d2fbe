package breaker

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatCountsInARow(t *testing.T) {
	const S, F, N, P, R = Success, Failure, Neutral, Permanent, Refused
	for name, c := range map[string]struct {
		results []Result
		state   State
		left    int // failures counted at the end
	}{
		"failures open":                       {[]Result{F, F, F}, Open, 3},
		"one fewer does not":                  {[]Result{F, F}, Closed, 2},
		"a permanent answer resets":           {[]Result{F, P, F, P, F}, Closed, 1},
		"a success resets":                    {[]Result{F, F, S, F, F}, Closed, 2},
		"a refusal neither counts nor resets": {[]Result{F, R, F, R, F}, Open, 3},
		"a neutral neither counts nor resets": {[]Result{F, N, F, N, F}, Open, 3},
		"150 permanent answers":               {times(150, P), Closed, 0},
		"150 refusals":                        {times(150, R), Closed, 0},
		"50 hang-ups":                         {times(50, N), Closed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(consecutive(3), Observer{})
			report(t, b, c.results...)
			isState(t, b, c.state)
			require.Equal(t, c.left, b.Snapshot().Failures)
		})
	}
}

func TestThresholdZeroNeverOpens(t *testing.T) {
	b := New(consecutive(0), Observer{})
	report(t, b, times(100, Failure)...)
	isState(t, b, Closed)
}

func TestOpenRefusesUntilTheIntervalIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(consecutive(1), Observer{})
		require.Zero(t, b.Wait())
		report(t, b, Failure)
		require.Equal(t, OpenError{State: Open, Reason: ReasonFailures, Wait: reset}, refused(t, b, false))

		time.Sleep(reset - time.Nanosecond)
		require.Equal(t, time.Nanosecond, refused(t, b, false).Wait)
		require.Equal(t, time.Nanosecond, b.Wait())

		time.Sleep(time.Nanosecond)
		require.Zero(t, b.Wait())
		isState(t, b, Open) // asking changed nothing
		report(t, b, Success)
		isState(t, b, Closed)
	})
}

func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(consecutive(1), Observer{})
		report(t, b, Failure)
		time.Sleep(reset)
		probe := acquire(t, b)
		for range 49 {
			e := refused(t, b, false)
			require.Equal(t, HalfOpen, e.State)
			require.Positive(t, e.Wait)
			require.LessOrEqual(t, e.Wait, time.Second)
			require.Equal(t, e.Wait, b.Wait())
		}
		time.Sleep(4 * time.Second)
		probe.Done(Failure)
		isState(t, b, Open)
		require.Equal(t, reset, b.Wait(), "a full interval from the probe's failure")
		require.Equal(t, 14*time.Second, b.Snapshot().OpenFor, "the outage has lasted since the first opening")
	})
}

func TestSeveralProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := consecutive(1)
		s.HalfOpenProbes = 3
		b := New(s, Observer{})
		report(t, b, Failure)
		time.Sleep(reset)
		probes := []*Permit{acquire(t, b), acquire(t, b), acquire(t, b)}
		refused(t, b, false)
		require.Equal(t, 3, b.Snapshot().Probes)

		probes[0].Done(Neutral) // gives its place back
		require.Zero(t, b.Wait())
		probes[0] = acquire(t, b)
		refused(t, b, false)

		probes[1].Done(Success)
		isState(t, b, Closed)
		probes[0].Done(Failure) // too late: threshold 1 would open
		probes[2].Done(Failure)
		isState(t, b, Closed)
	})
}

func TestLateFailuresDoNotRestartTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(consecutive(1), Observer{})
		var late []*Permit
		for range 10 {
			late = append(late, acquire(t, b))
		}
		late[0].Done(Failure)
		for _, p := range late[1:6] {
			time.Sleep(time.Second)
			p.Done(Failure)
		}
		time.Sleep(5 * time.Second)
		probe := acquire(t, b)
		late[6].Done(Failure) // while half-open
		late[7].Done(Success)
		isState(t, b, HalfOpen)
		probe.Done(Success)
		late[8].Done(Failure) // after the recovery
		late[9].Done(Failure)
		isState(t, b, Closed)
		require.Zero(t, b.Snapshot().Failures)
	})
}

func TestRecoveryForgetsTheCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, good := range []Result{Success, Permanent} {
			b := New(consecutive(5), Observer{})
			report(t, b, times(5, Failure)...)
			isState(t, b, Open)
			time.Sleep(reset)
			report(t, b, good)
			require.Equal(t, Snapshot{}, b.Snapshot())
			report(t, b, times(4, Failure)...)
			isState(t, b, Closed)
			report(t, b, Failure)
			isState(t, b, Open)
		}
	})
}

func TestDoneCountsOnce(t *testing.T) {
	b := New(consecutive(2), Observer{})
	p := acquire(t, b)
	p.Done(Failure)
	p.Done(Failure)
	p.Done(Success)
	require.Equal(t, 1, b.Snapshot().Failures)
}

func TestNeutralProbeGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, r := range []Result{Neutral, Refused} {
			b := New(consecutive(1), Observer{})
			report(t, b, Failure)
			time.Sleep(reset)
			probe := acquire(t, b)
			changed := b.Changed()
			probe.Done(r)
			require.True(t, isClosed(changed), "those who hold look again")
			isState(t, b, HalfOpen)
			require.Zero(t, b.Snapshot().Probes)
			report(t, b, Success)
			isState(t, b, Closed)
		}
	})
}

func TestLostProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := consecutive(1)
		s.ProbeLease = 5 * time.Second
		b := New(s, Observer{})
		report(t, b, Failure)
		time.Sleep(reset)
		lost := acquire(t, b)
		time.Sleep(5*time.Second - time.Millisecond)
		require.Equal(t, time.Millisecond, refused(t, b, false).Wait, "the lease ends sooner than the usual look")
		time.Sleep(time.Millisecond)
		require.Zero(t, b.Wait())
		require.Zero(t, b.Snapshot().Probes)
		second := acquire(t, b)
		lost.Done(Success) // its place is another's now
		isState(t, b, HalfOpen)
		refused(t, b, false)

		time.Sleep(6 * time.Second)
		second.Done(Success) // late, but nobody took its place
		isState(t, b, Closed)
	})
}

func TestProbeWithoutLeaseIsNeverLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(consecutive(1), Observer{})
		report(t, b, Failure)
		time.Sleep(reset)
		acquire(t, b)
		time.Sleep(24 * time.Hour)
		refused(t, b, false)
	})
}

func TestWaitingRequestsProbeSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(consecutive(1), Observer{})
		report(t, b, Failure)
		for range 3 { // each failed probe starts a new interval for both kinds
			require.Equal(t, 2*time.Second, refused(t, b, true).Wait)
			require.Equal(t, reset, refused(t, b, false).Wait)
			time.Sleep(2 * time.Second)
			require.Equal(t, reset-2*time.Second, refused(t, b, false).Wait)
			p, err := b.Acquire(&Caller{}, true)
			require.NoError(t, err)
			refused(t, b, true)
			p.Done(Failure)
		}

		s := consecutive(1)
		s.ResetTimeout = time.Second
		b.Update(s)
		require.Equal(t, time.Second, refused(t, b, true).Wait, "never later than others")
		s.EagerProbe = 0
		b.Update(s)
		require.Equal(t, time.Second, refused(t, b, true).Wait, "0: no advantage")
	})
}

// The loop that a holding request makes, against a service that is down for a
// while: it must neither miss the recovery nor ask more often than allowed.
func TestHolding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(consecutive(1), Observer{})
		report(t, b, Failure)
		start := time.Now()
		hold := func() *Permit {
			for {
				changed := b.Changed()
				p, err := b.Acquire(&Caller{}, true)
				if err == nil {
					return p
				}
				select {
				case <-changed:
				case <-time.After(err.(*OpenError).Wait): //nolint:errorlint // no other error exists
				}
			}
		}
		var mu sync.Mutex
		var sent []time.Duration
		done := make(chan time.Duration)
		for range 20 {
			go func() {
				for {
					p := hold()
					mu.Lock()
					sent = append(sent, time.Since(start))
					mu.Unlock()
					time.Sleep(100 * time.Millisecond)
					if time.Since(start) > 5*time.Second {
						p.Done(Success)
						break
					}
					p.Done(Failure)
				}
				done <- time.Since(start)
			}()
		}
		require.Equal(t, 6300*time.Millisecond, <-done)
		for range 19 {
			require.Equal(t, 6400*time.Millisecond, <-done)
		}
		require.Equal(t, []time.Duration{2 * time.Second, 4100 * time.Millisecond, 6200 * time.Millisecond}, sent[:3], "one probe at a time")
	})
}

func TestChangedFiresOnEveryTransition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(consecutive(1), Observer{})
		fires := func(what string, change func()) {
			t.Helper()
			changed := b.Changed()
			require.False(t, isClosed(changed))
			change()
			require.True(t, isClosed(changed), what)
		}
		var p *Permit
		fires("opening", func() { report(t, b, Failure) })
		time.Sleep(reset)
		fires("half-opening", func() { p = acquire(t, b) })
		fires("opening again", func() { p.Done(Failure) })
		time.Sleep(reset)
		p = acquire(t, b)
		fires("closing", func() { p.Done(Success) })
		changed := b.Changed()
		report(t, b, Success)
		require.False(t, isClosed(changed), "a result is no change")
	})
}

func TestUpdateKeepsTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(consecutive(3), Observer{})
		report(t, b, Failure, Failure)
		b.Update(consecutive(4))
		report(t, b, Failure)
		isState(t, b, Closed)
		report(t, b, Failure)
		isState(t, b, Open)

		changed := b.Changed()
		s := consecutive(4)
		s.ResetTimeout = time.Second
		b.Update(s)
		isState(t, b, Open)
		require.True(t, isClosed(changed), "those who hold may go sooner now")
		time.Sleep(time.Second)
		acquire(t, b)
	})
}

func TestFewerPlacesWhileProbesAreOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := consecutive(1)
		s.HalfOpenProbes, s.ProbeLease = 2, 5*time.Second
		b := New(s, Observer{})
		report(t, b, Failure)
		time.Sleep(reset)
		acquire(t, b) // lost
		time.Sleep(4 * time.Second)
		acquire(t, b)
		time.Sleep(2 * time.Second)
		s.HalfOpenProbes = 1
		b.Update(s)
		require.Positive(t, refused(t, b, false).Wait)
	})
}

func TestOpenErrorText(t *testing.T) {
	e := &OpenError{State: HalfOpen, Reason: ReasonAuth, Wait: 1500 * time.Millisecond}
	require.EqualError(t, e, "circuit breaker is half_open (auth), try again in 1.5s")
}

func TestAnOutageLastsFromTwoResetTimeoutsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Settings{FailureThreshold: 1, ResetTimeout: time.Minute, HalfOpenProbes: 1}, Observer{})
		require.False(t, b.Sustained())
		p, err := b.Acquire(nil, false)
		require.NoError(t, err)
		p.Done(Failure)
		time.Sleep(2 * time.Minute)
		require.False(t, b.Sustained())
		time.Sleep(time.Nanosecond)
		require.True(t, b.Sustained(), "whether somebody has tried it or not")
		p, err = b.Acquire(nil, false)
		require.NoError(t, err)
		require.True(t, b.Sustained())
		p.Done(Success)
		require.False(t, b.Sustained())
	})
}
