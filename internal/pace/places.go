package pace

import "time"

// Places are the permits of an account that several processes use: each open job has one, and each call that may start a job. The permits call
// it under their lock, so nothing here may wait for a network.
type Places interface {
	// Open is how many are taken in all processes; false: the others cannot be reached.
	Open() (n int, together bool)
	// Ready reports whether a place is kept for this process. If none is, one is asked for under that limit, and the permits are to be woken
	// when there is one; full tells that there was none when that was last asked.
	Ready(limit int) (ok, full bool)
	// Take takes the place that is ready for a call; false: it is no longer.
	Take() bool
	// Return gives back the places beyond those of so many calls that are under way: that of one that has ended, unless its job has it.
	Return(calls int)
	// Started gives a place to a job, that of a call where one has been taken, until it ends or is taken to have.
	Started(id string, ends time.Time)
	// Ended gives back the place of a job of any process.
	Ended(id string)
}

// Job is an open job.
type Job struct {
	ID   string
	Ends time.Time // when it is taken to be over
}

// Share has the permits counted together with those of other processes. It is called before the first request with what is to be called when
// there may be a place, never from within a method of the places. The jobs that are known are told to the places.
func (p *Permits) Share(places func(wake func(), jobs func() []Job) Places) {
	shared := places(p.tell, p.Jobs)
	p.mu.Lock()
	p.places = shared
	p.mu.Unlock()
}

// Jobs are the open jobs of this process.
func (p *Permits) Jobs() []Job {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(time.Now())
	jobs := make([]Job, 0, len(p.open))
	for id, ends := range p.open {
		jobs = append(jobs, Job{id, ends})
	}
	return jobs
}

// together reports whether the others are counted, too; mu is held.
func (p *Permits) together() bool {
	if p.places == nil {
		return false
	}
	_, together := p.places.Open()
	return together
}

// known is how many jobs are known to be open, of other processes, too; mu is held.
func (p *Permits) known() int {
	if p.places != nil {
		if n, together := p.places.Open(); together {
			return max(n-p.starting, len(p.open))
		}
	}
	return len(p.open)
}

// lookTogether is look where other processes use the account, too; mu is held.
func (p *Permits) lookTogether(now time.Time, limit int) (ok bool, at time.Time) {
	if limit == 0 {
		return true, time.Time{}
	}
	ok, full := p.places.Ready(limit)
	if ok || !full || limit != p.learned {
		return ok, time.Time{}
	}
	// The limit was learned and may have been raised: one more is tried.
	grows := p.changed.Add(p.recovery)
	if grows.After(now) {
		return false, grows
	}
	p.learned++
	p.changed = now
	ok, _ = p.places.Ready(p.learned)
	return ok, time.Time{}
}
