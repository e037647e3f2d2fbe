package proxy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lasting is an account whose circuit opens at the first failure and is tried every minute.
func lasting(kind string, then OnSustained) setup {
	s := remembering(kind)
	s.policy.MaxAttempts = 1
	s.breaker.FailureThreshold, s.breaker.ResetTimeout = 1, time.Minute
	remember := s.account
	s.account = func(a *Account) {
		remember(a)
		a.OnSustained = then
	}
	return s
}

func TestDocumentsOfAnOutageThatLastsAreLeftToPeople(t *testing.T) {
	for then, after := range map[OnSustained]string{Alert: "circuit_open", ToPeople: "review"} {
		t.Run(after, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, lasting("mistral", then), step{status: 500}, step{status: 500}, step{status: 500}, step{body: `{"pages":[]}`})
				outcome := func(document string) []string {
					r := l.send(t.Context(), analysis(document))
					require.Equal(t, "circuit_open", r.own("Outcome"))
					require.Equal(t, 503, r.status)
					letter := l.sink.letters[len(l.sink.letters)-1]
					return []string{letter.Outcome, letter.ErrorClass}
				}
				l.send(t.Context(), analysis("QQ=="))
				require.Equal(t, []string{"circuit_open", "transient"}, outcome("Qg=="))
				time.Sleep(time.Minute)
				l.send(t.Context(), analysis("Qw==")) // the probe, which fails
				time.Sleep(59 * time.Second)
				require.Equal(t, []string{"circuit_open", "transient"}, outcome("RA=="), "not for two minutes yet")
				time.Sleep(time.Second)
				l.send(t.Context(), analysis("RQ==")) // the next one
				time.Sleep(time.Second)
				require.Equal(t, []string{after, "transient"}, outcome("Rg=="))
				time.Sleep(time.Minute)
				require.Equal(t, "success", l.send(t.Context(), analysis("Rw==")).own("Outcome"))
				l.closing()
			})
		})
	}
}

func TestAFallbackForOutagesThatLastIsNotAskedBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, lasting("mistral", FallBack), "b")
		f.falls("b")
		good := step{body: `{"pages":[]}`}
		f.at["acct"].script(step{status: 500}, step{status: 500}, step{status: 500}, good)
		f.at["b"].script(good, good, good)
		ask := func(document string) string { return f.send(t.Context(), analysis(document)).own("Outcome") }
		require.Equal(t, "success", ask("QQ=="), "its attempts are at their end, which is no matter of the circuit")
		require.Equal(t, map[string]int{"acct": 1, "b": 1}, f.asked())
		require.Equal(t, "circuit_open", ask("Qg=="))
		time.Sleep(time.Minute)
		require.Equal(t, "success", ask("Qw=="))
		time.Sleep(59 * time.Second)
		require.Equal(t, "circuit_open", ask("RA=="))
		time.Sleep(2 * time.Second)
		f.send(t.Context(), analysis("RQ=="))
		require.Equal(t, map[string]int{"acct": 3, "b": 3}, f.asked())
		f.at["b"].script(good)
		require.Equal(t, "success", ask("Rg=="), "the circuit is open, and the outage lasts")
		require.Equal(t, map[string]int{"acct": 3, "b": 4}, f.asked())
		time.Sleep(time.Minute)
		require.Equal(t, "success", ask("Rw=="), "it is well again")
		require.Equal(t, map[string]int{"acct": 4, "b": 4}, f.asked())
		f.quiet()
	})
}
