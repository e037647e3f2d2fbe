package breaker

import "time"

// Settings says when a breaker opens and how it recovers. It does not check
// its values; whoever reads the configuration does.
type Settings struct {
	// FailureThreshold is how many consecutive failures open the breaker;
	// 0 turns consecutive counting off. Unused when FailureRatio is set.
	FailureThreshold int
	// FailureRatio above 0 (at most 1) replaces consecutive counting: the
	// share of failures among all results for health in Window.
	FailureRatio float64
	// MinRequests is the fewest results in Window on which a ratio is judged.
	MinRequests int
	// Window is the sliding time over which the ratios are taken. It must be
	// positive where a ratio is set.
	Window time.Duration
	// ResetTimeout is how long the breaker stays open before it lets a probe
	// pass; 0 lets one pass at once.
	ResetTimeout time.Duration
	// HalfOpenProbes is how many probes may be under way at one time; below 1
	// counts as 1.
	HalfOpenProbes int
	// FatalRatio above 0 (at most 1) opens the breaker, too, when the share of
	// Permanent results in Window reaches it; 0 turns this off.
	FatalRatio float64
	// AuthThreshold is how many consecutive Refused results open the breaker;
	// 0 turns this off.
	AuthThreshold int
	// ProbeLease is how long a probe may stay away before its place is given
	// to another; it should exceed the longest attempt. 0 means for ever.
	ProbeLease time.Duration
	// EagerProbe is how soon after opening a waiting request may probe, if
	// that is sooner than ResetTimeout; 0 gives waiting requests no advantage.
	EagerProbe time.Duration
}

func (s *Settings) windowed() bool { return s.FailureRatio > 0 || s.FatalRatio > 0 }

func (s *Settings) places() int { return max(1, s.HalfOpenProbes) }

func (s *Settings) probeAfter(waiting bool) time.Duration {
	if waiting && s.EagerProbe > 0 {
		return min(s.ResetTimeout, s.EagerProbe)
	}
	return s.ResetTimeout
}

// share is how many failures one request may add, so that a single document
// which the service cannot digest never opens the breaker by its retries alone.
func (s *Settings) share() int {
	needed := s.FailureThreshold
	if s.FailureRatio > 0 {
		needed = s.MinRequests
	}
	return max(1, needed-1)
}
