package pace

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func tuning() Tuning { return Tuning{Adaptive: true, StartRate: 2, Recovery: 10 * time.Second} }

// run takes every slot as it comes, with others waiting, for so long.
func run(r *Rate, from time.Time, length time.Duration) time.Time {
	end := from.Add(length)
	for now := from; ; {
		now = r.Next(now, tuning())
		if now.After(end) {
			return end
		}
		r.Take(now, 1, true, tuning())
	}
}

func TestARateDoublesUntilItIsThrottled(t *testing.T) {
	var r Rate
	now := time.Unix(1000, 0)
	r.Take(now, 1, false, tuning())
	require.True(t, r.Throttled(now, Evidence{Slot: 1}, tuning()))
	require.False(t, r.Throttled(now, Evidence{Slot: 1}, tuning()), "of the same round trip")
	run(&r, now, 3*time.Second)
	require.InDelta(t, 16, r.Limit, 2)
}

func TestARateComesBackToItsLimitAndLingersThere(t *testing.T) {
	r := Rate{Limit: 20, Top: 20, Low: 18, Span: 10, At: time.Unix(1000, 0)}
	require.True(t, r.Throttled(r.At, Evidence{Slot: 100}, tuning()))
	require.InDelta(t, 18, r.Limit, 1e-9)
	require.InDelta(t, 20, r.Span, 1e-9, "the same limit again: it is steady")
	now := run(&r, r.At, 10*time.Second)
	require.InDelta(t, 19.75, r.Limit, 0.03)
	now = run(&r, now, 10*time.Second)
	require.InDelta(t, 20, r.Limit, 0.03)
	run(&r, now, 10*time.Second)
	require.Greater(t, r.Limit, 25.0)
}

func TestAThrottleCutsByWhatWentBetween(t *testing.T) {
	for n, keep := range map[uint64]float64{1: 0.5, 2: 0.5, 3: 2.0 / 3, 5: 0.8, 10: 0.9, 1000: 0.9} {
		r := Rate{Limit: 20, Top: 50, Low: 18, Span: 10, At: time.Unix(1000, 0), Taken: 1500, Cut: 100}
		require.False(t, r.Throttled(r.At, Evidence{Slot: 100}, tuning()), "it left before the last cut")
		require.True(t, r.Throttled(r.At, Evidence{Slot: 100 + n}, tuning()))
		require.InDelta(t, 20*keep, r.Limit, 1e-9)
		require.InDelta(t, 20, r.Top, 1e-9)
		require.False(t, r.Throttled(r.At, Evidence{Slot: 1500}, tuning()))
		require.Equal(t, r.At.Add(time.Duration(float64(time.Second)/r.Limit)), r.Next(r.At, tuning()).Truncate(time.Nanosecond).Add(-1))
	}
}

func TestARateHasAFloor(t *testing.T) {
	r := Rate{Limit: 2, Top: 2, Low: 2, Span: 10, At: time.Unix(1000, 0)}
	for range 100 {
		r.Taken++
		r.Throttled(r.At, Evidence{Slot: r.Taken}, tuning())
	}
	require.InDelta(t, 0.25, r.Limit, 1e-9)
}

func TestARateDoesNotGrowWhileNobodyWaitsOrInAPause(t *testing.T) {
	r := Rate{Limit: 18, Top: 20, Low: 18, Span: 10, At: time.Unix(1000, 0)}
	for i := range 100 {
		r.Take(r.At.Add(time.Duration(i)*time.Second), 1, false, tuning())
	}
	require.InDelta(t, 18, r.Limit, 1e-9)
	now := r.At
	require.True(t, r.PauseUntil(now.Add(time.Minute)))
	require.False(t, r.PauseUntil(now.Add(time.Second)))
	require.Equal(t, now.Add(time.Minute), r.Next(now, tuning()))
	r.Take(now.Add(time.Minute+100*time.Millisecond), 1, true, tuning())
	require.InDelta(t, 0.1, r.Grown, 1e-9)
}

