package share

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/pace"
)

const (
	// keepRate is how long a rate is known that nobody uses any more and no process remembers.
	keepRate = time.Hour
	// ahead is how far into the future slots are reserved: long enough that a trip to the server does not matter, short enough that nobody holds
	// many that he does not use after all.
	ahead = 100 * time.Millisecond
	// lead is how long before its time one asks for a slot that is further away, on average. Who has had less than the others asks sooner, by up to
	// four fifths, and a bit of chance keeps them apart.
	lead, leadChance = 50 * time.Millisecond, 10 * time.Millisecond
	// mostTook is the longest that a change is expected to take. All the slots that come in that time are reserved in advance, too, so that a
	// server that is far away, or whom many ask, does not make the rate slower.
	mostTook = 600 * time.Millisecond
	// mostSlots bounds the slots that one trip reserves, whatever the rate is: they take memory, and the next trip brings more.
	mostSlots = 2048
	// stale is how long a reserved slot can still be used after its time, by a process that was kept from it.
	stale = 250 * time.Millisecond
	// unused is after how long a slot that nobody has taken tells that there are slots to spare.
	unused = 50 * time.Millisecond
	// sparedLately is how long that counts.
	sparedLately = 500 * time.Millisecond
	// waitedLately is how long it counts for all that somebody, anywhere, waited for a slot.
	waitedLately = 2 * time.Second
	// resumedLately is the time in which all processes hear of the end of an outage: only the first of them resumes the rate.
	resumedLately = 2 * time.Second
	// mostPending bounds the changes that are on their way to the server.
	mostPending = 256
	// hadMuch is how much more than everybody a process has had that asks for one slot less at a time. Where all ask equally often, those who
	// come first each time would otherwise keep what they have.
	hadMuch = 1.1
	// shareInertia is how much of what is known of this process' share a new reservation leaves.
	shareInertia = 0.9
)

// pacing is what all processes know of the rate of one scope.
type pacing struct {
	pace.Rate
	Waited  time.Time `json:"waited,omitzero"`  // when somebody last waited for a slot
	Resumed time.Time `json:"resumed,omitzero"` // when the last outage ended
}

// change is something that a pacer wants to be true for all.
type change func(v *pacing, now time.Time, t pace.Tuning)

// Pacer gives a queue its slots at a rate that all processes of the account share. It reserves some ahead of their time, in a goroutine of its
// own, and does without the server while that is away: at its part of the rate.
type Pacer struct {
	account *Account
	cell    *Cell[pacing]
	wake    func()
	stirred chan struct{}

	mu      sync.Mutex
	tuning  pace.Tuning
	alone   bool
	rate    pace.Rate // alone its own, else a copy of what is shared; in this process' clock
	known   pacing    // what was shared when it was last seen, in the server's clock
	slots   []pace.Slot
	wanted  bool      // somebody waits for a slot
	more    bool      // and others behind him
	spared  time.Time // when slots were last left over: then it is not the rate that is waited for
	pending []change
	took    time.Duration // what a change takes, smoothed
	share   float64       // of the slots given out while this process waited, those that it got
	last    uint64        // the last slot that was given out when this process last got some; 0: nobody has waited since
}

// Pacer returns one for a scope of the account. When there are new slots, or other news, wake is called, never from within the pacer's methods.
func (a *Account) Pacer(scope string, t pace.Tuning, wake func()) *Pacer {
	p := &Pacer{account: a, cell: NewCell[pacing](a, "rate:"+scope, keepRate), wake: wake, stirred: make(chan struct{}, 1), tuning: t, alone: true, share: 1}
	a.store.done.Go(p.run)
	return p
}

// Take implements pace.Pacer.
func (p *Pacer) Take(now time.Time, cost int, more bool) (slot uint64, at time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alone {
		t := p.part()
		if at := p.rate.Next(now, t); at.After(now) {
			return 0, at, false
		}
		return p.rate.Take(now, cost, more, t), time.Time{}, true
	}
	if p.rate.Pause.After(now) {
		return 0, p.rate.Pause, false
	}
	if p.rate.PerSecond(p.tuning) == 0 {
		return p.rate.Taken, time.Time{}, true
	}
	if len(p.slots) > 0 && now.Sub(p.slots[0].At) > unused {
		p.spared = now
	}
	for len(p.slots) > 0 && now.Sub(p.slots[0].At) > stale {
		p.slots = p.slots[1:]
	}
	if len(p.slots) == 0 {
		p.more = more
		if !p.wanted {
			p.wanted = true
			stir(p.stirred)
		}
		return 0, time.Time{}, false
	}
	first := p.slots[0]
	if last := p.slots[len(p.slots)-1].At; more && !p.wanted && last.Sub(now) < p.took {
		p.more, p.wanted = true, true // the next ones take as long as these last
		stir(p.stirred)
	}
	if first.At.After(now) {
		return 0, first.At, false
	}
	p.slots = p.slots[1:]
	if cost > 1 {
		p.propose(func(v *pacing, now time.Time, t pace.Tuning) { v.Take(now, cost-1, more, t) })
	}
	return first.Number, time.Time{}, true
}

