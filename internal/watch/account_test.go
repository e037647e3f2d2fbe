package watch

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heard is an emitter that keeps what it hears.
type heard struct {
	kinds  []string
	events []Event
}

func (h *heard) Emit(kind string, _ time.Time, data any) error {
	h.kinds = append(h.kinds, kind)
	h.events = append(h.events, data.(Event))
	return nil
}

type scene struct {
	*Account
	*heard
	metrics *Metrics
	logs    *observer.ObservedLogs
}

// watched runs a story in a bubble, where an hour takes no time.
func watched(t *testing.T, story func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		core, logs := observer.New(zap.ErrorLevel)
		s := &scene{heard: &heard{}, metrics: NewMetrics(prometheus.NewPedanticRegistry()), logs: logs}
		s.Account = New(Options{Name: "acct", Kind: "textract", Emitter: s.heard, Log: zap.New(core), Metrics: s.metrics})
		story(s)
	})
}

func (s *scene) attempts(n int, class classify.Class) {
	for range n {
		s.Attempt(class, "Code")
	}
}

func TestACredentialThatIsRefusedIsToldOnce(t *testing.T) {
	t.Parallel()
	watched(t, func(s *scene) {
		s.attempts(3, classify.Success)
		s.attempts(3, classify.Auth)
		require.Equal(t, []string{CredentialsRefused}, s.kinds)
		require.Equal(t, Event{
			Account: "acct", Kind: "textract", Cause: "credentials", Code: "Code", Bad: 1, Total: 1, Minutes: 1, Diagnostic: s.events[0].Diagnostic,
		}, s.events[0])
		s.attempts(1, classify.Success)
		s.attempts(1, classify.Auth)
		require.Len(t, s.kinds, 1, "good and bad credentials that take turns are one story")
		time.Sleep(calm)
		s.attempts(1, classify.Auth)
		require.Len(t, s.kinds, 1, "nothing was good in between")
		s.attempts(1, classify.Success)
		s.attempts(1, classify.Auth)
		require.Len(t, s.kinds, 2)
		require.InDelta(t, 2, testutil.ToFloat64(s.metrics.events.WithLabelValues("acct", CredentialsRefused)), 0)
		require.Equal(t, 2, s.logs.Len())
	})
}

func TestACredentialThatNeverWorkedIsTold(t *testing.T) {
	t.Parallel()
	watched(t, func(s *scene) {
		s.attempts(1, classify.Auth)
		require.Equal(t, []string{CredentialsRefused}, s.kinds)
	})
}

func TestSpikes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		before, good  int // before the window, and in it
		refused, auth int
		cause         string // "": nothing is said
	}{
		{"documents", 100, 20, 6, 0, "requests_or_format"},
		{"credentials", 100, 20, 3, 3, "credentials"},
		{"a small share", 100, 100, 10, 0, ""},
		{"hardly an answer", 100, 8, 5, 0, ""},
		{"hardly an error", 100, 16, 4, 0, ""},
		{"an account that nobody knows", 10, 20, 6, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			watched(t, func(s *scene) {
				s.attempts(c.before, classify.Success)
				time.Sleep(window * time.Minute)
				s.attempts(c.good, classify.Success)
				s.attempts(c.auth, classify.Auth)
				s.attempts(c.refused, classify.Permanent)
				var causes []string
				for i, kind := range s.kinds {
					if kind == ErrorsSpike {
						causes = append(causes, s.events[i].Cause)
						require.Equal(t, "acct", s.events[i].Account)
						require.GreaterOrEqual(t, s.events[i].Bad, leastBad)
					}
				}
				if c.cause == "" {
					require.Empty(t, causes)
				} else {
					require.Equal(t, []string{c.cause}, causes, "once, however long it goes on")
				}
			})
		})
	}
}

