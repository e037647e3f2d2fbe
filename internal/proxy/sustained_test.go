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
				l := newLab(t, lasting("mistral", then), step{status: 500}, step{status: 500}, step{status: 500})
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
				l.upstream.script(step{status: 500}, step{body: `{"pages":[]}`})
				l.send(t.Context(), analysis("Rg=="))
				require.Equal(t, "exhausted", l.sink.letters[len(l.sink.letters)-1].Outcome, "it was tried, and failed by itself")
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

// shut opens the circuit of the account that is asked first.
func (f *fleet) shut() {
	f.t.Helper()
	f.at["acct"].script(step{status: 500})
	f.at["b"].script(step{body: `{"pages":[]}`})
	f.send(f.t.Context(), analysis("QQ=="))
	require.Positive(f.t, f.circuit().Failures+int(f.account.Breakers.For("").Wait()))
}

// A request that is held while its circuit is open is not refused in favour of an account that does not yet stand in.
func TestAHeldRequestDoesNotGiveWayToAFallbackForLastingOutages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := lasting("mistral", FallBack)
		s.hold = true
		f := newFleet(t, s, "b")
		f.falls("b")
		f.shut()
		f.at["acct"].script(step{body: `{"pages":[]}`})
		start := time.Now()
		r := f.send(t.Context(), analysis("Qg=="))
		require.Equal(t, "success", r.own("Outcome"))
		require.Positive(t, time.Since(start), "it waited for its own circuit")
		require.Equal(t, map[string]int{"acct": 2, "b": 1}, f.asked())
	})
}

// A worker that asks before it sends is spared the upload, for nobody would take it.
func TestAWorkerThatAsksFirstIsRefusedWhileTheFallbackDoesNotStandIn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, lasting("mistral", FallBack), "b")
		f.falls("b")
		f.shut()
		letters := f.sink.count()
		f.worker.ExpectContinueTimeout = time.Hour
		c := analysis("Qg==")
		c.header += "|Expect: 100-continue"
		r := f.send(t.Context(), c)
		require.Equal(t, "circuit_open", r.own("Outcome"))
		require.Equal(t, letters, f.sink.count(), "without its body there is no document to keep")
	})
}

// Accounts that share the calls stand in at once: only fallbacks are kept for outages that last.
func TestAccountsThatShareStandInAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, lasting("mistral", FallBack), "b")
		f.spreads(map[string]int{"acct": 1, "b": 1})
		for f.account.Breakers.For("").Wait() == 0 {
			f.at["acct"].script(step{status: 500})
			f.at["b"].script(step{body: `{"pages":[]}`})
			f.send(t.Context(), analysis("QQ=="))
		}
		before := f.asked()["b"]
		for range 4 {
			f.at["b"].script(step{body: `{"pages":[]}`})
			require.Equal(t, "success", f.send(t.Context(), analysis("Qg==")).own("Outcome"))
		}
		require.Equal(t, before+4, f.asked()["b"])
	})
}

// The circuit of a worker's own credential counts as the account's does.
func TestAnOutageOfACredentialThatLasts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, lasting("mistral", ToPeople), step{status: 500}, step{status: 500}, step{status: 500})
		ask := func(document string) string {
			c := analysis(document)
			c.header += "|Authorization: Bearer worker-key"
			l.send(t.Context(), c)
			return l.sink.letters[len(l.sink.letters)-1].Outcome
		}
		require.Equal(t, "exhausted", ask("QQ=="))
		require.Equal(t, "circuit_open", ask("Qg=="))
		for range 2 {
			time.Sleep(61 * time.Second)
			ask("Qw==") // the probe, which fails
		}
		require.Equal(t, "review", ask("RA=="))
		require.Zero(t, l.account.Breakers.For("").Wait(), "others are not concerned")
		l.closing()
	})
}
