package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
)

// leaveAfter is a context of a worker who hangs up that long from now.
func leaveAfter(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// leftAlone asserts that a worker who has hung up at that moment left no trace but a count, and that nothing went on without him.
func (l *lab) leftAlone(start time.Time, after time.Duration, attempts int) {
	l.t.Helper()
	synctest.Wait()
	require.Equal(l.t, after, time.Since(start), "nothing was waited for")
	require.Equal(l.t, 1, l.requests(ClientGone))
	require.Equal(l.t, 1, l.figure("requests_total"), "and no other outcome")
	require.Zero(l.t, l.sink.count(), "nothing is buried")
	require.Zero(l.t, l.circuit().Failures, "the breaker does not mind")
	time.Sleep(time.Hour)
	require.Len(l.t, l.upstream.attempts(), attempts)
	l.quiet()
}

func TestTheWorkerHangsUp(t *testing.T) {
	t.Parallel()
	partly := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "the beginning")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	for _, c := range []struct {
		name     string
		change   func(s *setup)
		step     step
		after    time.Duration
		attempts int
	}{
		{name: "during an attempt", step: step{hang: true}, after: 3 * time.Second, attempts: 1},
		{name: "while the answer streams", step: step{handle: partly}, after: 3 * time.Second, attempts: 1},
		{name: "during a wait", step: step{status: 429, header: "Retry-After: 20"}, after: 5 * time.Second, attempts: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, defaults("generic"), c.step)
				start := time.Now()
				require.Error(t, l.send(leaveAfter(t, c.after), call{body: "document"}).err)
				l.leftAlone(start, c.after, c.attempts)
			})
		})
	}
}

func TestTheWorkerHangsUpDuringItsUpload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"))
		start := time.Now()
		conn, err := l.network.DialContext(t.Context(), "tcp", listener)
		require.NoError(t, err)
		_, err = io.WriteString(conn, "POST /ocr HTTP/1.1\r\nHost: proxy\r\nContent-Length: 1000\r\n\r\nonly this")
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, conn.Close())
		l.leftAlone(start, 2*time.Second, 0)
	})
}

func TestTheWorkerHangsUpBeforeAHeldCircuit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.breaker.FailureThreshold, s.breaker.EagerProbe = 1, 20*time.Second
		s.hold = true
		l := newLab(t, s, step{status: 503})
		require.Error(t, l.send(leaveAfter(t, 5*time.Second), call{}).err)
		l.quiet()
		require.Len(t, l.upstream.attempts(), 1)
		require.Zero(t, l.sink.count())
		require.Equal(t, 1, l.requests(ClientGone))
	})
}

func TestManyHangUpsDoNotOpenTheCircuit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"))
		for range 20 {
			l.upstream.script(step{hang: true})
			require.Error(t, l.send(leaveAfter(t, time.Second), call{body: "document"}).err)
			synctest.Wait()
		}
		l.upstream.script(step{body: "text"})
		require.Equal(t, "text", l.send(t.Context(), call{}).body)
		require.Equal(t, breaker.Closed, l.circuit().State)
		require.Equal(t, 20, l.requests(ClientGone))
	})
}

// A probe whose worker leaves must give its place back, or the circuit would stay half open.
func TestAProbeWhoseWorkerHangsUpGivesItsPlaceBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.breaker.FailureThreshold = 1
		l := newLab(t, s, step{status: 503}, step{hang: true}, step{body: "text"})
		require.Equal(t, 503, l.send(t.Context(), call{}).status)
		time.Sleep(time.Minute)
		require.Error(t, l.send(leaveAfter(t, time.Second), call{}).err)
		synctest.Wait()
		require.Equal(t, breaker.HalfOpen, l.circuit().State)
		require.Equal(t, "text", l.send(t.Context(), call{}).body, "the next one probes")
		require.Equal(t, breaker.Closed, l.circuit().State)
	})
}

func TestShutdownWakesWhoeverSleeps(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ending, end := context.WithCancelCause(t.Context())
		s := defaults("generic")
		s.account = func(a *Account) { a.Ending = ending }
		l := newLab(t, s, step{status: 429, header: "Retry-After: 20", body: "slow down"}, step{body: "late, but in time", after: 8 * time.Second})
		asleep := l.later(t.Context(), call{target: "/ocr", body: "document"})
		synctest.Wait()
		time.Sleep(3 * time.Second)
		queued := l.later(t.Context(), call{target: "/ocr", body: "another"}) // held by the gate
		synctest.Wait()
		time.Sleep(time.Second)
		end(ErrShutdown)

		first, second := <-asleep, <-queued
		for _, r := range []reply{first, second} {
			require.NoError(t, r.err)
			require.Equal(t, http.StatusServiceUnavailable, r.status)
			require.Equal(t, "exhausted", r.own("Outcome"))
			require.Equal(t, "shutdown", r.own("Reason"))
			require.NotEmpty(t, r.header.Get("Retry-After"))
			require.NotEmpty(t, r.own("Dead-Letter-Id"))
		}
		require.Equal(t, 4*time.Second, first.took)
		require.Equal(t, "16", first.header.Get("Retry-After"), "until the provider's hint is over")
		require.Equal(t, "1", first.own("Attempts"))
		require.Equal(t, "throttle", first.own("Class"))
		require.Equal(t, time.Second, second.took)
		require.Equal(t, "0", second.own("Attempts"))
		require.Empty(t, second.own("Class"))
		require.Equal(t, 2, l.sink.count())
		require.ElementsMatch(t, []string{"document", "another"}, l.sink.bodies)
		require.Len(t, l.upstream.attempts(), 1)
	})
}

// In a running proxy every connection ends with the process. That is no worker who hung up.
func TestShutdownIsNoHangUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ending, end := context.WithCancelCause(t.Context())
		s := defaults("generic")
		s.account = func(a *Account) { a.Ending = ending }
		l := newLab(t, s, step{status: 429, header: "Retry-After: 20", body: "slow down"})
		time.AfterFunc(3*time.Second, func() { end(ErrShutdown) })
		req := call{body: "document"}.request(ending, t, "http://proxy")
		req.RequestURI = req.URL.RequestURI()
		w := httptest.NewRecorder()
		l.account.ServeHTTP(w, req)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "shutdown", w.Header().Get("Ocr-Proxy-Reason"))
		require.Equal(t, 1, l.sink.count())
	})
}

func TestShutdownLetsAnAttemptFinish(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ending, end := context.WithCancelCause(t.Context())
		s := defaults("generic")
		s.account = func(a *Account) { a.Ending = ending }
		l := newLab(t, s, step{body: "late, but in time", after: 8 * time.Second})
		running := l.later(t.Context(), call{body: "document"})
		time.Sleep(3 * time.Second)
		end(ErrShutdown)
		r := <-running
		require.Equal(t, "late, but in time", r.body)
		require.Equal(t, "success", r.own("Outcome"))
		require.Equal(t, 8*time.Second, r.took)
	})
}
