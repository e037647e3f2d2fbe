package share

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ocr-proxy/ocr-proxy/internal/pace"
)

const (
	// placeLease is how long the place of a call is kept for a process that says nothing of it any more, placeRenewal how often it does.
	placeLease, placeRenewal = 30 * time.Second, 10 * time.Second
	// placeUnused is how long a place is kept ready that nobody takes.
	placeUnused = time.Second
	// mostTold is how many places are told in one trip, mostEnded how many that have ended are remembered for when the server is back.
	mostTold, mostEnded = 500, 10_000
)

// places changes the places of an account, each of which is known until a time, in milliseconds of the server's clock. One more is added if
// there are fewer than the limit. Returned are how many there are, whether one was added, and the server's memory: a name that it has until it
// forgets, or is told to. What is no list of places is not one that anybody here has made.
//
//nolint:gochecknoglobals // a constant in all but name
var places = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local memory = redis.call('TYPE', KEYS[2]).ok == 'string' and redis.call('GET', KEYS[2])
if not memory then
  memory = time[1] .. '.' .. time[2]
  redis.call('SET', KEYS[2], memory)
end
redis.call('PEXPIRE', KEYS[2], 3600000)
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then
  redis.call('DEL', KEYS[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local at = 5
for _ = 1, tonumber(ARGV[4]) do
  redis.call('ZADD', KEYS[1], now + ARGV[at + 1], ARGV[at])
  at = at + 2
end
for i = at, #ARGV do
  redis.call('ZREM', KEYS[1], ARGV[i])
end
local added = 0
if ARGV[1] ~= '' and redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
  added = 1
end
local n = redis.call('ZCARD', KEYS[1])
if n > 100000 then
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, n - 100001)
end
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
if last[2] then
  redis.call('PEXPIRE', KEYS[1], math.max(1, last[2] - now))
end
return {n, added, memory}
`)

// Places are the permits for jobs that all processes of the account share. It implements pace.Places.
type Places struct {
	account *Account
	key     string
	wake    func()
	jobs    func() []pace.Job
	stirred chan struct{}

	mu      sync.Mutex
	listed  bool   // all that is open here is in added, or has been told
	known   bool   // the others have been heard of, and have heard of all that is open here
	memory  string // of the server, when it was last told anything
	n       int    // taken in all processes
	limit   int    // under which a place is wanted; 0: none is
	full    bool   // there was none
	free    []place
	busy    []string             // of calls
	added   map[string]time.Time // until when; not told yet
	removed []string             // not told yet
	renewed time.Time
}

// place is one that nobody has taken yet.
type place struct {
	name  string
	since time.Time
}

// Places returns the account's. When one is ready that was asked for, wake is called, never from within a method of the places. All open jobs
// of this process are asked for when the server has to be told of them anew.
func (a *Account) Places(wake func(), jobs func() []pace.Job) *Places {
	p := &Places{account: a, key: a.key + "jobs", wake: wake, jobs: jobs, stirred: make(chan struct{}, 1), added: make(map[string]time.Time)}
	a.store.done.Go(p.run)
	return p
}

// Open implements pace.Places.
func (p *Places) Open() (n int, together bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n, p.known
}

// Ready implements pace.Places.
func (p *Places) Ready(limit int) (ok, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) > 0 {
		return true, false
	}
	if p.limit != limit {
		p.limit, p.full = limit, false
		stir(p.stirred)
	}
	return false, p.full
}

// Take implements pace.Places.
func (p *Places) Take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return false
	}
	p.busy = append(p.busy, p.free[0].name)
	p.free = p.free[1:]
	return true
}

// Return implements pace.Places.
func (p *Places) Return(calls int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := len(p.busy); n > calls; n-- {
		p.free = append(p.free, place{p.busy[n-1], time.Now()})
		p.busy = p.busy[:n-1]
	}
}

// Started implements pace.Places.
func (p *Places) Started(id string, ends time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.added[jobName(id)] = ends
	if n := len(p.busy); n > 0 {
		p.removed = append(p.removed, p.busy[n-1])
		p.busy = p.busy[:n-1]
	}
	stir(p.stirred)
}

// Ended implements pace.Places.
func (p *Places) Ended(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := jobName(id)
	delete(p.added, name)
	if len(p.removed) < mostEnded {
		p.removed = append(p.removed, name)
	}
	stir(p.stirred)
}

// jobName is a job's name among the places: short, and nothing that the provider has given out.
func jobName(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "j" + hex.EncodeToString(sum[:10])
}

// run tells the others and asks for places, until the store is closed.
func (p *Places) run() {
	s := p.account.store
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		if p.step() {
			p.wake()
		}
		select {
		case <-s.ending.Done():
			p.mu.Lock()
			p.known = false
			p.mu.Unlock()
			p.wake()
			return
		case <-p.stirred:
		case <-tick.C:
		}
	}
}

// step makes one trip, and reports whether there is news.
func (p *Places) step() (news bool) {
	s := p.account.store
	if !s.health.usable.Load() {
		return p.lose()
	}
	p.mu.Lock()
	anew := !p.listed
	p.mu.Unlock()
	var jobs []pace.Job
	if anew {
		jobs = p.jobs() // it takes the lock of the permits, who hold it when they call here
	}
	p.mu.Lock()
	for _, j := range jobs {
		p.added[jobName(j.ID)] = j.Ends
	}
	added, removed, wanted, limit := p.news()
	p.mu.Unlock()

	args := []any{wanted, limit, placeLease.Milliseconds(), len(added) / 2}
	args = append(append(args, added...), removed...)
	answer, err := places.Run(s.ending, s.client, []string{p.key, p.key + ":memory"}, args...).Slice()
	if err != nil || len(answer) != 3 {
		s.health.failed(s.ending)
		return p.lose()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	memory, _ := answer[2].(string)
	p.listed = anew || memory == p.memory
	if !p.listed {
		// The server has forgotten what it was told before, those of the calls under way, too.
		p.renewed = time.Time{}
		stir(p.stirred)
	}
	p.memory = memory
	if !p.known && len(p.added) == 0 {
		p.known, news = true, true
	}
	p.n = int(number(answer[0]))
	if wanted != "" {
		p.full = number(answer[1]) == 0
		news = true
		if !p.full {
			p.free = append(p.free, place{wanted, time.Now()})
			p.limit = 0
		}
	}
	if len(p.added) > 0 || len(p.removed) > 0 {
		stir(p.stirred)
	}
	return news
}

// news is what is told next, and the name of a place that is wanted, "" for none; mu is held. What is lost with the trip is told again: all
// that is open is, when the server is back.
func (p *Places) news() (added, removed []any, wanted string, limit int) {
	now := time.Now()
	p.free = slices.DeleteFunc(p.free, func(f place) bool {
		unused := now.Sub(f.since) > placeUnused
		if unused {
			p.removed = append(p.removed, f.name)
		}
		return unused
	})
	if now.Sub(p.renewed) > placeRenewal {
		p.renewed = now
		for _, name := range p.busy {
			p.added[name] = now.Add(placeLease)
		}
	}
	for name, ends := range p.added {
		if len(added) >= 2*mostTold {
			break
		}
		delete(p.added, name)
		if left := ends.Sub(now).Milliseconds(); left > 0 {
			added = append(added, name, left)
		}
	}
	n := min(mostTold, len(p.removed))
	for _, name := range p.removed[:n] {
		removed = append(removed, name)
	}
	p.removed = p.removed[n:]
	if p.limit > 0 && len(p.free) == 0 {
		wanted, limit = "c"+rand.Text(), p.limit
	}
	return added, removed, wanted, limit
}

// lose goes on without the others.
func (p *Places) lose() (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	news = p.known
	p.listed, p.known, p.full, p.limit = false, false, false, 0
	p.free, p.renewed = nil, time.Time{} // the places of calls under way are told anew
	clear(p.added)
	return news
}
