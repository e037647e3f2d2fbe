package proxy

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
)

// fragile is a setup whose circuit opens at the first failure.
func fragile() setup {
	s := defaults("generic")
	s.breaker.FailureThreshold = 1
	return s
}

func TestAnOpenCircuitRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, fragile(), step{status: 500, body: "broken", header: "Retry-After: 0|X-Mine: kept"}, step{body: "text"})
		opened := time.Now()
		first := l.send(t.Context(), call{body: "one"})
		require.Equal(t, 500, first.status, "a breaker that stops a request after a real answer leaves that answer")
		require.Equal(t, "broken", first.body)
		require.Equal(t, "kept", first.header.Get("X-Mine"))
		require.Equal(t, "circuit_open", first.own("Outcome"))

		time.Sleep(10 * time.Second)
		second := l.send(t.Context(), call{body: "two", header: "Ocr-Proxy-Document-Id: doc-2"})
		require.Equal(t, http.StatusServiceUnavailable, second.status)
		require.Zero(t, second.took)
		require.Equal(t, "circuit_open", second.own("Outcome"))
		require.Equal(t, "0", second.own("Attempts"))
		require.Empty(t, second.own("Class"))
		require.Equal(t, "50", second.header.Get("Retry-After"))
		require.Equal(t, "false", second.header.Get("X-Should-Retry"))
		require.Contains(t, second.body, "circuit")
		require.NotContains(t, second.body, "broken", "a refusal tells nothing of another worker's traffic")

		require.Equal(t, 2, l.sink.count())
		e := l.sink.letters[1]
		require.Equal(t, "circuit_open", e.Outcome)
		require.Equal(t, "transient", e.ErrorClass)
		require.Equal(t, "doc-2", e.DocumentID)
		require.Nil(t, e.HTTPStatus)
		require.Empty(t, e.Attempts)
		require.Equal(t, opened.Add(time.Minute), *e.RetryNotBefore)
		require.Equal(t, "two", l.sink.bodies[1])
		require.Len(t, l.upstream.attempts(), 1)
		require.Equal(t, 2, l.figure("breaker_rejected_total"))
		require.Equal(t, 1, l.figure("breaker_state", "state", "open"))

		time.Sleep(50 * time.Second)
		require.Equal(t, "text", l.send(t.Context(), call{}).body, "after the reset timeout one may probe")
		require.Equal(t, breaker.Closed, l.circuit().State)
		require.Equal(t, 1, l.figure("breaker_state", "state", "closed"))
		l.quiet()
	})
}

func TestOnlyOneProbeReachesTheProvider(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := fragile()
		s.policy.MaxAttempts = 1
		l := newLab(t, s, step{status: 500}, step{hang: true})
		l.send(t.Context(), call{})
		time.Sleep(time.Minute)
		probed := time.Now()
		var all []<-chan reply
		for range 20 {
			all = append(all, l.later(t.Context(), call{}))
		}
		refused := 0
		for _, c := range all {
			r := <-c
			if r.own("Attempts") == "0" {
				refused++
				require.Equal(t, http.StatusServiceUnavailable, r.status)
				require.Zero(t, r.took, "the others are not held up by the probe")
			}
		}
		require.Equal(t, 19, refused)
		require.Len(t, l.upstream.attempts(), 2)
		require.Equal(t, breaker.Open, l.circuit().State, "a failed probe opens it anew")
		require.Equal(t, 10*time.Second, time.Since(probed))
		require.Equal(t, time.Minute, l.account.Breakers.For("").Wait(), "for a whole interval")
	})
}

func TestAnOpenCircuitSavesTheUploadOfAWorkerWhoAsks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, fragile(), step{status: 500})
		l.send(t.Context(), call{})
		l.worker.ExpectContinueTimeout = time.Hour
		body := &watched{Reader: strings.NewReader("a large document")}
		req := call{header: "Expect: 100-continue"}.request(t.Context(), t, "http://proxy")
		req.Body, req.ContentLength = body, 16
		resp, err := l.worker.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.Equal(t, "circuit_open", resp.Header.Get("Ocr-Proxy-Outcome"))
		require.Equal(t, "60", resp.Header.Get("Retry-After"))
		require.False(t, body.read, "no byte of it was asked for")
		require.Equal(t, 1, l.sink.count(), "without its body there is no document to bury")
	})
}

type watched struct {
	*strings.Reader
	read bool
}

func (w *watched) Read(p []byte) (int, error) { w.read = true; return w.Reader.Read(p) }
func (w *watched) Close() error               { return nil }

