package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func TestTheLifeOfADocument(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	code := func(n int) *int { return &n }
	first := dlq.Attempt{N: 1, StartedAt: at(0), DurationMS: 500, HTTPStatus: code(429), ErrorClass: "throttle", ErrorCode: "SLOW"}
	second := dlq.Attempt{N: 2, StartedAt: at(4.5), DurationMS: 500, ErrorClass: "transient", WaitedMS: 4000, WaitSource: "hint", UpstreamRequestID: "r-2"}
	for name, c := range map[string]struct {
		letter dlq.Envelope
		status string
		want   string
	}{
		"attempts and a wait": {dlq.Envelope{Attempts: []dlq.Attempt{first, second}, FirstAttemptAt: at(0), FailedAt: at(5)}, "open", `
			0s attempt [attempt 1, HTTP 429] throttle (SLOW; took 500ms) 0+10
			500ms wait [waited 4s] (the provider asked for it) 10+80
			4.5s attempt [attempt 2, no answer] transient (took 500ms; provider's id r-2) 90+10
			5s letter [gave up, dead letter written]`},
		"nothing was tried": {dlq.Envelope{FailedAt: at(1)}, "open", `
			1s letter [gave up, dead letter written]`},
		"it failed again": {dlq.Envelope{Attempts: []dlq.Attempt{second}, FirstAttemptAt: at(-3600), FailedAt: at(5), Occurrences: 3}, "open", `
			-1h0m0s first [first tried] (of the attempts, those of the last failure are kept)
			500ms wait [waited 4s] (the provider asked for it) 0+88.9
			4.5s attempt [attempt 2, no answer] transient (took 500ms; provider's id r-2) 88.9+11.1
			5s letter [gave up; this request has failed 3 times]`},
		"its replay failed": {dlq.Envelope{
			Attempts: []dlq.Attempt{first}, FirstAttemptAt: at(-60), FailedAt: at(0.5),
			Replays: []dlq.Replay{{At: at(-30), Outcome: dlq.ReplayInterrupted}, {At: at(0.5), Outcome: "exhausted", ErrorClass: "throttle", HTTPStatus: code(429)}},
		}, "open", `
			-1m0s first [first tried] (of the attempts, those of the last failure are kept)
			-30s replay [replayed: interrupted] (no answer)
			0s attempt [attempt 1, HTTP 429] throttle (SLOW; took 500ms) 0+100
			500ms replay [replayed: exhausted] throttle (HTTP 429)`},
		"resolved": {dlq.Envelope{FailedAt: at(1), Resolution: &dlq.Resolution{By: "ann", At: at(60), Note: "typed in", Label: "handwriting"}}, "resolved", `
			1s letter [gave up, dead letter written]
			1m0s end [resolved by ann] (typed in; label handwriting)`},
		"discarded by nobody": {dlq.Envelope{FailedAt: at(1), Resolution: &dlq.Resolution{At: at(60)}}, "discarded", `
			1s letter [gave up, dead letter written]
			1m0s end [discarded by somebody]`},
	} {
		var got strings.Builder
		for _, m := range life(dlq.Letter{Envelope: &c.letter, Status: c.status}) {
			fmt.Fprintf(&got, "\n\t\t\t%s %s [%s]", m.At.Sub(began), m.Style, m.Head)
			if m.Class != "" {
				got.WriteString(" " + m.Class)
			}
			if len(m.Text) > 0 {
				got.WriteString(" (" + strings.Join(m.Text, "; ") + ")")
			}
			if m.Spans {
				fmt.Fprintf(&got, " %.3g+%.3g", m.From, m.Length)
			}
		}
		require.Equal(t, c.want, got.String(), name)
	}
}

func TestWaitsAreTold(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{"hint": "the provider asked for it", "gate": "held after a throttle", "queue": "its turn", "backoff": "full jitter", "none": ""} {
		require.Contains(t, waitWords(source), want)
	}
	for ms, want := range map[float64]string{0.4: "0s", 12.6: "13ms", 1234: "1.23s", 12345: "12s", 90_000: "1m30s"} {
		require.Equal(t, want, length(ms))
	}
}
