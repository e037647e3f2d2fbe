package pace

import "time"

// Pause lets nobody go until then, or until MaxPause from now if that is sooner. It extends a running pause and never shortens it. Those who wait
// and have no time until its end are told.
func (q *Queue) Pause(until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	length := until.Sub(now)
	if q.settings.MaxPause > 0 {
		length = min(length, q.settings.MaxPause)
	}
	if length <= 0 {
		return
	}
	q.pacer.Pause(length)
	q.notePause(now)
	q.pump(now)
}

// notePause tells those who wait of a pause that is new or longer.
func (q *Queue) notePause(now time.Time) {
	rate := q.pacer.Rate()
	if !rate.Pause.After(q.paused) || !rate.Pause.After(now) {
		return
	}
	q.paused, q.crowd, q.crowdSize = rate.Pause, true, 0
	q.flows.each(func(t *Turn) {
		t.paused = true
		if !t.deadline.IsZero() && q.paused.After(t.deadline) {
			q.flows.remove(t)
			q.tell(t, q.paused.Sub(now))
		}
	})
}

// Remaining returns how much of the present pause is left.
func (q *Queue) Remaining() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	rate := q.pacer.Rate()
	return max(0, time.Until(rate.Pause))
}

// smearing reports whether a crowd is being let out, or will be.
func (q *Queue) smearing() bool { return q.crowd }

// smear returns when the next of a crowd goes after a pause that no rate paces: the first right at the end, since alone it must lose nothing and
// in a crowd it finds out for all, the others at even distances. Who comes meanwhile joins the crowd, which is one until nobody waits any more:
// otherwise those who were left after a time would leave as one.
func (q *Queue) smear(now time.Time) time.Time {
	if !q.crowd || q.paused.After(now) {
		return now
	}
	if q.crowdSize == 0 {
		rate := q.pacer.Rate()
		if q.flows.count < 2 || q.settings.Smear <= 0 || rate.PerSecond(q.settings.tuning()) > 0 {
			q.crowd = false
			return now
		}
		q.crowdSize, q.smearNext = q.flows.count, now
	}
	return q.smearNext
}

// smeared notes that one of the crowd has gone. The more have come since, the sooner the next one goes, so that nobody waits much longer than Smear.
func (q *Queue) smeared(now time.Time) {
	if !q.crowd || q.crowdSize == 0 {
		return
	}
	if q.flows.count == 0 {
		q.crowd, q.crowdSize = false, 0
		return
	}
	q.crowdSize = max(q.crowdSize, q.flows.count)
	q.smearNext = q.smearNext.Add(max(q.settings.Smear/time.Duration(q.crowdSize), 1))
	if late := now.Add(-q.settings.Smear / 10); q.smearNext.Before(late) {
		q.smearNext = late // what a busy machine has missed is made up for, within reason
	}
}
