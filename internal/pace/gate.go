// Package pace decides when requests may go to a provider that can take only
// so many. A Gate holds everyone who shares a limit after the provider said
// that it was too much.
package pace

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Settings says how a gate holds and lets out.
type Settings struct {
	// MaxPause is the longest pause that one hint may cause, measured from the
	// moment it is given; 0 sets no limit.
	MaxPause time.Duration
	// Smear is the time after a pause over which the crowd is let out; 0 lets
	// it out at once.
	Smear time.Duration
	// Jitter draws uniformly from [0, ceiling), and is only called with a
	// positive ceiling, possibly by several goroutines. Nil uses math/rand/v2.
	Jitter func(ceiling time.Duration) time.Duration
}

func (s *Settings) extra() time.Duration {
	switch {
	case s.Smear <= 0:
		return 0
	case s.Jitter != nil:
		return s.Jitter(s.Smear)
	}
	return rand.N(s.Smear) //nolint:gosec // spreading a crowd needs no secrecy
}

// Gate is shared by all requests under one limit, usually one operation of one
// account. It only tells times: the sleeping is the caller's. Make one with
// NewGate; all methods may be called concurrently.
type Gate struct {
	began time.Time    // ends are measured from here, on the monotonic clock
	end   atomic.Int64 // nanoseconds after began; 0 while nobody needs to look closer

	mu       sync.Mutex
	settings Settings
	led      bool // somebody reserved the end of this pause for himself
}

// NewGate returns an open gate.
func NewGate(s Settings) *Gate {
	return &Gate{began: time.Now(), settings: s}
}

// Pause closes the gate until then, or until MaxPause from now if that is
// sooner. It extends a running pause and never shortens it. A time in the past
// does nothing.
func (g *Gate) Pause(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	length := time.Until(until)
	if g.settings.MaxPause > 0 {
		length = min(length, g.settings.MaxPause)
	}
	if length <= 0 {
		return
	}
	now := time.Since(g.began)
	running := time.Duration(g.end.Load())
	if running <= now {
		g.led = false
	}
	end := now + min(length, math.MaxInt64-now)
	g.end.Store(int64(max(running, end)))
}

// Reserve returns when a caller may go who must not go before earliest for
// reasons of its own (zero: it has none). While the gate is open that is
// earliest itself. In a pause, the first to reserve goes right at its end, or
// at its own time if that is later: alone it loses nothing, and in a crowd it
// is the probe for the rest. Each further one goes a random part of Smear
// after the end.
//
// A caller that has slept until its time must reserve again, because the gate
// may have been closed anew meanwhile.
func (g *Gate) Reserve(earliest time.Time) time.Time {
	if g.end.Load() == 0 {
		return earliest
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	end := time.Duration(g.end.Load())
	if end <= time.Since(g.began) {
		g.end.Store(0)
		return earliest
	}
	opening := g.began.Add(end)
	if earliest.After(opening.Add(g.settings.Smear)) {
		return earliest // long after the crowd: neither part of it nor its probe
	}
	if g.led {
		opening = opening.Add(g.settings.extra())
	}
	g.led = true
	if earliest.After(opening) {
		return earliest
	}
	return opening
}

// Remaining returns how much of the present pause is left, 0 while the gate is
// open.
func (g *Gate) Remaining() time.Duration {
	end := time.Duration(g.end.Load())
	if end == 0 {
		return 0
	}
	return max(0, end-time.Since(g.began))
}

// Update replaces the settings. A running pause keeps its end.
func (g *Gate) Update(s Settings) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settings = s
}
