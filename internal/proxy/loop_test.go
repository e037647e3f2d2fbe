package proxy

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
)

// story is one request from the provider's answers to everything that follows from them.
type story struct {
	name   string
	kind   string // generic
	change func(s *setup)
	call   call
	steps  []step

	status    int // 200
	outcome   Outcome
	class     string
	reason    string
	ambiguous bool
	gaps      []time.Duration // from each attempt to the next, exactly
	took      time.Duration   // the whole request, exactly
	sources   []string        // of the waits before each attempt, in the envelope
	code      string          // in the envelope
	counted   string          // in retry_outcomes_total; "": not there
	failures  int             // consecutive ones that the breaker remembers
	state     breaker.State
	notBefore time.Duration // in the envelope, from the beginning of the request; 0: null
}

func (s story) run(t *testing.T) {
	kind := s.kind
	if kind == "" {
		kind = "generic"
	}
	config := defaults(kind)
	if s.change != nil {
		s.change(&config)
	}
	if s.call.body == "" {
		s.call.body = "the document"
	}
	l := newLab(t, config, s.steps...)
	start := time.Now()
	r := l.send(t.Context(), s.call)
	require.NoError(t, r.err)
	l.quiet()

	// What the provider saw.
	require.Equal(t, s.gaps, l.upstream.gaps())
	require.Equal(t, s.took, r.took)
	attempts := l.upstream.attempts()
	require.Empty(t, l.upstream.steps, "the whole script was played")
	sent := slices.DeleteFunc(slices.Clone(attempts), func(a seen) bool { return a.refused })
	for _, a := range sent {
		require.Equal(t, sent[0].body, a.body, "every attempt sends the same")
	}
	// What the worker got.
	if s.status == 0 {
		s.status = http.StatusOK
	}
	require.Equal(t, s.status, r.status)
	require.Equal(t, string(s.outcome), r.own("Outcome"))
	require.Equal(t, s.class, r.own("Class"))
	require.Equal(t, s.reason, r.own("Reason"))
	require.Equal(t, s.ambiguous, r.own("Ambiguous") == "true")
	require.Equal(t, len(attempts), atoi(t, r.own("Attempts")))
	if last := s.steps[len(s.steps)-1]; !last.refuse && !last.hang && !last.lost && last.missing == 0 && last.handle == nil {
		require.Equal(t, last.body, r.body, "the provider's last answer is passed on as it was")
	}
	// What was buried.
	if s.outcome == Success {
		require.Zero(t, l.sink.count())
		require.Empty(t, r.own("Dead-Letter-Id"))
	} else {
		s.checkLetter(t, l, r, start)
	}
	// What was counted.
	for _, outcome := range Outcomes() {
		want := 0
		if outcome == s.outcome {
			want = 1
		}
		require.Equal(t, want, l.requests(outcome), "requests of outcome %s", outcome)
	}
	total := 0
	for _, class := range classify.Classes() {
		total += l.attempts(class.String())
	}
	require.Equal(t, len(attempts), total)
	require.Positive(t, l.attempts(s.class))
	for _, word := range append([]string{succeeded}, stopWords()...) {
		want := 0
		if word == s.counted {
			want = 1
		}
		require.Equal(t, want, l.ended(word), "retry_outcomes_total of %s", word)
	}
	circuit := l.circuit()
	require.Equal(t, s.state, circuit.State)
	require.Equal(t, s.failures, circuit.Failures)
	lines := l.logs.FilterMessage("request").All()
	require.Len(t, lines, 1, "one line for the request")
	require.Equal(t, string(s.outcome), lines[0].ContextMap()["outcome"])
}

