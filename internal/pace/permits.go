package pace

import (
	"sync"
	"time"
)

// maxJobs bounds the open jobs that are known by name; the oldest are forgotten beyond it.
const maxJobs = 100_000

// Permits bound the jobs that an account has open at its provider. A call that starts a job holds a permit until it is known what became of it,
// and an open job holds its own. All methods may be called concurrently.
type Permits struct {
	lease, recovery time.Duration

	mu       sync.Mutex
	limit    int // from the configuration; 0: none
	learned  int // from refusals; 0: none
	changed  time.Time
	starting int // calls that may start a job
	open     map[string]time.Time
	order    []job // by the end of their leases; those that have ended are passed over
	queues   []*Queue
	places   Places // nil: nobody else uses the account
}

type job struct {
	id   string
	ends time.Time
}

// NewPermits allows that many open jobs; 0: any number, until the provider says that it was too many. A limit that was learned like that is tried
// again by one more after recovery. A job that nobody hears of again is taken to be over after lease.
func NewPermits(limit int, lease, recovery time.Duration) *Permits {
	return &Permits{limit: limit, lease: lease, recovery: recovery, open: make(map[string]time.Time)}
}

// Started counts a job that the provider has accepted. To name one again changes nothing. It is called before the turn of the call that started
// it is Done.
func (p *Permits) Started(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.open[id]; ok {
		return
	}
	now := time.Now()
	p.expire(now)
	if len(p.open) >= maxJobs {
		p.drop()
	}
	ends := now.Add(p.lease)
	p.open[id] = ends
	p.order = append(p.order, job{id, ends})
	if p.places != nil {
		p.places.Started(id, ends)
	}
}

// Ended gives back the place of a job, if it has one.
func (p *Permits) Ended(id string) {
	p.mu.Lock()
	_, ok := p.open[id]
	delete(p.open, id)
	p.trim()
	if p.places != nil {
		p.places.Ended(id)
	}
	p.mu.Unlock()
	if ok {
		p.tell()
	}
}

// Holds reports whether a job may hold a permit: one of this process does, or others share the permits and may have started it.
func (p *Permits) Holds(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.open[id]
	return ok || p.places != nil
}

// Refused is told, before the turn of the refused call is Done, when the provider says that too many jobs are open. What it takes is as many as are known or being
// started, but for that call: of a crowd of starts those that are refused say so one by one, and what is left are those that it takes.
func (p *Permits) Refused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.expire(now)
	p.learned, p.changed = max(1, p.known()+max(p.starting-1, 0)), now
}

// Open is the number of jobs that are taken to be open, in all processes where those can be reached, and the limit, 0 for none.
func (p *Permits) Open() (open, limit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(time.Now())
	return p.known(), p.bound()
}

// Update replaces the configured limit and the time after which a limit that was learned grows. What was learned stays.
func (p *Permits) Update(limit int, recovery time.Duration) {
	p.mu.Lock()
	p.limit, p.recovery = limit, recovery
	p.mu.Unlock()
	p.tell()
}

func (p *Permits) bound() int {
	if p.learned > 0 && (p.limit <= 0 || p.learned < p.limit) {
		return p.learned
	}
	return max(p.limit, 0)
}

// free reports whether there is a permit, and when there may be one without anybody saying so; zero: never.
func (p *Permits) free(now time.Time) (ok bool, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.look(now)
}

func (p *Permits) look(now time.Time) (ok bool, at time.Time) {
	p.expire(now)
	limit := p.bound()
	if p.together() {
		return p.lookTogether(now, limit)
	}
	used := p.starting + len(p.open)
	if limit == 0 || used < limit {
		return true, time.Time{}
	}
	if len(p.order) > 0 {
		at = p.order[0].ends
	}
	if limit != p.learned {
		return false, at
	}
	// The limit was learned and may have been raised: one more is tried.
	grows := p.changed.Add(p.recovery)
	if used == limit && !grows.After(now) {
		p.learned++
		p.changed = now
		return true, time.Time{}
	}
	if grows.After(now) && (at.IsZero() || grows.Before(at)) {
		at = grows
	}
	return false, at
}

// take takes a permit for a call that may start a job.
func (p *Permits) take(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	ok, _ := p.look(now)
	if ok && p.together() && p.bound() > 0 {
		ok = p.places.Take()
	}
	if ok {
		p.starting++
	}
	return ok
}

// giveBack ends what take began. It does not tell the queues, whose locks the caller may hold.
func (p *Permits) giveBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	if p.places != nil {
		p.places.Return(p.starting)
	}
}

// tell wakes the queues of the account because a permit may be free.
func (p *Permits) tell() {
	p.mu.Lock()
	queues := p.queues
	p.mu.Unlock()
	for _, q := range queues {
		q.wake()
	}
}

// expire ends the jobs whose leases are over.
func (p *Permits) expire(now time.Time) {
	for len(p.order) > 0 && !p.order[0].ends.After(now) {
		p.drop()
	}
}

// drop forgets the oldest job.
func (p *Permits) drop() {
	if first := p.order[0]; p.open[first.id].Equal(first.ends) {
		delete(p.open, first.id)
	}
	p.order = p.order[1:]
	p.trim()
}

// trim passes over jobs that have ended, so that the first in order is open and the order is not much longer than what is open.
func (p *Permits) trim() {
	for len(p.order) > 0 && !p.is(p.order[0]) {
		p.order = p.order[1:]
	}
	if len(p.order) > 2*len(p.open)+16 {
		kept := make([]job, 0, len(p.open))
		for _, j := range p.order {
			if p.is(j) {
				kept = append(kept, j)
			}
		}
		p.order = kept
	}
}

func (p *Permits) is(j job) bool {
	ends, ok := p.open[j.id]
	return ok && ends.Equal(j.ends)
}