func TestARateSurvivesJSON(t *testing.T) {
	var r Rate
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, "{}", string(text))
	now := time.Unix(1000, 5).UTC()
	r.Throttled(now, Evidence{}, tuning())
	r.PauseUntil(now.Add(time.Second))
	run(&r, now, 5*time.Second)
	r.Throttled(now.Add(5*time.Second), Evidence{Slot: r.Taken}, tuning())
	text, err = json.Marshal(r)
	require.NoError(t, err)
	var back Rate
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, r, back)

	moved := r.Shift(time.Minute)
	require.Equal(t, r.Next(now, tuning()).Add(time.Minute), moved.Next(now.Add(time.Minute), tuning()))
	require.Zero(t, new(Rate).Shift(time.Hour))
}

func TestTwoReserveAheadWhatOneWouldTake(t *testing.T) {
	r := Rate{Limit: 20, Top: 20, Low: 20, Span: 1e9, At: time.Unix(1000, 0)}
	now := r.At
	first := r.Reserve(now, now.Add(101*time.Millisecond), 10, true, tuning())
	second := r.Reserve(now.Add(time.Millisecond), now.Add(220*time.Millisecond), 10, true, tuning())
	require.Len(t, first, 3)
	require.Len(t, second, 2)
	for i, slot := range append(first, second...) {
		require.WithinDuration(t, now.Add(time.Duration(i)*50*time.Millisecond), slot.At, time.Microsecond)
		require.Equal(t, uint64(i+1), slot.Number)
	}
	require.Len(t, r.Reserve(now, now.Add(time.Hour), 7, true, tuning()), 7)
	r.PauseUntil(now.Add(time.Hour))
	require.Empty(t, r.Reserve(now, now.Add(time.Minute), 7, true, tuning()))
}

func TestASlotTakenBesideReservedOnesCountsAsMuch(t *testing.T) {
	r := Rate{Limit: 20, Top: 20, Low: 20, Span: 1e9, At: time.Unix(1000, 0)}
	now := r.At
	require.Len(t, r.Reserve(now, now.Add(time.Hour), 4, false, tuning()), 4)
	r.Take(now, 1, false, tuning())
	require.WithinDuration(t, now.Add(250*time.Millisecond), r.Next(now, tuning()), time.Microsecond)
}

func TestALateTimerIsMadeUpFor(t *testing.T) {
	r := Rate{Limit: 100, Top: 100, Low: 100, Span: 1e9, At: time.Unix(1000, 0), Debt: 1}
	now := r.At.Add(13 * time.Millisecond) // 3 ms late
	r.Take(now, 1, false, tuning())
	require.WithinDuration(t, now.Add(7*time.Millisecond), r.Next(now, tuning()), time.Microsecond)
	now = now.Add(time.Second)
	r.Take(now, 1, false, tuning())
	require.WithinDuration(t, now.Add(6*time.Millisecond), r.Next(now, tuning()), time.Microsecond, "no more than that is saved up")
}

// A shared clock that is put back costs nobody the time by which it was.
func TestAClockThatIsPutBack(t *testing.T) {
	start := time.Now()
	for _, tuning := range []Tuning{{Rate: 10}, {Adaptive: true, StartRate: 10, Recovery: time.Second}} {
		r := Rate{Limit: 10, Top: 10, Low: 10}
		r.Take(start.Add(time.Hour), 1, true, tuning)
		require.Len(t, r.Reserve(start, start.Add(950*time.Millisecond), 100, true, tuning), 10)
		require.WithinDuration(t, start.Add(time.Second), r.At, 200*time.Millisecond)
	}
}

// Who waits for something else than the rate must not make it a number that nobody can count with.
func TestARateHasACeiling(t *testing.T) {
	for name, r := range map[string]Rate{
		"doubling":              {Limit: 1000, Top: 1000, Low: 1000, Ramp: true, Step: 1, At: time.Unix(1000, 0)},
		"beyond the last limit": {Limit: 9900, Top: 9900, Low: 9000, Span: 10, Grown: 10, At: time.Unix(1000, 0)},
	} {
		now := r.At
		for range 10_000 {
			now = now.Add(time.Second)
			r.Take(now, 1, true, tuning())
			require.LessOrEqual(t, r.Limit, highest, name)
		}
		require.InDelta(t, highest, r.Limit, 1, name)
		_, err := json.Marshal(r)
		require.NoError(t, err)
	}
	r := Rate{At: time.Unix(1000, 0)}
	r.Resume(r.At, 1e9, tuning())
	require.LessOrEqual(t, r.Limit, highest)
	r.Throttled(r.At, Evidence{Slot: 1, Seed: 1e9}, tuning())
	require.LessOrEqual(t, r.Limit, highest)
}
