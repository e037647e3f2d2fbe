package breaker

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// model is a breaker as one would explain it: it keeps the whole history and
// counts it anew every time. One probe at a time, no leases, no callers.
type model struct {
	settings Settings
	state    State
	reason   Reason
	reopened time.Time
	history  []seen // since the last closing, of the closed state
	probing  bool
}

type seen struct {
	at     time.Time
	result Result
}

func (m *model) acquire(waiting bool) bool {
	interval := m.settings.ResetTimeout
	if waiting {
		interval = min(interval, m.settings.EagerProbe)
	}
	switch {
	case m.state == Open && time.Since(m.reopened) >= interval:
		m.state, m.probing = HalfOpen, true
		return true
	case m.state == HalfOpen && !m.probing:
		m.probing = true
		return true
	}
	return m.state == Closed
}

func (m *model) open(r Reason) {
	m.state, m.reason, m.reopened, m.probing, m.history = Open, r, time.Now(), false, nil
}

func (m *model) report(r Result) {
	if m.state == HalfOpen {
		m.probing = false
		switch r {
		case Success, Permanent:
			m.state, m.reason, m.history = Closed, "", nil
		case Failure:
			m.open(ReasonFailures)
		case Neutral:
		case Refused:
			m.history = append(m.history, seen{time.Now(), r})
			if m.reason == ReasonAuth || m.refusals() == m.settings.AuthThreshold {
				m.open(ReasonAuth)
			}
		}
		return
	}
	m.history = append(m.history, seen{time.Now(), r})
	failures, permanent, total := 0, 0, 0
	for _, s := range m.history {
		if time.Since(s.at) >= m.settings.Window || s.result == Neutral || s.result == Refused {
			continue
		}
		total++
		if s.result == Failure {
			failures++
		}
		if s.result == Permanent {
			permanent++
		}
	}
	enough := total >= m.settings.MinRequests
	switch {
	case r == Failure && m.settings.FailureRatio == 0 && m.row() == m.settings.FailureThreshold,
		r == Failure && m.settings.FailureRatio > 0 && enough && float64(failures)/float64(total) >= m.settings.FailureRatio:
		m.open(ReasonFailures)
	case r == Permanent && m.settings.FatalRatio > 0 && enough && float64(permanent)/float64(total) >= m.settings.FatalRatio:
		m.open(ReasonFatal)
	case r == Refused && m.refusals() == m.settings.AuthThreshold:
		m.open(ReasonAuth)
	}
}

// row counts the failures since the last good answer, refusals the refusals.
func (m *model) row() int      { return m.sinceGood(Failure) }
func (m *model) refusals() int { return m.sinceGood(Refused) }

func (m *model) sinceGood(r Result) int {
	n := 0
	for _, s := range m.history {
		if s.result == r {
			n++
		}
		if s.result == Success || s.result == Permanent {
			n = 0
		}
	}
	return n
}

func TestAgreesWithTheModel(t *testing.T) {
	row := Settings{FailureThreshold: 3, ResetTimeout: 10 * time.Second, EagerProbe: 2 * time.Second, Window: 16 * time.Second}
	row.MinRequests, row.FatalRatio, row.AuthThreshold = 8, 0.75, 4
	ratio := row
	ratio.FailureRatio, ratio.MinRequests = 0.5, 6
	plain := Settings{FailureThreshold: 2, ResetTimeout: 3 * time.Second, EagerProbe: 5 * time.Second}

	for name, s := range map[string]Settings{"row": row, "ratio": ratio, "plain": plain} {
		for seed := range uint64(20) {
			t.Run(fmt.Sprintf("%s %d", name, seed), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				synctest.Test(t, func(t *testing.T) { compare(t, s, random) })
			})
		}
	}
}

// compare drives breaker and model with the same random story. Time passes in
// whole seconds, the width of a bucket, so that the window is exact. The mood
// of the service changes now and then, or streaks would be too rare.
func compare(t *testing.T, s Settings, random *rand.Rand) {
	t.Helper()
	b := New(s, Observer{})
	m := &model{settings: s}
	var mood Result
	var held []*Permit // permits not reported at once; their results come late
	opened := 0
	for step := range 600 {
		if random.IntN(8) == 0 {
			mood = Result(random.IntN(5))
		}
		if random.IntN(3) == 0 {
			time.Sleep(time.Duration(random.IntN(4)) * time.Second)
		}
		r := mood
		if random.IntN(3) == 0 {
			r = Result(random.IntN(5))
		}
		waiting := random.IntN(4) == 0
		before := b.Wait()
		passes := m.acquire(waiting)
		p, err := b.Acquire(&Caller{}, waiting)
		require.Equal(t, passes, err == nil, "step %d: state %s", step, m.state)
		if !waiting {
			require.Equal(t, before == 0, err == nil, "step %d: Wait said %s", step, before)
		}
		if err == nil {
			p.Done(r)
			m.report(r)
			held = append(held, p)
		}
		if len(held) > 0 && random.IntN(4) == 0 {
			held[random.IntN(len(held))].Done(Failure) // a second report never matters
		}
		got := b.Snapshot()
		require.Equal(t, m.state, got.State, "step %d: %v", step, r)
		require.Equal(t, m.reason, got.Reason, "step %d: %v", step, r)
		if got.State == Open {
			opened++
		}
	}
	require.Positive(t, opened, "a story without an outage proves nothing")
}
