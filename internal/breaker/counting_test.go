package breaker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// attempts reports results of one request.
func attempts(t *testing.T, b *Breaker, c *Caller, results ...Result) {
	t.Helper()
	for _, r := range results {
		p, err := b.Acquire(c, false)
		require.NoError(t, err)
		p.Done(r)
	}
}

func TestOneRequestDoesNotOpenAlone(t *testing.T) {
	b := New(consecutive(5), Observer{})
	attempts(t, b, &Caller{}, times(20, Failure)...)
	isState(t, b, Closed)
	require.Equal(t, 4, b.Snapshot().Failures)
	attempts(t, b, &Caller{}, Failure)
	isState(t, b, Open)
}

func TestThresholdOneOpensAtOnce(t *testing.T) {
	b := New(consecutive(1), Observer{})
	attempts(t, b, &Caller{}, Failure)
	isState(t, b, Open)
}

func TestThresholdTwoTakesTwoRequests(t *testing.T) {
	b := New(consecutive(2), Observer{})
	attempts(t, b, &Caller{}, Failure, Failure, Failure)
	isState(t, b, Closed)
	attempts(t, b, &Caller{}, Failure)
	isState(t, b, Open)
}

func TestARequestsShareEndsWithTheSeries(t *testing.T) {
	b := New(consecutive(3), Observer{})
	stubborn := &Caller{}
	attempts(t, b, stubborn, Failure, Failure, Failure)
	require.Equal(t, 2, b.Snapshot().Failures)
	report(t, b, Success)
	attempts(t, b, stubborn, Failure, Failure, Failure)
	require.Equal(t, 2, b.Snapshot().Failures, "a new series, a new share")

	other := New(consecutive(3), Observer{})
	report(t, other, Success) // as many series as the first breaker has seen
	attempts(t, other, stubborn, Failure)
	require.Equal(t, 1, other.Snapshot().Failures, "another breaker, another share")
}

func TestWithoutACallerEveryFailureCounts(t *testing.T) {
	b := New(consecutive(3), Observer{})
	attempts(t, b, nil, Failure, Failure, Failure)
	isState(t, b, Open)
}

func TestAProbesFailureAlwaysCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(consecutive(3), Observer{})
		stubborn := &Caller{}
		attempts(t, b, stubborn, Failure, Failure)
		report(t, b, Failure)
		isState(t, b, Open)
		for range 5 {
			time.Sleep(reset)
			attempts(t, b, stubborn, Failure)
			isState(t, b, Open)
		}
	})
}

func byRatio() Settings {
	s := consecutive(5)
	s.FailureRatio, s.MinRequests, s.Window = 0.5, 20, 16*time.Second
	return s
}

func TestRatioReplacesCounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(byRatio(), Observer{})
		report(t, b, times(6, Failure)...) // in a row: threshold 5 must not matter
		report(t, b, times(994, Success)...)
		isState(t, b, Closed)
		require.Equal(t, 6, b.Snapshot().Failures)

		time.Sleep(16 * time.Second)
		require.Zero(t, b.Snapshot().Failures)
		report(t, b, times(19, Failure)...)
		isState(t, b, Closed)
		report(t, b, Failure)
		isState(t, b, Open)
		require.Equal(t, ReasonFailures, b.Snapshot().Reason)

		time.Sleep(reset)
		report(t, b, Success)
		report(t, b, times(19, Failure)...)
		isState(t, b, Closed) // the recovery emptied the window
	})
}

func TestRatioIsOfHealth(t *testing.T) {
	b := New(byRatio(), Observer{})
	report(t, b, times(10, Permanent)...)
	report(t, b, times(50, Neutral)...)
	report(t, b, times(50, Refused)...)
	report(t, b, times(9, Failure)...)
	isState(t, b, Closed)
	report(t, b, Failure) // 10 of 20: permanent answers are good ones, neutral ones none
	isState(t, b, Open)
}