// GiveBack implements pace.Pacer.
func (p *Pacer) GiveBack(slot uint64, cost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.alone:
		p.rate.GiveBack(cost)
	case p.rate.PerSecond(p.tuning) > 0:
		p.slots = append([]pace.Slot{{At: time.Now(), Number: slot}}, p.slots...)
		if cost > 1 {
			p.propose(func(v *pacing, _ time.Time, _ pace.Tuning) { v.GiveBack(cost - 1) })
		}
	}
}

// Rate implements pace.Pacer. What is told is the part of the rate that this process gets.
func (p *Pacer) Rate() pace.Rate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alone {
		return p.rate
	}
	return scaled(p.rate, max(p.share, 1/float64(p.account.Peers())))
}

// Throttled implements pace.Pacer.
func (p *Pacer) Throttled(e pace.Evidence) {
	p.do(func(v *pacing, now time.Time, t pace.Tuning) { v.Throttled(now, e, t) }, &e.Accepted)
}

// Pause implements pace.Pacer.
func (p *Pacer) Pause(length time.Duration) {
	p.do(func(v *pacing, now time.Time, _ pace.Tuning) { v.PauseUntil(now.Add(length)) }, nil)
}

// Resume implements pace.Pacer. Of all the processes that hear of the end of an outage the first one resumes the rate.
func (p *Pacer) Resume(accepted float64) {
	p.do(func(v *pacing, now time.Time, t pace.Tuning) {
		if now.Sub(v.Resumed) < resumedLately {
			return
		}
		v.Resumed = now
		v.Resume(now, accepted, t)
	}, &accepted)
}

// Tune implements pace.Pacer.
func (p *Pacer) Tune(t pace.Tuning) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tuning = t
}

// do makes a change in this process at once, and soon for all. What this process has seen accepted is its part of what all have.
func (p *Pacer) do(c change, accepted *float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, now := p.tuning, time.Now()
	if p.alone {
		t = p.part()
	} else if accepted != nil {
		*accepted *= float64(p.account.Peers())
	}
	local := pacing{Rate: p.rate}
	if !p.alone {
		local.Resumed = here(p.known.Resumed, p.offset())
	}
	c(&local, now, t)
	p.rate = local.Rate
	p.dropPaused()
	if !p.alone {
		p.propose(c)
	}
}

// propose notes a change for all; mu is held. Beyond the bound it is lost: as many are of the same kind, and one is enough.
func (p *Pacer) propose(c change) {
	if len(p.pending) < mostPending {
		p.pending = append(p.pending, c)
	}
	stir(p.stirred)
}

// dropPaused forgets the slots that come before the end of a pause; mu is held.
func (p *Pacer) dropPaused() {
	for len(p.slots) > 0 && p.slots[0].At.Before(p.rate.Pause) {
		p.slots = p.slots[1:]
	}
}

// part is the tuning of this process while it is alone: its part of what all may do; mu is held.
func (p *Pacer) part() pace.Tuning {
	t, n := p.tuning, float64(p.account.Peers())
	t.Rate /= n
	t.StartRate /= n
	t.Burst = int(float64(t.Burst) / n)
	return t
}

// scaled is a part of a rate.
func scaled(r pace.Rate, part float64) pace.Rate {
	r.Limit *= part
	r.Top *= part
	r.Low *= part
	r.Goal *= part
	return r
}

// offset is by how much this process' clock is later than the server's.
func (p *Pacer) offset() time.Duration {
	now, ok := p.account.store.Now()
	if !ok {
		return 0
	}
	return time.Since(now)
}

// here is a time of the server in this process' clock; the zero time stays what it is.
func here(t time.Time, offset time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(offset)
}

// run brings slots and changes, until the store is closed.
func (p *Pacer) run() {
	s := p.account.store
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer func() {
		p.mu.Lock()
		p.goAlone()
		p.mu.Unlock()
		p.wake()
	}()
	for {
		select {
		case <-s.ending.Done():
			return
		case <-p.stirred:
		case <-p.cell.Stirred():
		case <-timer.C:
		}
		if again := p.step(); again > 0 {
			timer.Reset(again)
		}
	}
}

