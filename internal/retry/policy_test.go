package retry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

func top(ceiling time.Duration) time.Duration { return ceiling }

func TestNext(t *testing.T) {
	t.Parallel()
	policy := retry.Policy{MaxAttempts: 6, Base: time.Second, Cap: 30 * time.Second, Total: 90 * time.Second, Jitter: top}
	for _, c := range []struct {
		name          string
		n             int
		elapsed, hint time.Duration
		wait          time.Duration
		stop          retry.Stop
	}{
		{"first retry", 1, 0, 0, time.Second, retry.Continue},
		{"doubles", 2, 0, 0, 2 * time.Second, retry.Continue},
		{"fifth retry", 5, 0, 0, 16 * time.Second, retry.Continue},
		{"attempts bind", 6, 0, 0, 30 * time.Second, retry.Attempts},
		{"attempts bind before the clock", 6, 89 * time.Second, 0, 30 * time.Second, retry.Attempts},
		{"the clock binds", 5, 75 * time.Second, 0, 16 * time.Second, retry.Overflow},
		{"a hint supersedes a shorter wait", 1, 0, 10 * time.Second, 11 * time.Second, retry.Continue},
		{"a hint supersedes a longer wait", 5, 0, 2 * time.Second, 2200 * time.Millisecond, retry.Continue},
		{"jitter on a hint is at most a second", 1, 0, 60 * time.Second, 61 * time.Second, retry.Continue},
		{"a hint that does not fit", 1, 0, 90 * time.Second, 91 * time.Second, retry.HintTooLong},
		{"a hint that just fits no more", 1, 85 * time.Second, 5 * time.Second, 5500 * time.Millisecond, retry.HintTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wait, stop := policy.Next(c.n, c.elapsed, c.hint)
			require.Equal(t, c.stop, stop)
			require.Equal(t, c.wait, wait)
		})
	}
}

func TestCeilingNeverOverflows(t *testing.T) {
	t.Parallel()
	policy := retry.Policy{MaxAttempts: 1 << 30, Base: time.Hour, Cap: 1<<63 - 1, Total: 1<<63 - 1, Jitter: top}
	for _, n := range []int{30, 64, 1000} {
		wait, _ := policy.Next(n, 0, 0)
		require.Positive(t, wait)
	}
	policy.Base, policy.Cap = 40*time.Millisecond, 20*time.Millisecond
	wait, stop := policy.Next(1, 0, 0)
	require.Equal(t, 20*time.Millisecond, wait, "the cap binds even below the base")
	require.Equal(t, retry.Continue, stop)
}

func TestFullJitterIsUniform(t *testing.T) {
	t.Parallel()
	policy := retry.Policy{MaxAttempts: 10, Base: time.Second, Cap: time.Second, Total: time.Hour}
	const draws = 4000
	var sum time.Duration
	low := 0
	for range draws {
		wait, stop := policy.Next(1, 0, 0)
		require.Equal(t, retry.Continue, stop)
		require.GreaterOrEqual(t, wait, time.Duration(0))
		require.LessOrEqual(t, wait, time.Second)
		sum += wait
		if wait < 250*time.Millisecond {
			low++
		}
	}
	require.InDelta(t, 0.5, sum.Seconds()/draws, 0.03)
	require.InDelta(t, 0.25, float64(low)/draws, 0.04)
}

func TestPurse(t *testing.T) {
	t.Parallel()
	var p retry.Purse
	var leave []func()
	for range 100 {
		leave = append(leave, p.Enter())
	}
	var give []func()
	for range 20 {
		g, ok := p.Take(0.2, 10)
		require.True(t, ok)
		give = append(give, g)
	}
	_, ok := p.Take(0.2, 10)
	require.False(t, ok, "a fifth of 100 requests is 20")
	give[0]()
	_, ok = p.Take(0.2, 10)
	require.True(t, ok)
	for _, l := range leave {
		l()
	}
	require.Zero(t, p.InProgress())
	_, ok = p.Take(0.2, 100)
	require.True(t, ok, "the floor holds when few requests are in progress")
	_, ok = p.Take(0, 0)
	require.True(t, ok, "a ratio of 0 is off")
}

func TestEveryCountedStopHasAName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range retry.Stops() {
		require.NotEmpty(t, s.String())
		require.False(t, seen[s.String()])
		seen[s.String()] = true
	}
}
