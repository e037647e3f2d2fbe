package pace

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// half draws the middle of every range.
func half(ceiling time.Duration) time.Duration { return ceiling / 2 }

func settings() Settings {
	return Settings{MaxPause: time.Minute, Smear: time.Second, Jitter: half}
}

// newGate returns an open gate and a function for times after its making.
func newGate(s Settings) (g *Gate, at func(seconds float64) time.Time) {
	start := time.Now()
	return NewGate(s), func(seconds float64) time.Time {
		return start.Add(time.Duration(seconds * float64(time.Second)))
	}
}

func TestOpenGateReturnsEarliestUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, at := newGate(settings())
		for _, earliest := range []time.Time{{}, at(-5), at(0), at(5)} {
			require.Equal(t, earliest, g.Reserve(earliest))
		}
		g.Pause(at(2))
		time.Sleep(2 * time.Second)
		for _, earliest := range []time.Time{{}, at(-5), at(2), at(5)} {
			require.Equal(t, earliest, g.Reserve(earliest), "also after a pause")
		}
	})
}

func TestFirstGoesAtTheEndOthersLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, at := newGate(settings())
		g.Pause(at(2))
		require.Equal(t, at(2), g.Reserve(time.Time{}))
		require.Equal(t, at(2.5), g.Reserve(time.Time{}))
		time.Sleep(1900 * time.Millisecond)
		require.Equal(t, at(2.5), g.Reserve(time.Time{}))
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, at(2), g.Reserve(at(2)), "the first may go now")
	})
}

func TestOwnWaitIsNeverUndercut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, at := newGate(settings())
		g.Pause(at(2))
		require.Equal(t, at(9), g.Reserve(at(9)), "far beyond the pause")
		require.Equal(t, at(2.2), g.Reserve(at(2.2)), "the first one all the same: alone it loses nothing")
		require.Equal(t, at(2.5), g.Reserve(at(2.3)), "one of the crowd")
		require.Equal(t, at(2.7), g.Reserve(at(2.7)))
	})
}

func TestExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, at := newGate(settings())
		g.Pause(at(2))
		require.Equal(t, at(2), g.Reserve(time.Time{}))
		g.Pause(at(1))
		g.Pause(at(-1))
		require.Equal(t, 2*time.Second, g.Remaining(), "never shorter")
		g.Pause(at(4))
		require.Equal(t, 4*time.Second, g.Remaining())
		require.Equal(t, at(4.5), g.Reserve(time.Time{}), "a longer pause has no second first")

		time.Sleep(2 * time.Second)
		require.Equal(t, at(4.5), g.Reserve(at(2)), "who slept until the old end looks again")
	})
}

func TestANewPauseHasANewFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, at := newGate(settings())
		g.Pause(at(2))
		g.Reserve(time.Time{})
		time.Sleep(2 * time.Second)
		g.Pause(at(3)) // nobody has looked since the end
		require.Equal(t, at(3), g.Reserve(time.Time{}))
		require.Equal(t, at(3.5), g.Reserve(time.Time{}))
		time.Sleep(2 * time.Second)
		g.Reserve(time.Time{}) // somebody has
		g.Pause(at(6))
		require.Equal(t, at(6), g.Reserve(time.Time{}))
	})
}

func TestMaxPause(t *testing.T) {
	s := settings()
	s.MaxPause = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		g, at := newGate(s)
		g.Pause(at(3600))
		require.Equal(t, 5*time.Second, g.Remaining())
		time.Sleep(4 * time.Second)
		g.Pause(at(3600))
		require.Equal(t, 5*time.Second, g.Remaining(), "each hint counts from its own time")

		g.Update(Settings{Smear: time.Second})
		require.Equal(t, 5*time.Second, g.Remaining(), "a running pause keeps its end")
		g.Pause(at(3600))
		require.Equal(t, 3596*time.Second, g.Remaining(), "0: no limit")
		g.Pause(time.Unix(1<<40, 0))
		require.Greater(t, g.Remaining(), 200*365*24*time.Hour, "no overflow")
	})
}

// A date from a header has no monotonic part.
func TestPauseUntilAWallClockTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, at := newGate(settings())
		g.Pause(at(3).UTC().Round(0))
		require.Equal(t, 3*time.Second, g.Remaining())
	})
}

func TestSmearBounds(t *testing.T) {
	s := settings()
	s.Jitter = nil
	synctest.Test(t, func(t *testing.T) {
		g, at := newGate(s)
		g.Pause(at(2))
		require.Equal(t, at(2), g.Reserve(time.Time{}))
		quarters := [4]int{}
		for range 400 {
			after := g.Reserve(time.Time{}).Sub(at(2))
			require.GreaterOrEqual(t, after, time.Duration(0))
			require.Less(t, after, time.Second)
			quarters[after/(time.Second/4)]++
		}
		for _, n := range quarters {
			require.Greater(t, n, 50, "spread evenly: %v", quarters)
		}
	})
}

func TestWithoutSmearAllGoAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, at := newGate(Settings{})
		g.Pause(at(2))
		for range 3 {
			require.Equal(t, at(2), g.Reserve(time.Time{}))
		}
	})
}

// A crowd that keeps the rules, against a provider that throttles its first
// probe: one request is wasted, not fifty.
func TestCrowd(t *testing.T) {
	s := settings()
	s.Jitter = nil
	synctest.Test(t, func(t *testing.T) {
		g, at := newGate(s)
		g.Pause(at(2))
		var mu sync.Mutex
		var sent []time.Time
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				var earliest time.Time
				for {
					for {
						wait := time.Until(g.Reserve(earliest))
						if wait <= 0 {
							break
						}
						time.Sleep(wait)
					}
					mu.Lock()
					sent = append(sent, time.Now())
					probe := len(sent) == 1
					mu.Unlock()
					if !probe {
						return
					}
					g.Pause(at(5)) // its answer: throttled again
				}
			})
		}
		wg.Wait()
		require.Len(t, sent, 51)
		require.Equal(t, at(2), sent[0])
		require.False(t, sent[1].Before(at(5)), "%s", sent[1])
		require.False(t, sent[50].After(at(6)), "%s", sent[50])
	})
}

func TestConcurrentUse(t *testing.T) {
	g := NewGate(Settings{Smear: time.Microsecond})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				g.Pause(time.Now().Add(time.Duration(i%7) * time.Microsecond))
				earliest := time.Now()
				if g.Reserve(earliest).Before(earliest) {
					t.Error("sent before its time")
				}
				g.Remaining()
				g.Update(Settings{Smear: time.Microsecond})
			}
		})
	}
	wg.Wait()
}

func TestOpenGateDoesNotAllocate(t *testing.T) {
	g := NewGate(settings())
	require.Zero(t, testing.AllocsPerRun(100, func() { g.Reserve(time.Time{}) }))
}

func BenchmarkOpenGate(b *testing.B) {
	g := NewGate(settings())
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g.Reserve(time.Time{})
		}
	})
}

func BenchmarkPausedGate(b *testing.B) {
	g := NewGate(Settings{Smear: time.Second})
	g.Pause(time.Now().Add(time.Hour))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g.Reserve(time.Time{})
		}
	})
}
