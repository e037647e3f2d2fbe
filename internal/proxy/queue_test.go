package proxy

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
)

// learning is a setup whose queues learn from throttles.
func learning(kind string) setup {
	s := defaults(kind)
	s.queue.Adaptive = true
	return s
}

// every makes a script of n times the same.
func every(n int, s step) []step { return slices.Repeat([]step{s}, n) }

// crowd makes that many calls at once and gives their answers.
func (l *lab) crowd(n int, c call) []reply {
	l.t.Helper()
	var all []<-chan reply
	for range n {
		all = append(all, l.later(l.t.Context(), c))
	}
	answers := make([]reply, 0, n)
	for _, a := range all {
		answers = append(answers, <-a)
	}
	return answers
}

func TestAThrottledCallGoesToTheHeadOfTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := learning("generic")
		s.queue.MaxInFlight = 1
		l := newLab(t, s, append(every(1, step{status: 429, after: time.Second}), every(5, step{body: "text"})...)...)
		start := time.Now()
		first := l.later(t.Context(), call{body: "throttled", header: "Ocr-Proxy-Document-Id: d"})
		synctest.Wait()
		for range 4 {
			l.later(t.Context(), call{body: "later"})
		}
		r := <-first
		require.Equal(t, "2", r.own("Attempts"), "a throttled try counts")
		require.Equal(t, 1500*time.Millisecond, r.took.Round(time.Millisecond), "one slot of the rate that learning starts from, and no backoff")
		seen := l.upstream.attempts()
		require.Equal(t, "throttled", seen[1].body, "before those who have waited longer")
		require.Equal(t, 1500*time.Millisecond, seen[1].at.Sub(start).Round(time.Millisecond))
		time.Sleep(10 * time.Second)
		require.Len(t, l.upstream.attempts(), 6)
		require.Zero(t, l.figure("retry_delay_seconds", "source", fromBackoff))
		require.Equal(t, 5, l.figure("retry_delay_seconds", "source", fromQueue))
		l.quiet()
	})
}

func TestASecondThrottleInARowAlsoWaitsByItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, learning("generic"), step{status: 429}, step{status: 429}, step{status: 503}, step{status: 429}, step{body: "text"})
		s := l.account.Policy
		l.account.Policy = func(op string) Policy { p := s(op); p.MaxAttempts = 5; return p }
		start := time.Now()
		r := l.send(t.Context(), call{body: "document"})
		require.Equal(t, "success", r.own("Outcome"))
		var at []time.Duration
		for _, a := range l.upstream.attempts() {
			at = append(at, a.at.Sub(start))
		}
		require.Less(t, at[1]-at[0], time.Second, "the first one goes at once")
		require.Equal(t, 2*time.Second, at[2]-at[1], "the second one waits: the backoff of a second retry is at most two seconds")
		require.Equal(t, 4*time.Second, at[3]-at[2], "a failure waits as ever")
		require.Less(t, at[4]-at[3], 4*time.Second, "after a failure a throttle is the first again: a backoff would be of eight seconds")
	})
}

// One document that is throttled whatever the rate must not take the account's rate away from all others.
func TestOneDocumentThatIsAlwaysThrottledTeachesLittle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, learning("generic"), every(6, step{status: 429})...)
		s := l.account.Policy
		l.account.Policy = func(op string) Policy { p := s(op); p.MaxAttempts = 6; return p }
		r := l.send(t.Context(), call{body: "poison"})
		require.Equal(t, []string{"exhausted", "6"}, []string{r.own("Outcome"), r.own("Attempts")})
		require.InDelta(t, 1, l.account.Queues.For("other").Snapshot().Rate, 1e-9, "two a second to start from, and one cut")
	})
}

func TestAHintStopsTheQueueAndItsOwnRequestWaitsThere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, learning("generic"), append(every(1, step{status: 429, header: "Retry-After: 10"}), every(4, step{body: "text"})...)...)
		start := time.Now()
		first := l.later(t.Context(), call{body: "first"})
		synctest.Wait()
		time.Sleep(2 * time.Second)
		crowd := l.crowd(3, call{body: "late"})
		require.Equal(t, 10*time.Second, (<-first).took.Round(time.Millisecond), "without a wait of its own")
		for _, r := range crowd {
			require.Equal(t, "success", r.own("Outcome"))
		}
		seen := l.upstream.attempts()
		require.Equal(t, "first", seen[1].body)
		for i := range seen[1:] {
			after := seen[i+1].at.Sub(start)
			require.GreaterOrEqual(t, after, 10*time.Second, "nobody goes before the hint is over")
			if i > 0 {
				require.Greater(t, after, seen[i].at.Sub(start), "one by one")
			}
		}
		require.Equal(t, 1, l.figure("retry_delay_seconds", "source", fromHint), "its own")
		require.Equal(t, 3, l.figure("retry_delay_seconds", "source", fromGate), "another's")
	})
}

