package breaker

import "time"

// fleet is what a breaker knows that acts together with those of other processes; the breaker's mutex guards it.
type fleet struct {
	me    string
	stir  func()
	alone bool // the others cannot be reached

	turn  uint64    // of the outage heard of last
	news  news      // not told yet
	event uint64    // raised by what has to be told
	grant time.Time // until when this process may begin probes; zero: it may not

	asked, askedWaiting time.Time // when somebody last wanted to pass, and one that holds
}

// Join lets the breaker act together with those of other processes, under a name that no other has. When one opens, all open; when a probe
// succeeds, all close; and only the process that has been granted it probes. The breaker does nothing about that by itself: somebody has to
// carry what Tell returns to the others, and to bring what they know back with Hear. Until the first Hear, and after Alone, the breaker acts by
// itself.
//
// The function stir is called when there is something to tell. The breaker's lock is held then: it may only wake somebody.
func (b *Breaker) Join(me string, stir func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fleet = &fleet{me: me, stir: stir, alone: true}
}

// Tell returns what the others have to know. The breaker must have joined.
func (b *Breaker) Tell() Told {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, f := time.Now(), b.fleet
	t := Told{me: f.me, turn: f.turn, event: f.event, news: f.news, state: b.state}
	if b.state == Closed {
		return t
	}
	t.reason, t.since, t.reopened = b.reason, now.Sub(b.since), now.Sub(b.reopened)
	t.probing = b.taken(now) > 0
	t.asked = now.Sub(f.asked) < askedLately
	t.due = t.reopened - b.settings.probeAfter(now.Sub(f.askedWaiting) < askedLately)
	return t
}

// Hear brings what all know after t was told, and the time on the clock that all ask. What happened in this process since t is told first. It
// reports whether this process may probe that could not before.
func (b *Breaker) Hear(t Told, o Outage, now time.Time) (granted bool) {
	b.mu.Lock()
	defer b.unlock()
	f := b.fleet
	f.alone = false
	if f.event != t.event {
		f.stir()
		return false
	}
	if o.Turn < f.turn {
		return false // it was told before the others had heard what this process knows
	}
	newer := o.Turn > f.turn
	f.turn, f.news = o.Turn, nothing
	switch here := time.Now(); {
	case !o.Open && b.state != Closed:
		b.recover()
	case o.Open && (newer || b.state == Closed):
		b.fail(o.Reason, here.Add(-max(0, now.Sub(o.Since))), here.Add(-max(0, now.Sub(o.Reopened))))
	}
	if !o.Open || o.Prober != f.me {
		f.grant = time.Time{}
		return false
	}
	could := !b.mustAsk(time.Now())
	f.grant = time.Now().Add(o.Lease.Sub(now) - leaseMargin)
	if could {
		return false
	}
	b.wake()
	return true
}

// Alone tells the breaker that the others cannot be reached: until the next Hear it acts by itself.
func (b *Breaker) Alone() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fleet.alone {
		b.fleet.alone = true
		b.wake()
	}
}

// happened notes what the others have to be told; mu is held.
func (b *Breaker) happened(n news) {
	if f := b.fleet; f != nil {
		f.news = n
		f.event++
		f.grant = time.Time{}
		f.stir()
	}
}

// ask notes that somebody wants to pass who could if this process may probe for all, and reports whether it must ask first; mu is held.
func (b *Breaker) ask(now time.Time, waiting bool) (mustWait bool) {
	f := b.fleet
	if f == nil {
		return false
	}
	f.asked = now
	if waiting {
		f.askedWaiting = now
	}
	if !b.mustAsk(now) {
		return false
	}
	f.stir()
	return true
}

// mustAsk reports whether this process may not begin probes; mu is held.
func (b *Breaker) mustAsk(now time.Time) bool {
	return b.fleet != nil && !b.fleet.alone && !now.Before(b.fleet.grant)
}