func (s story) checkLetter(t *testing.T, l *lab, r reply, start time.Time) {
	t.Helper()
	require.Equal(t, 1, l.sink.count(), "one letter")
	require.Equal(t, "letter-1", r.own("Dead-Letter-Id"))
	e := l.sink.letters[0]
	require.Equal(t, s.call.body, l.sink.bodies[0], "the payload is what the worker sent")
	require.Equal(t, string(s.outcome), e.Outcome)
	require.Equal(t, s.class, e.ErrorClass)
	require.Equal(t, s.code, e.ErrorCode)
	require.Equal(t, s.ambiguous, e.Ambiguous)
	require.NotEmpty(t, e.Diagnostic)
	require.NotEmpty(t, e.StackTrace)
	require.Len(t, e.Attempts, len(l.upstream.attempts()))
	require.Equal(t, len(e.Attempts)-1, e.RetryCount)
	for i, a := range e.Attempts {
		require.Equal(t, i+1, a.N)
		source := fromNone
		if i > 0 {
			source = fromBackoff
		}
		if len(s.sources) > i {
			source = s.sources[i]
		}
		require.Equal(t, source, a.WaitSource, "wait before attempt %d", i+1)
		if i > 0 {
			before := e.Attempts[i-1]
			ended := before.StartedAt.Add(time.Duration(before.DurationMS * float64(time.Millisecond)))
			require.InDelta(t, float64(a.StartedAt.Sub(ended).Milliseconds()), a.WaitedMS, 1, "wait before attempt %d", i+1)
		}
	}
	if s.notBefore == 0 {
		require.Nil(t, e.RetryNotBefore)
		return
	}
	require.NotNil(t, e.RetryNotBefore)
	require.Equal(t, s.notBefore, e.RetryNotBefore.Sub(start))
}

func sec(list ...float64) []time.Duration {
	var all []time.Duration
	for _, s := range list {
		all = append(all, time.Duration(s*float64(time.Second)))
	}
	return all
}