func TestAnAccountThatIsUsedToRefusalsHasNoSpike(t *testing.T) {
	t.Parallel()
	watched(t, func(s *scene) {
		s.attempts(100, classify.Success)
		s.attempts(3, classify.Permanent)
		time.Sleep(window * time.Minute)
		s.attempts(20, classify.Success)
		s.attempts(20, classify.Permanent)
		require.Empty(t, s.kinds)
	})
}

func TestManyDeadLettersAreToldAndToldAgainAfterACalm(t *testing.T) {
	t.Parallel()
	watched(t, func(s *scene) {
		trouble := func() {
			for i := range 40 {
				s.Request(i%4 == 0)
			}
		}
		trouble()
		require.Equal(t, []string{ErrorsSpike}, s.kinds)
		require.Equal(t, causeLetters, s.events[0].Cause)
		time.Sleep(calm)
		s.Request(true)
		for range 300 {
			s.Request(false)
		}
		s.Request(true) // judged when there is one: hardly any now
		trouble()
		trouble()
		require.Len(t, s.kinds, 1, "a share of less than a tenth")
		time.Sleep(window * time.Minute)
		trouble()
		require.Len(t, s.kinds, 2)
	})
}

func TestTheHourHasNoGaps(t *testing.T) {
	t.Parallel()
	watched(t, func(s *scene) {
		time.Sleep(30 * time.Second) // bubbles begin at a full minute
		s.Request(false)
		s.attempts(2, classify.Success)
		time.Sleep(10 * time.Minute)
		s.Turn(Open)
		time.Sleep(2 * time.Minute)
		s.Request(true)
		time.Sleep(time.Minute)
		s.Turn(HalfOpen)
		s.Turn(Closed)
		time.Sleep(3 * time.Minute)

		all := s.Minutes()
		require.Len(t, all, Kept)
		for i := 1; i < Kept; i++ {
			require.Equal(t, time.Minute, all[i].Start.Sub(all[i-1].Start))
		}
		last := func(ago int) Minute { return all[Kept-1-ago] }
		require.Equal(t, 1, last(16).Requests)
		require.Equal(t, 2, last(16).Of(classify.Success))
		require.Equal(t, 1, last(4).DeadLettered)
		for ago, want := range map[int]Circuit{0: Closed, 2: Closed, 3: Open, 4: Open, 5: Open, 6: Open, 7: Closed, 16: Closed, 59: Closed} {
			require.Equal(t, want, last(ago).Circuit, "%d minutes ago", ago)
		}
		hour := s.Hour()
		require.Equal(t, Minute{Requests: 2, DeadLettered: 1, Attempts: hour.Attempts, Circuit: Open}, hour)

		time.Sleep(time.Hour)
		require.Zero(t, s.Hour())
		for _, m := range s.Minutes() {
			require.Equal(t, Minute{Start: m.Start}, m)
		}
	})
}

func TestACircuitThatStaysOpenIsOpenTheWholeHour(t *testing.T) {
	t.Parallel()
	watched(t, func(s *scene) {
		s.Turn(Open)
		time.Sleep(3 * time.Hour)
		for _, m := range s.Minutes() {
			require.Equal(t, Open, m.Circuit)
		}
	})
}

func TestANilWatchSaysNothing(t *testing.T) {
	t.Parallel()
	var w *Account
	w.Attempt(classify.Auth, "")
	w.Request(true)
}

func TestTheEventInJSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(Event{Account: "a", Kind: "k", Cause: causeLetters, Diagnostic: "d", Bad: 1, Total: 2, Minutes: 5})
	require.NoError(t, err)
	require.JSONEq(t, `{"account":"a","kind":"k","cause":"dead_letters","diagnostic":"d","bad":1,"total":2,"minutes":5}`, string(data))
}

func BenchmarkAttempt(b *testing.B) {
	w := New(Options{Name: "a", Log: zap.NewNop(), Metrics: NewMetrics(prometheus.NewPedanticRegistry())})
	for b.Loop() {
		w.Attempt(classify.Success, "")
	}
}
