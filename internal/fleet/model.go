package main

import (
	"math"
	"slices"
	"time"
)

// The provider that all scenarios have. Times are the provider's own; the scale makes them shorter on the clock.
const (
	serviceMean  = 1500 * time.Millisecond // of an accepted call
	serviceSigma = 0.3                     // of its log-normal distribution
	refusal      = 50 * time.Millisecond   // until a 429 or a 503
	hint         = time.Second             // in a throttled answer, where the provider gives one
	backlog      = 300 * time.Second       // of work at the full quota
	startSpread  = 100 * time.Millisecond  // in which all workers begin
	filling      = 20 * time.Second        // in which a bulk tenant's documents come
	crowd        = 100                     // workers of most scenarios
)

// scale is how many times faster than the provider the clock runs.
type scale float64

// real is the time on the clock for a time of the provider.
func (s scale) real(d time.Duration) time.Duration { return time.Duration(float64(d) / float64(s)) }

// told is the time of the provider for a time on the clock.
func (s scale) told(d time.Duration) time.Duration { return time.Duration(float64(d) * float64(s)) }

// step is a change of the quota.
type step struct {
	at    time.Duration // since the beginning
	quota float64       // calls per second from then on
}

// window is an outage.
type window struct{ from, to time.Duration }

// account is what a provider allows; all of it in the provider's own time.
type account struct {
	quota   float64  // calls per second at the beginning
	burst   float64  // calls that may come at one moment; at least 1
	steps   []step   // in order of time
	outages []window // in order of time
	hints   bool     // a throttled answer says when to come back
}

// overload is the account of which the crowd wants three times as much as it gives.
func overload() account {
	quota := crowd / serviceMean.Seconds() / 3
	return account{quota: quota, burst: max(1, math.Floor(quota)), hints: true}
}

// documents is how many the account can take in d at its first quota.
func (a account) documents(d time.Duration) int { return int(a.quota * d.Seconds()) }

// capacity is how many calls the account accepts until t, outages apart and the burst left out.
func (a account) capacity(t time.Duration) float64 {
	sum, from, quota := 0.0, time.Duration(0), a.quota
	for _, s := range append(slices.Clone(a.steps), step{at: math.MaxInt64}) {
		if to := min(t, s.at); to > from {
			open := to - from
			for _, w := range a.outages {
				open -= max(0, min(to, w.to)-max(from, w.from))
			}
			sum += open.Seconds() * quota
		}
		from, quota = s.at, s.quota
	}
	return sum
}

// ideal is the shortest time in which that many workers get that many documents done: the quota's, or their own.
func (a account) ideal(documents, workers int) time.Duration {
	low, high := time.Duration(0), 24*time.Hour
	for high-low > time.Millisecond {
		if mid := (low + high) / 2; a.capacity(mid) < float64(documents) {
			low = mid
		} else {
			high = mid
		}
	}
	own := time.Duration(float64(documents) / float64(workers) * float64(serviceMean))
	for _, w := range a.outages {
		if w.from < own {
			own += w.to - w.from
		}
	}
	return max(high, own)
}

// gone reports whether the provider is out at t, and when the next outage begins (never: a time far away).
func (a account) gone(t time.Duration) (out bool, next time.Duration) {
	next = math.MaxInt64
	for _, w := range a.outages {
		if t >= w.from && t < w.to {
			return true, t
		}
		if w.from > t {
			next = min(next, w.from)
		}
	}
	return false, next
}

// quotaAt is the quota in force at t.
func (a account) quotaAt(t time.Duration) float64 {
	quota := a.quota
	for _, s := range a.steps {
		if t >= s.at {
			quota = s.quota
		}
	}
	return quota
}