func TestASuccessNeverOpens(t *testing.T) {
	b := New(byRatio(), Observer{})
	report(t, b, times(19, Failure)...)
	report(t, b, Success)
	isState(t, b, Closed)
	report(t, b, Failure)
	isState(t, b, Open)
}

func TestWindowSlides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(byRatio(), Observer{})
		for range 200 { // 15 or 16 in the window at any time, all of them failures
			report(t, b, Failure)
			time.Sleep(time.Second)
		}
		isState(t, b, Closed)
		require.Equal(t, 15, b.Snapshot().Failures)
	})
}

func TestOneRequestDoesNotOpenByRatioAlone(t *testing.T) {
	s := byRatio()
	s.MinRequests = 3
	b := New(s, Observer{})
	attempts(t, b, &Caller{}, times(10, Failure)...)
	isState(t, b, Closed)
	attempts(t, b, &Caller{}, Failure)
	isState(t, b, Open)
}

func TestNewWindowStartsEmpty(t *testing.T) {
	b := New(byRatio(), Observer{})
	report(t, b, times(10, Failure)...)
	s := byRatio()
	s.MinRequests = 30
	b.Update(s)
	require.Equal(t, 10, b.Snapshot().Failures)
	s.Window = time.Hour
	b.Update(s)
	require.Zero(t, b.Snapshot().Failures)
}

func TestFatalRatio(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := consecutive(5)
		s.FatalRatio, s.MinRequests, s.Window = 0.9, 10, 16*time.Second
		b := New(s, Observer{})
		report(t, b, Success, Failure)
		report(t, b, times(17, Permanent)...)
		isState(t, b, Closed)
		report(t, b, Permanent) // 18 of 20
		isState(t, b, Open)
		require.Equal(t, ReasonFatal, refused(t, b, false).Reason)

		time.Sleep(reset)
		report(t, b, Permanent) // the service is well, and the count starts anew
		isState(t, b, Closed)
		report(t, b, times(9, Permanent)...)
		isState(t, b, Closed)
		report(t, b, Permanent)
		isState(t, b, Open)
	})
}

func TestAuthThreshold(t *testing.T) {
	s := consecutive(5)
	s.AuthThreshold = 3
	for name, c := range map[string]struct {
		results []Result
		state   State
	}{
		"in a row":              {times(3, Refused), Open},
		"neutral between":       {[]Result{Refused, Neutral, Refused, Neutral, Refused}, Open},
		"failures between":      {[]Result{Refused, Failure, Refused, Failure, Refused}, Open},
		"a success resets":      {[]Result{Refused, Refused, Success, Refused, Refused}, Closed},
		"a permanent one too":   {[]Result{Refused, Refused, Permanent, Refused, Refused}, Closed},
		"one fewer":             {times(2, Refused), Closed},
		"failures are the same": {times(5, Failure), Open},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(s, Observer{})
			report(t, b, c.results...)
			isState(t, b, c.state)
		})
	}
}

func TestRecoveryFromRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := consecutive(5)
		s.AuthThreshold = 3
		b := New(s, Observer{})
		report(t, b, times(3, Refused)...)
		require.Equal(t, ReasonAuth, b.Snapshot().Reason)
		time.Sleep(reset)
		report(t, b, Refused) // one is enough for a probe
		require.Equal(t, OpenError{State: Open, Reason: ReasonAuth, Wait: reset}, refused(t, b, false))
		time.Sleep(reset)
		report(t, b, Failure)
		require.Equal(t, ReasonFailures, b.Snapshot().Reason)
		time.Sleep(reset)
		report(t, b, Refused, Refused) // open for failures: these say nothing
		isState(t, b, HalfOpen)
		report(t, b, Refused) // until they are too many
		require.Equal(t, ReasonAuth, b.Snapshot().Reason)
		time.Sleep(reset)
		report(t, b, Permanent) // the credential was accepted
		isState(t, b, Closed)
		report(t, b, Refused, Refused)
		isState(t, b, Closed)
	})
}