func TestStories(t *testing.T) {
	t.Parallel()
	const throttled = `{"error":{"code":"rate","message":"slow down"}}`
	const start = "X-Amz-Target: Textract.StartDocumentAnalysis|Content-Type: application/x-amz-json-1.1"
	analyze := call{target: "/documentintelligence/documentModels/prebuilt-read:analyze?api-version=x"}
	busy, down := step{status: 429, body: throttled}, step{status: 503, body: "down"}
	for _, s := range []story{
		{name: "success", steps: []step{{body: "text"}}, outcome: Success, class: "success"},
		{name: "a slow success", steps: []step{{body: "text", after: 9 * time.Second}}, outcome: Success, class: "success", took: 9 * time.Second},
		{
			name: "a throttle without a hint", steps: []step{busy, {body: "text"}},
			outcome: Success, class: "success", gaps: sec(1), took: time.Second, counted: succeeded,
		},
		{
			name:    "a throttle with a hint waits the hint and a tenth",
			steps:   []step{{status: 429, header: "Retry-After: 2"}, {body: "text"}},
			outcome: Success, class: "success", gaps: sec(2.2), took: 2200 * time.Millisecond, counted: succeeded,
		},
		{
			name:    "a hint's jitter is a second at most",
			steps:   []step{{status: 503, header: "retry-after-ms: 20000"}, {body: "text"}},
			outcome: Success, class: "success", gaps: sec(21), took: 21 * time.Second, counted: succeeded,
		},
		{
			name: "a hint that does not fit ends the request at once", steps: []step{{status: 429, header: "Retry-After: 120", body: throttled}},
			status: 429, outcome: Exhausted, class: "throttle", reason: "hint_too_long", code: "rate", counted: "hint_too_long", notBefore: 120 * time.Second,
		},
		{
			name: "a hint of days is a quota", steps: []step{{status: 429, header: "Retry-After: 172800"}},
			status: 429, outcome: Permanent, class: "quota", notBefore: 48 * time.Hour,
		},
		{
			name: "backoff doubles", steps: []step{down, {status: 500}, {status: 502}, {body: "text"}},
			outcome: Success, class: "success", gaps: sec(1, 2, 4), took: 7 * time.Second, counted: succeeded,
		},
		{
			name: "all attempts are used", steps: []step{down, down, down, down},
			status: 503, outcome: Exhausted, class: "transient", gaps: sec(1, 2, 4), took: 7 * time.Second, counted: "exhausted_attempts", failures: 4,
		},
		{
			name: "throttled to the end", change: func(s *setup) { s.policy.MaxAttempts = 3 }, steps: []step{busy, {status: 429, header: "Retry-After: 5"}, busy},
			status: 429, outcome: Exhausted, class: "throttle", code: "rate", gaps: sec(1, 5.5), took: 6500 * time.Millisecond,
			sources: []string{fromNone, fromBackoff, fromHint}, counted: "exhausted_attempts",
		},
		{
			name: "a computed wait that does not fit", change: func(s *setup) {
				s.policy.Base, s.policy.Cap, s.policy.Total = 20*time.Second, time.Hour, 50*time.Second
			},
			steps: []step{down, down}, status: 503, outcome: Exhausted, class: "transient", reason: "budget_overflow", gaps: sec(20), took: 20 * time.Second,
			counted: "budget_overflow", failures: 2,
		},
		{
			name: "the worker lowers the budget", call: call{header: "Ocr-Proxy-Timeout: 4s"}, steps: []step{down, down, down},
			status: 503, outcome: Exhausted, class: "transient", reason: "budget_overflow", gaps: sec(1, 2), took: 3 * time.Second, counted: "budget_overflow", failures: 3,
		},
		{
			name: "the worker cannot raise the budget", call: call{header: "Ocr-Proxy-Timeout: 1h"}, steps: []step{{status: 429, header: "Retry-After: 120"}},
			status: 429, outcome: Exhausted, class: "throttle", reason: "hint_too_long", counted: "hint_too_long", notBefore: 120 * time.Second,
		},
		{
			name: "an attempt that hangs is cut and repeated", steps: []step{{hang: true}, {body: "text"}},
			outcome: Success, class: "success", gaps: sec(11), took: 11 * time.Second, counted: succeeded,
		},
		{
			name: "attempts that hang to the end", change: func(s *setup) { s.policy.MaxAttempts = 2 }, steps: []step{{hang: true}, {hang: true}},
			status: 504, outcome: Exhausted, class: "transient", ambiguous: true, code: "timeout", gaps: sec(11), took: 21 * time.Second,
			counted: "exhausted_attempts", failures: 2,
		},
		{
			name: "the time runs out in an attempt", change: func(s *setup) { s.policy.Total = 15 * time.Second }, steps: []step{{hang: true}, {hang: true}},
			status: 504, outcome: Exhausted, class: "transient", reason: "exhausted_time", ambiguous: true, code: "timeout", gaps: sec(11), took: 15 * time.Second,
			counted: "exhausted_time", failures: 1, // the second had too little time to say anything about the provider
		},
		{
			name: "a large document has longer", change: func(s *setup) { s.policy.AttemptTimeoutPerMB = 1 << 20 * 2 * time.Second },
			steps: []step{{body: "text", after: 33 * time.Second}}, outcome: Success, class: "success", took: 33 * time.Second,
			call: call{body: "twelve bytes"},
		},
		{
			name: "refused connections", steps: []step{{refuse: true}, {refuse: true}, {body: "text"}},
			outcome: Success, class: "success", gaps: sec(1, 2), took: 3 * time.Second, counted: succeeded,
		},
		{
			name: "refused to the end", change: func(s *setup) { s.policy.MaxAttempts = 2 }, steps: []step{{refuse: true}, {refuse: true}},
			status: 502, outcome: Exhausted, class: "transient", code: "connection_refused", gaps: sec(1), took: time.Second, counted: "exhausted_attempts", failures: 2,
		},
		{
			name: "no answer after a throttle is told as such, not the old answer", change: func(s *setup) { s.policy.MaxAttempts = 2 },
			steps: []step{busy, {refuse: true}}, status: 502, outcome: Exhausted, class: "transient", code: "connection_refused", gaps: sec(1), took: time.Second,
			counted: "exhausted_attempts", failures: 1,
		},
		// Answers that no repetition mends.
		{name: "permanent", steps: []step{{status: 400, body: `{"code":"bad"}`}}, status: 400, outcome: Permanent, class: "permanent", code: "bad"},
		{name: "a permanent answer is a success for the breaker", steps: []step{down, {status: 422}}, status: 422, outcome: Permanent, class: "permanent", gaps: sec(1), took: time.Second},
		{name: "auth", steps: []step{{status: 401}}, status: 401, outcome: Permanent, class: "auth"},
		{name: "auth is neutral", steps: []step{down, {status: 403}}, status: 403, outcome: Permanent, class: "auth", gaps: sec(1), took: time.Second, failures: 1},
		{name: "quota", steps: []step{{status: 402}}, status: 402, outcome: Permanent, class: "quota"},
		{name: "unknown fails closed", steps: []step{{status: 418, body: "?"}}, status: 418, outcome: Permanent, class: "unknown"},
		{
			name: "unknown answers may be retried", change: func(s *setup) { s.policy.UnknownRetries = 2 }, steps: []step{{status: 418}, {status: 418}, {status: 418}},
			status: 418, outcome: Permanent, class: "unknown", gaps: sec(1, 2), took: 3 * time.Second,
		},
		{
			name: "an unknown answer that passes", change: func(s *setup) { s.policy.UnknownRetries = 1 }, steps: []step{{status: 418}, {body: "text"}},
			outcome: Success, class: "success", gaps: sec(1), took: time.Second, counted: succeeded,
		},
		{
			name: "the operator's rules come first", steps: []step{{status: 400, body: `{"code":"Busy"}`}, {body: "text"}},
			change: func(s *setup) {
				s.account = func(a *Account) { a.Rules = classify.Table{{Code: "Busy", Class: classify.Throttle}} }
			},
			outcome: Success, class: "success", gaps: sec(1), took: time.Second, counted: succeeded,
		},
		// Whether a repetition is safe.
		{name: "a lost answer of a synchronous analysis", steps: []step{{lost: true}, {body: "text"}}, outcome: Success, class: "success", gaps: sec(1), took: time.Second, counted: succeeded},
		{
			name: "a lost answer when nothing ambiguous is repeated", change: func(s *setup) { s.policy.Ambiguous = RepeatNever }, steps: []step{{lost: true}},
			status: 502, outcome: Exhausted, class: "transient", reason: "not_safe", ambiguous: true, code: "connection_closed", counted: "not_safe", failures: 1,
		},
		{
			name: "a gateway's timeout when nothing ambiguous is repeated", change: func(s *setup) { s.policy.Ambiguous = RepeatNever }, steps: []step{{status: 504, body: "gateway"}},
			status: 504, outcome: Exhausted, class: "transient", reason: "not_safe", ambiguous: true, counted: "not_safe", failures: 1,
		},
		{
			name: "a refused connection is never ambiguous", change: func(s *setup) { s.policy.Ambiguous = RepeatNever }, steps: []step{{refuse: true}, {body: "text"}},
			outcome: Success, class: "success", gaps: sec(1), took: time.Second, counted: succeeded,
		},
		{
			name: "a lost job start without a token", kind: "azure", call: analyze, steps: []step{{lost: true}},
			status: 502, outcome: Exhausted, class: "transient", reason: "not_safe", ambiguous: true, code: "connection_closed", counted: "not_safe", failures: 1,
		},
		{
			name: "a 502 on a job start without a token", kind: "azure", call: analyze, steps: []step{{status: 502, body: "gateway"}},
			status: 502, outcome: Exhausted, class: "transient", reason: "not_safe", ambiguous: true, counted: "not_safe", failures: 1,
		},
		{
			name: "a 503 on a job start without a token says that nothing was done", kind: "azure", call: analyze, steps: []step{down, {refuse: true}, {status: 202}},
			status: 202, outcome: Success, class: "success", gaps: sec(1, 2), took: 3 * time.Second, counted: succeeded,
		},
		{
			name: "a lost job start when everything is repeated", kind: "azure", call: analyze, change: func(s *setup) { s.policy.Ambiguous = RepeatAlways },
			steps: []step{{lost: true}, {status: 202}}, status: 202, outcome: Success, class: "success", gaps: sec(1), took: time.Second, counted: succeeded,
		},
		{
			name: "a lost job start under a token", kind: "textract", call: call{target: "/", header: start, body: `{"DocumentLocation":{}}`},
			steps: []step{{lost: true}, {body: `{"JobId":"1"}`, header: "Content-Type: application/x-amz-json-1.1"}}, outcome: Success, class: "success", gaps: sec(1), took: time.Second, counted: succeeded,
		},
		{
			name: "a lost job start under the worker's own token", kind: "textract", call: call{target: "/", header: start, body: `{"ClientRequestToken":"mine"}`},
			change: func(s *setup) { s.account = func(a *Account) { a.Injection = InjectNever } },
			steps:  []step{{lost: true}, {body: `{"JobId":"1"}`}}, outcome: Success, class: "success", gaps: sec(1), took: time.Second, counted: succeeded,
		},
		{
			name: "a lost job start that was given no token", kind: "textract", call: call{target: "/", header: start, body: `{"DocumentLocation":{}}`},
			change: func(s *setup) { s.account = func(a *Account) { a.Injection = InjectNever } }, steps: []step{{lost: true}},
			status: 502, outcome: Exhausted, class: "transient", reason: "not_safe", ambiguous: true, code: "connection_closed", counted: "not_safe", failures: 1,
		},
		// The shared limits.
		{
			name: "too many retries at once", change: func(s *setup) { s.policy.PurseFloor = 0 }, steps: []step{down},
			status: 503, outcome: Exhausted, class: "transient", reason: "retry_budget", counted: "retry_budget", failures: 1,
		},
		{
			name: "throttles do not spend from the purse", change: func(s *setup) { s.policy.PurseFloor = 0 }, steps: []step{busy, {body: "text"}},
			outcome: Success, class: "success", gaps: sec(1), took: time.Second, counted: succeeded,
		},
		{
			name: "the breaker opens in the middle", change: func(s *setup) { s.breaker.FailureThreshold = 1 }, steps: []step{down},
			status: 503, outcome: CircuitOpen, class: "transient", counted: "breaker", failures: 1, state: breaker.Open, notBefore: time.Minute,
		},
		{
			name: "one poisonous document does not open it", change: func(s *setup) { s.breaker.FailureThreshold, s.policy.MaxAttempts = 3, 6 },
			steps: []step{down, down, down, down, down, down}, status: 503, outcome: Exhausted, class: "transient", gaps: sec(1, 2, 4, 8, 16), took: 31 * time.Second,
			counted: "exhausted_attempts", failures: 2,
		},
		{
			name: "throttles that trip count as failures", change: func(s *setup) { s.account = func(a *Account) { a.TripOnThrottle = true } }, steps: []step{busy, busy, busy, busy},
			status: 429, outcome: Exhausted, class: "throttle", code: "rate", gaps: sec(1, 2, 4), took: 7 * time.Second, counted: "exhausted_attempts", failures: 4,
		},
		{
			name: "throttles that trip open the circuit", steps: []step{busy},
			change: func(s *setup) {
				s.breaker.FailureThreshold = 1
				s.account = func(a *Account) { a.TripOnThrottle = true }
			},
			status: 429, outcome: CircuitOpen, class: "throttle", code: "rate", counted: "breaker", failures: 1, state: breaker.Open, notBefore: time.Minute,
		},
		{
			name:   "an open circuit is probed while the request holds",
			change: func(s *setup) { s.breaker.FailureThreshold = 1; s.hold = true },
			steps:  []step{down, down, {body: "text"}}, outcome: Success, class: "success", gaps: sec(2, 2), took: 4 * time.Second, counted: succeeded,
		},
	} {
		t.Run(s.name, func(t *testing.T) { inBubble(t, s.run) })
	}
}
