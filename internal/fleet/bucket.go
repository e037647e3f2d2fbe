package main

import "time"

// bucket is a strict quota: tokens that trickle in at a rate, up to a burst. The zero time is when it was full.
type bucket struct {
	burst, tokens float64
	last          time.Duration
}

func newBucket(burst float64) bucket { return bucket{burst: burst, tokens: burst} }

// take takes a token at that time, which is not before the last one's, where one is there.
func (b *bucket) take(at time.Duration, rate float64) bool {
	b.tokens = min(b.burst, b.tokens+(at-b.last).Seconds()*rate)
	b.last = at
	const whole = 1 - 1e-9
	if b.tokens < whole {
		return false
	}
	b.tokens--
	return true
}
