package main

import (
	"slices"
	"time"
)

// share is a part of a whole; of nothing it is 0.
func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// late is the makespan as a multiple of the ideal.
func (r *result) late() float64 { return float64(r.makespan) / float64(r.ideal) }

// goodput is the answered documents per second, relative to the ideal.
func (r *result) goodput() float64 {
	return share(len(r.backlog.answered), r.trial.documents) / r.late()
}

// sent is how many documents there were, those of a stream included.
func (r *result) sent() int {
	return r.trial.documents + len(r.stream.answered) + r.stream.dead + r.stream.late + len(r.stream.faults)
}

func (r *result) callsPerDocument() float64 { return share(len(r.counts.calls), r.sent()) }
func (r *result) throttled() float64        { return share(r.counts.throttled, len(r.counts.calls)) }
func (r *result) failed() float64           { return share(r.counts.failed, len(r.counts.calls)) }
func (r *result) dead() float64             { return share(r.backlog.dead, r.trial.documents) }

// latency is the quantile of the answered documents of the backlog, in the provider's time.
func (r *result) latency(q float64) time.Duration { return r.told(quantile(r.backlog.answered, q)) }

// streamLatency is the same of the stream.
func (r *result) streamLatency(q float64) time.Duration {
	return r.told(quantile(r.stream.answered, q))
}

func (r *result) told(d time.Duration) time.Duration {
	if d < 0 {
		return d
	}
	return r.scale.told(d)
}

// recovery is when the first outage ended, and when after that the first call was accepted and the first one answered: -1 when none was.
func (r *result) recovery() (end, accepted, answered time.Duration) {
	end = r.trial.account.outages[0].to
	next := func(sorted []time.Duration) time.Duration {
		i, _ := slices.BinarySearch(sorted, end)
		if i == len(sorted) {
			return -1
		}
		return sorted[i]
	}
	return end, next(r.counts.accepted), next(r.counts.answers)
}

// rush is the calls in the first second after the recovery, as a multiple of the quota: after the end of the outage, after the first call that
// was accepted or after the first that was answered, whichever saw most.
func (r *result) rush() float64 {
	end, accepted, answered := r.recovery()
	calls := 0
	for _, from := range []time.Duration{end, accepted, answered} {
		if from >= 0 {
			calls = max(calls, within(r.counts.calls, from, from+time.Second))
		}
	}
	return float64(calls) / r.trial.account.quota
}

// peak is the calls in the busiest second of the ten after the outage, as a multiple of the quota.
func (r *result) peak() float64 {
	end, _, _ := r.recovery()
	return float64(busiest(r.counts.calls, end, end+10*time.Second)) / r.trial.account.quota
}

// luck is what the least served proxy got of what the most served one got.
func (r *result) luck() float64 {
	return share(slices.Min(r.backlog.perTarget), slices.Max(r.backlog.perTarget))
}
