package proxy

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAThrottleHoldsTheOthersToo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 429, header: "Retry-After: 10"}, step{body: "1"}, step{body: "2"}, step{body: "3"}, step{body: "4"})
		start := time.Now()
		throttled := l.later(t.Context(), call{body: "first"})
		synctest.Wait()
		require.Equal(t, 1, l.figure("throttles_total"))
		time.Sleep(4 * time.Second)
		require.Equal(t, 6, l.figure("throttle_pause_seconds"))
		// Three more come during the pause. The first goes right at its end, the others at even distances over a second; the throttled one
		// adds its own jitter to the hint.
		var crowd []<-chan reply
		for range 3 {
			crowd = append(crowd, l.later(t.Context(), call{body: "late"}))
		}
		first := <-throttled
		require.Equal(t, 11*time.Second, first.took)
		var took []time.Duration
		for _, c := range crowd {
			r := <-c
			require.Equal(t, "success", r.own("Outcome"))
			require.Equal(t, "1", r.own("Attempts"))
			took = append(took, r.took.Round(time.Millisecond))
		}
		require.ElementsMatch(t, []time.Duration{6 * time.Second, 6333 * time.Millisecond, 6667 * time.Millisecond}, took)
		for _, a := range l.upstream.attempts()[1:] {
			require.GreaterOrEqual(t, a.at.Sub(start), 10*time.Second, "nobody goes before the hint is over")
		}
		require.Equal(t, 3, l.figure("retry_delay_seconds", "source", fromGate))
		require.Equal(t, 1, l.figure("retry_delay_seconds", "source", fromHint))
		l.quiet()
	})
}

func TestALoneRequestLosesNothingAfterAPause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.policy.MaxAttempts = 1
		l := newLab(t, s, step{status: 429, header: "Retry-After: 10"}, step{body: "text"}, step{body: "text"})
		require.Equal(t, 429, l.send(t.Context(), call{}).status)
		time.Sleep(7 * time.Second)
		r := l.send(t.Context(), call{})
		require.Equal(t, "text", r.body)
		require.Equal(t, 3*time.Second, r.took, "right at the end of the pause")
		require.Zero(t, l.send(t.Context(), call{}).took, "and after it nobody waits")
	})
}

func TestAPauseThatDoesNotFitSendsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 429, header: "Retry-After: 3600"})
		l.send(t.Context(), call{body: "first"})
		time.Sleep(500 * time.Millisecond)
		r := l.send(t.Context(), call{body: "second"})
		require.Equal(t, http.StatusServiceUnavailable, r.status)
		require.Zero(t, r.took)
		require.Equal(t, "exhausted", r.own("Outcome"))
		require.Equal(t, "hint_too_long", r.own("Reason"))
		require.Equal(t, "0", r.own("Attempts"))
		require.Equal(t, "90", r.header.Get("Retry-After"), "one hint pauses for the budget at most")
		require.Equal(t, 2, l.sink.count())
		require.Equal(t, "second", l.sink.bodies[1])
		require.Equal(t, "transient", l.sink.letters[1].ErrorClass)
		require.NotNil(t, l.sink.letters[1].RetryNotBefore)
		require.Len(t, l.upstream.attempts(), 1)
	})
}

func TestAThrottledOperationLeavesTheOthersAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("azure"), step{status: 429, header: "Retry-After: 30"}, step{body: `{"status":"running"}`}, step{status: 202})
		submit := call{target: "/documentintelligence/documentModels/m:analyze", body: "document"}
		throttled := l.later(t.Context(), submit)
		synctest.Wait()
		poll := l.send(t.Context(), call{method: http.MethodGet, target: "/documentintelligence/documentModels/m/analyzeResults/1"})
		require.Equal(t, http.StatusOK, poll.status)
		require.Zero(t, poll.took, "polls are not submits")
		require.Equal(t, 31*time.Second, (<-throttled).took)
		require.Equal(t, 1, l.figure("throttles_total", "operation", "analyze"))
		require.Zero(t, l.figure("throttles_total", "operation", "getAnalyzeResult"))
	})
}

func TestThrottlesThatTripDoNotPause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.policy.MaxAttempts = 1
		s.account = func(a *Account) { a.TripOnThrottle = true }
		l := newLab(t, s, step{status: 429, header: "Retry-After: 10"}, step{body: "text"})
		l.send(t.Context(), call{})
		require.Zero(t, l.send(t.Context(), call{}).took)
	})
}

func TestRetriesTakeTurnsAtThePurse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.policy.PurseFloor, s.policy.PurseRatio = 1, 0.01
		down := step{status: 503}
		l := newLab(t, s, down, down, step{body: "text"}, down, step{body: "text"})
		holder := l.later(t.Context(), call{body: "first"})
		synctest.Wait()
		crowded := l.send(t.Context(), call{body: "second"})
		require.Equal(t, "retry_budget", crowded.own("Reason"))
		require.Equal(t, 1, l.sink.count())
		require.Equal(t, "success", (<-holder).own("Outcome"))
		require.Equal(t, "success", l.send(t.Context(), call{body: "third"}).own("Outcome"), "what was taken is given back")
	})
}

// oncePanicking is a transport that panics in its first call.
type oncePanicking struct {
	http.RoundTripper
	once sync.Once
}

func (p *oncePanicking) RoundTrip(r *http.Request) (*http.Response, error) {
	p.once.Do(func() { panic(http.ErrAbortHandler) })
	return p.RoundTripper.RoundTrip(r)
}

func TestAPanicGivesItsTurnBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.queue.MaxInFlight = 1
		s.account = func(a *Account) { a.Transport = &oncePanicking{RoundTripper: a.Transport} }
		l := newLab(t, s, step{body: "text"})
		require.Error(t, l.send(t.Context(), call{body: "first"}).err)
		r := l.send(t.Context(), call{body: "second"})
		require.Equal(t, "success", r.own("Outcome"))
		require.Zero(t, r.took)
		l.quiet()
	})
}