func TestHeadersOfAThrottleSeedTheRate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, learning("generic"), append(every(1, step{status: 429, header: `RateLimit-Policy: "min";q=600;w=60`}), every(101, step{body: "text"})...)...)
		for range 101 {
			l.later(t.Context(), call{})
			synctest.Wait()
		}
		time.Sleep(9 * time.Second)
		rate := l.account.Queues.For("other").Snapshot().Rate
		require.InDelta(t, 10, rate, 1.5, "600 a minute; without being told it would double every second, up to the next throttle")
		time.Sleep(time.Minute)
		l.quiet()
	})
}

// An outage of a minute, with a hundred requests in progress: they are held, and nobody is dead-lettered.
func TestAnOutageIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := learning("generic")
		s.hold, s.policy.MaxAttempts = true, 6
		s.policy.Base = 100 * time.Millisecond // so that who has probed could be the next probe again
		var down atomic.Bool
		l := newLab(t, s, every(600, step{handle: func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(200 * time.Millisecond)
			if down.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}})...)
		// A steady stream of 20 a second for three seconds, by which the queue knows what the provider takes.
		for range 60 {
			l.later(t.Context(), call{body: "before"})
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second)
		down.Store(true)
		began, before := time.Now(), len(l.upstream.attempts())
		time.AfterFunc(30*time.Second, func() { down.Store(false) })
		for _, r := range l.crowd(100, call{body: "held"}) {
			require.Equal(t, "success", r.own("Outcome"))
			require.Contains(t, []string{"1", "2", "3"}, r.own("Attempts"), "no document is the probe again and again")
		}
		require.Zero(t, l.sink.count(), "nobody is dead-lettered")
		var probes []time.Duration
		after := map[int]int{}
		for _, a := range l.upstream.attempts()[before:] {
			switch at := a.at.Sub(began); {
			case at < time.Second: // the failures that open the circuit
			case at < 31*time.Second:
				probes = append(probes, at)
			default:
				after[int(at/time.Second)]++
			}
		}
		require.InDelta(t, 14, len(probes), 1, "one every two seconds and the time of an answer: %v", probes)
		for i := range probes[1:] {
			require.GreaterOrEqual(t, probes[i+1]-probes[i], 2*time.Second, "one at a time")
		}
		require.LessOrEqual(t, after[31], 20, "the queue goes on at half of 20 a second, and doubles it: %v", after)
		require.Greater(t, after[32], after[31])
		require.Equal(t, breaker.Closed, l.circuit().State)
		require.Zero(t, l.ended("retry_budget"), "who is held is no retry that loads the provider")
		require.Zero(t, l.figure("retry_delay_seconds", "source", fromQueue), "what kept them was the circuit")
		l.quiet()
	})
}

// Answers to what was sent before an outage can keep the circuit closed for a while, in which more calls fail than may be retried at one time.
func TestACrowdOfRetriesWaitsForPlacesWhereAnOutageIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := learning("generic")
		s.hold, s.policy.PurseRatio, s.policy.PurseFloor = true, 0.01, 2
		s.breaker.FailureThreshold = 1000
		var running, crowded atomic.Int64
		l := newLab(t, s, append(every(30, step{status: 503}), every(30, step{handle: func(http.ResponseWriter, *http.Request) {
			if running.Add(1) > 2 {
				crowded.Add(1)
			}
			time.Sleep(100 * time.Millisecond)
			running.Add(-1)
		}})...)...)
		for _, r := range l.crowd(30, call{body: "document"}) {
			require.Equal(t, []string{"success", "2"}, []string{r.own("Outcome"), r.own("Attempts")})
		}
		require.Zero(t, crowded.Load(), "more than two retries at one time")
		require.Zero(t, l.sink.count())
		l.quiet()
	})
}