// step makes one trip to the server where there is reason for it, and returns when the next one is due; 0: when there is news.
func (p *Pacer) step() (again time.Duration) {
	shared, known := p.cell.Get()
	if !known || !p.account.store.health.usable.Load() {
		return p.without()
	}
	p.mu.Lock()
	if lost := shared == (pacing{}) && p.known != (pacing{}); !p.alone && len(p.pending) == 0 && !p.wanted && !lost {
		changed := p.adopt(shared)
		p.mu.Unlock()
		if changed {
			p.wake()
		}
		return 0
	}
	pending, wanted, more, t, last, horizon := p.pending, p.wanted, p.more, p.tuning, p.known, ahead+2*p.took
	spare := time.Since(p.spared) < sparedLately
	greedy := p.last > 0 && p.had() > hadMuch
	p.pending = nil
	p.mu.Unlock()

	var slots []pace.Slot
	var next time.Time
	began := time.Now()
	after, now, err := p.cell.Change(p.account.store.ending, func(v pacing, now time.Time) (pacing, bool) {
		worth := len(pending) > 0
		if v == (pacing{}) && last != (pacing{}) {
			v, worth = last, true // it has been lost
		}
		for _, c := range pending {
			c(&v, now, t)
		}
		slots, next = nil, time.Time{}
		if limit := v.PerSecond(t); wanted && limit > 0 {
			most := 1
			if more {
				v.Waited = now
				most = min(mostSlots, int(limit*horizon.Seconds()/float64(p.account.Peers())))
				if !greedy || most == 0 {
					most++
				}
			}
			// A process that had slots to spare waits for this trip and not for the rate, which must not grow for that: nothing would end it. The limit
			// of a restart goes when nobody waits; whether the others do it cannot know.
			byRate := now.Sub(v.Waited) < waitedLately && (!spare || v.Loose && p.account.Peers() > 1)
			slots = v.Reserve(now, now.Add(horizon), most, byRate, t)
			next = v.Next(now, t)
		}
		return v, worth || len(slots) > 0
	})
	if err != nil {
		p.mu.Lock()
		p.pending = append(pending, p.pending...)
		p.mu.Unlock()
		if errors.Is(err, ErrAway) {
			return p.without()
		}
		return time.Millisecond // a crowd was faster
	}
	p.mu.Lock()
	p.took = (3*p.took + min(mostTook, time.Since(began))) / 4
	news := p.alone || len(slots) > 0
	if p.alone {
		p.alone, p.share, p.last = false, 1/float64(p.account.Peers()), 0
	}
	news = p.adopt(after) || news
	offset := time.Since(now)
	for _, s := range slots {
		p.slots = append(p.slots, pace.Slot{At: s.At.Add(offset), Number: s.Number})
	}
	if len(slots) > 0 {
		p.measure(len(slots), after.Taken, more)
	}
	if wanted {
		p.wanted = len(slots) == 0 && p.rate.PerSecond(p.tuning) > 0
	}
	if wanted && p.wanted {
		again = max(time.Millisecond, next.Sub(now)-p.lead())
	}
	p.mu.Unlock()
	if news {
		p.wake()
	}
	return again
}

// lead is how long before the time of the next slot this process asks for it; mu is held.
func (p *Pacer) lead() time.Duration {
	had := min(1.8, max(0.2, p.share*float64(p.account.Peers())))             // 1: as much as everybody
	return p.took + time.Duration(float64(lead)*(2-had)) + rand.N(leadChance) //nolint:gosec // chance is enough
}

// had is how much of the slots this process gets, of which 1 is as much as everybody; mu is held.
func (p *Pacer) had() float64 { return p.share * float64(p.account.Peers()) }

// measure learns which part of all slots this process gets while it waits for them, of which it has got some more; mu is held.
func (p *Pacer) measure(got int, taken uint64, more bool) {
	if p.last > 0 && taken > p.last {
		p.share = shareInertia*p.share + (1-shareInertia)*min(1, float64(got)/float64(taken-p.last))
	}
	p.last = taken
	if !more {
		p.last = 0 // nobody waits now: what others get meanwhile is no part of it
	}
}

// adopt takes over what is shared, and reports whether there is something in it that the queue must know; mu is held.
func (p *Pacer) adopt(shared pacing) (news bool) {
	rate := shared.Shift(p.offset())
	news = (rate.PerSecond(p.tuning) > 0) != (p.rate.PerSecond(p.tuning) > 0) || !shared.Pause.Equal(p.known.Pause)
	p.known, p.rate = shared, rate
	p.dropPaused()
	return news
}

// without goes on without the server, and looks again soon.
func (p *Pacer) without() (again time.Duration) {
	p.mu.Lock()
	news := p.goAlone()
	p.mu.Unlock()
	if news {
		p.wake()
	}
	return refreshEvery
}

// goAlone begins to use a part of the rate, if the pacer does not do so already; mu is held.
func (p *Pacer) goAlone() (news bool) {
	if p.alone {
		return false
	}
	p.alone, p.rate = true, scaled(p.rate, 1/float64(p.account.Peers()))
	p.slots, p.pending, p.wanted = nil, nil, false
	return true
}