func TestHoldingForAnOpenCircuit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := fragile()
		s.hold = true
		l := newLab(t, s, step{status: 500}, step{body: "1", after: time.Second}, step{body: "2"}, step{body: "3"}, step{body: "4"})
		start := time.Now()
		var all []<-chan reply
		for range 4 {
			all = append(all, l.later(t.Context(), call{body: "document"}))
			synctest.Wait()
		}
		for _, c := range all {
			require.Equal(t, "success", (<-c).own("Outcome"))
		}
		seen := l.upstream.attempts()
		require.Len(t, seen, 5)
		require.Equal(t, 2*time.Second, seen[1].at.Sub(start), "the probe goes two seconds after the opening")
		for _, a := range seen[2:] {
			after := a.at.Sub(start)
			require.GreaterOrEqual(t, after, 3*time.Second, "the others wait for the probe's answer")
			require.LessOrEqual(t, after, 4*time.Second, "and leave spread over a second")
		}
		require.Zero(t, l.sink.count())
		l.quiet()
	})
}

func TestHoldingEndsWithTheBudget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := fragile()
		s.policy.Total, s.breaker.EagerProbe = 8*time.Second, 10*time.Second
		s.hold = true
		l := newLab(t, s, step{status: 500})
		r := l.send(t.Context(), call{body: "document"})
		require.Equal(t, http.StatusInternalServerError, r.status, "the real answer is kept through the hold")
		require.Equal(t, "circuit_open", r.own("Outcome"))
		require.Equal(t, 1, l.sink.count())
		second := l.send(t.Context(), call{body: "document"})
		require.Equal(t, http.StatusServiceUnavailable, second.status)
		require.Zero(t, second.took, "a hold that cannot fit is not begun")
	})
}

func TestOneWorkersBadKeyStopsOnlyThatWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, fragile(), step{status: 500}, step{body: "text"})
		mine := call{header: "Authorization: Bearer mine-mine"}
		require.Equal(t, 500, l.send(t.Context(), mine).status)
		require.Equal(t, "0", l.send(t.Context(), mine).own("Attempts"))
		require.Equal(t, "text", l.send(t.Context(), call{header: "Authorization: Bearer other-other"}).body)
		require.Equal(t, "0", l.send(t.Context(), mine).own("Attempts"), "another one's success does not close it")
		require.Equal(t, breaker.Closed, l.circuit().State)
		require.Equal(t, 1, l.figure("breaker_state", "state", "open"), "the worst of them is shown")
	})
}

func TestUnderTheProxysOwnKeyAllWorkersShareOneCircuit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := fragile()
		s.account = func(a *Account) { a.Credential = credential.Header("Authorization", "Bearer", "own-key-of-the-proxy") }
		l := newLab(t, s, step{status: 500})
		l.send(t.Context(), call{header: "Authorization: Bearer mine-mine"})
		require.Equal(t, "Bearer own-key-of-the-proxy", l.upstream.attempts()[0].header.Get("Authorization"))
		require.Equal(t, "0", l.send(t.Context(), call{header: "Authorization: Bearer other-other"}).own("Attempts"))
	})
}

// What the circuit's late reports must not do is tested in package breaker; here, that a permit always comes back.
func TestEveryPermitComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("mistral")
		s.breaker.FailureThreshold, s.policy.MaxAttempts = 1, 1
		l := newLab(t, s)
		probe := func(ctx context.Context, next step) {
			l.upstream.script(step{status: 500})
			l.send(t.Context(), call{target: "/v1/ocr"})
			require.Equal(t, breaker.Open, l.circuit().State)
			time.Sleep(time.Minute)
			l.upstream.script(next)
			l.send(ctx, call{target: "/v1/ocr"})
			synctest.Wait()
			require.Zero(t, l.circuit().Probes, "%+v", next)
			time.Sleep(time.Minute)
			l.upstream.script(step{body: "{}"}) // closes it again
			require.Equal(t, "success", l.send(t.Context(), call{target: "/v1/ocr"}).own("Outcome"), "%+v", next)
		}
		for _, next := range []step{
			{status: 401},
			{status: 418},
			{status: 429},
			{body: "no JSON", header: "Content-Type: application/json"},
			{body: "text", header: "Content-Type: text/plain"},
			{body: "data: x\n\n", header: "Content-Type: text/event-stream"},
			{lost: true},
			{refuse: true},
			{body: "{", missing: 10, header: "Content-Type: application/json"},
		} {
			probe(t.Context(), next)
		}
		probe(leaveAfter(t, 30*time.Minute), step{hang: true})
	})
}