func TestWhereAnOutageIsNotWaitedForACrowdOfRetriesIsCut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := learning("generic")
		s.policy.PurseRatio, s.policy.PurseFloor = 0.01, 2
		s.breaker.FailureThreshold = 1000
		l := newLab(t, s, append(every(30, step{status: 503}), every(30, step{body: "text"})...)...)
		l.crowd(30, call{body: "document"})
		require.Equal(t, 28, l.ended("retry_budget"))
		require.Equal(t, 28, l.sink.count())
		l.quiet()
	})
}

func TestACircuitThatRejectsEmptiesTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := fragile()
		s.queue.MaxInFlight, s.policy.MaxAttempts = 1, 1
		l := newLab(t, s, step{status: 500, after: 3 * time.Second})
		all := l.crowd(10, call{body: "document"})
		refused := 0
		for _, r := range all {
			require.Equal(t, 3*time.Second, r.took, "as soon as the circuit is open")
			if r.status == http.StatusServiceUnavailable {
				refused++
				require.Equal(t, "circuit_open", r.own("Outcome"))
				require.Equal(t, "60", r.header.Get("Retry-After"))
			}
		}
		require.Equal(t, 9, refused)
		require.Equal(t, 10, l.sink.count())
		l.quiet()
	})
}

func TestWhoCannotHaveItsTurnInTimeIsToldAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.queue.Rate = 1
		l := newLab(t, s, every(30, step{body: "text"})...)
		for range 20 {
			l.later(t.Context(), call{body: "before"})
		}
		synctest.Wait()
		r := l.send(t.Context(), call{body: "late", header: "Ocr-Proxy-Timeout: 10s"})
		require.Zero(t, r.took)
		require.Equal(t, http.StatusServiceUnavailable, r.status)
		require.Equal(t, []string{"exhausted", "queue_too_long", "0"}, []string{r.own("Outcome"), r.own("Reason"), r.own("Attempts")})
		require.Equal(t, "20", r.header.Get("Retry-After"), "when its turn would have come")
		require.Contains(t, r.body, "nothing was sent")
		require.Equal(t, 1, l.sink.count())
		require.Contains(t, l.sink.letters[0].Diagnostic, "turn")
		require.Equal(t, 20*time.Second, time.Until(*l.sink.letters[0].RetryNotBefore).Round(time.Second))
		require.Equal(t, 20, l.figure("queue_depth")+1, "the others wait on")
		time.Sleep(30 * time.Second)
		l.quiet()
	})
}

func TestAFullQueueTakesNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.queue.Rate, s.queue.MaxWaiting = 0.5, 5
		l := newLab(t, s, every(6, step{body: "text"})...)
		for range 6 {
			l.later(t.Context(), call{body: "before"})
		}
		synctest.Wait()
		req := call{header: "Expect: 100-continue"}.request(t.Context(), t, "http://proxy")
		body := &watched{Reader: strings.NewReader("a large document")}
		req.Body, req.ContentLength = body, 16
		l.worker.ExpectContinueTimeout = time.Hour
		resp, err := l.worker.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.Equal(t, "rejected", resp.Header.Get("Ocr-Proxy-Outcome"))
		require.Equal(t, "queue_full", resp.Header.Get("Ocr-Proxy-Reason"))
		require.Equal(t, "12", resp.Header.Get("Retry-After"), "six more at half a call per second")
		require.False(t, body.read, "its body was not asked for")
		time.Sleep(20 * time.Second)
		require.Zero(t, l.sink.count(), "it was never taken, so that there is nothing to bury")
		require.Equal(t, 1, l.requests(Rejected))
		require.Equal(t, 6, l.requests(Success))
	})
}

// The queue may fill while a body arrives: whoever finds it full then is told the same.
func TestAQueueThatFillsDuringTheUpload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.queue.Rate, s.queue.MaxWaiting = 0.5, 1
		l := newLab(t, s, every(2, step{body: "text"})...)
		upload, feed := io.Pipe()
		slow := make(chan reply, 1)
		req := call{}.request(t.Context(), t, "http://proxy")
		req.Body, req.ContentLength = upload, 8
		go func() {
			resp, err := l.worker.RoundTrip(req)
			if err != nil {
				slow <- reply{err: err}
				return
			}
			_ = resp.Body.Close()
			slow <- reply{status: resp.StatusCode, header: resp.Header}
		}()
		time.AfterFunc(time.Second, func() {
			_, _ = feed.Write([]byte("document"))
			_ = feed.Close()
		})
		synctest.Wait()
		for range 2 {
			l.later(t.Context(), call{body: "faster"})
		}
		r := <-slow
		require.Equal(t, http.StatusServiceUnavailable, r.status)
		require.Equal(t, []string{"rejected", "queue_full"}, []string{r.own("Outcome"), r.own("Reason")})
		require.NotEmpty(t, r.header.Get("Retry-After"))
		require.Empty(t, r.own("Dead-Letter-Id"))
		time.Sleep(5 * time.Second)
		require.Zero(t, l.sink.count())
		l.quiet()
	})
}

func TestPriorityDecidesAmongThoseWhoWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.queue.Rate = 1
		l := newLab(t, s, every(42, step{body: "text"})...)
		for range 40 {
			l.later(t.Context(), call{body: "bulk", header: "Ocr-Proxy-Priority: low|Ocr-Proxy-Tenant: backfill"})
		}
		synctest.Wait()
		require.Equal(t, 39, l.figure("queue_depth", "priority", "low"))
		urgent := l.later(t.Context(), call{body: "urgent", header: "Ocr-Proxy-Priority: high|Ocr-Proxy-Tenant: live"})
		require.LessOrEqual(t, (<-urgent).took, 2*time.Second, "a backfill does not hold up one document that somebody waits for")
		time.Sleep(time.Minute)
	})
}

func TestPagesCountWhereTheQuotaCountsThem(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("documentai")
		s.queue.Rate = 1
		l := newLab(t, s, every(5, step{body: "{}"})...)
		process := func(pages string) call {
			return call{target: "/v1/projects/p/locations/us/processors/x:process", header: asJSON, body: `{"rawDocument":{"content":"QQ=="},"processOptions":{"fromStart":` + pages + `}}`}
		}
		require.Zero(t, l.send(t.Context(), process("10")).took)
		require.Equal(t, 10*time.Second, l.send(t.Context(), process("2")).took.Round(time.Millisecond), "the pages of the one before")
		require.Equal(t, 2*time.Second, l.send(t.Context(), process("1")).took.Round(time.Millisecond))
		require.Equal(t, time.Second, l.send(t.Context(), process("1000")).took.Round(time.Millisecond))
		require.Equal(t, 30*time.Second, l.send(t.Context(), process("1")).took.Round(time.Millisecond), "no call has more pages than that, whatever it asks for")
	})
}

func TestWhoWaitsIsToldAtTheEndOfTheDrain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ending, end := context.WithCancelCause(t.Context())
		s := defaults("generic")
		s.queue.Rate = 0.1
		s.account = func(a *Account) { a.Ending = ending }
		l := newLab(t, s, step{body: "text"})
		require.Equal(t, "text", l.send(t.Context(), call{}).body)
		waiting := l.later(t.Context(), call{body: "waiting"})
		time.Sleep(time.Second)
		end(ErrShutdown)
		r := <-waiting
		require.Equal(t, http.StatusServiceUnavailable, r.status)
		require.Equal(t, []string{"exhausted", "shutdown"}, []string{r.own("Outcome"), r.own("Reason")})
		require.Equal(t, 1, l.sink.count())
		require.Zero(t, l.figure("queue_depth"), "its place is given back")
	})
}

func TestAWorkerThatHangsUpLeavesTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.queue.Rate = 0.1
		l := newLab(t, s, every(2, step{body: "text"})...)
		l.send(t.Context(), call{})
		require.Error(t, l.send(leaveAfter(t, time.Second), call{body: "gone"}).err)
		synctest.Wait()
		require.Zero(t, l.figure("queue_depth"))
		require.Equal(t, 9*time.Second, l.send(t.Context(), call{}).took.Round(time.Millisecond), "nobody waits for the turn that is not wanted any more")
	})
}

// A retry that the queue holds does not load the provider, so that it takes nobody's place among those that may retry.
func TestAHeldRetryIsNoneOfTheRetryBudget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.policy.PurseFloor, s.policy.PurseRatio = 1, 0.01
		l := newLab(t, s, step{status: 503}, step{status: 503}, step{body: "1"}, step{body: "2"})
		first := l.later(t.Context(), call{body: "first"})
		synctest.Wait()
		l.account.Queues.For("other").Pause(time.Now().Add(10 * time.Second))
		time.Sleep(5 * time.Second) // its own wait is over, the queue holds it
		require.Equal(t, 1, l.figure("queue_depth"))
		give, ok := l.account.Purse.Take(s.policy.PurseRatio, s.policy.PurseFloor)
		require.True(t, ok, "the place of the retry that is held is free")
		give()
		require.Equal(t, "success", (<-first).own("Outcome"))
	})
}
