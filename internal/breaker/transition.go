package breaker

import "time"

// open starts an open interval because of what this process has seen; mu is held.
func (b *Breaker) open(reason Reason) {
	now, since, what := time.Now(), b.since, reopened
	if b.state == Closed {
		since, what = now, opened
	}
	b.fail(reason, since, now)
	b.happened(what)
}

// fail starts an open interval, or moves the present one; mu is held.
func (b *Breaker) fail(reason Reason, since, reopened time.Time) {
	again := b.state != Closed
	if !again {
		b.sustained = false
	}
	b.since, b.reopened = since, reopened
	b.reason = reason
	b.refused = 0
	b.run++
	if b.state != Open {
		b.enter(Open)
	} else {
		b.wake()
	}
	if again && !b.sustained && time.Since(b.since) > 2*b.settings.ResetTimeout {
		b.sustained = true
		b.tellSustained(b.reason, b.since)
	}
}

// close ends an outage because of what this process has seen; mu is held.
func (b *Breaker) close() {
	b.recover()
	b.happened(closed)
}

// recover ends an outage and forgets its counts; mu is held.
func (b *Breaker) recover() {
	b.enter(Closed)
	b.reason = ""
	b.since = time.Time{}
	b.failures = 0
	b.refused = 0
	b.run++
	b.window = newWindow(b.settings.Window)
}

// enter changes the state and begins a new generation; mu is held.
func (b *Breaker) enter(to State) {
	from := b.state
	b.state = to
	b.generation++
	b.probes = nil
	b.tellTransition(from, to, b.reason, b.since)
	b.wake()
}

// wake lets those look again who hold; mu is held.
func (b *Breaker) wake() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

func (b *Breaker) tellTransition(from, to State, reason Reason, since time.Time) {
	if tell := b.observer.Transition; tell != nil {
		b.events = append(b.events, func() { tell(from, to, reason, since) })
	}
}

func (b *Breaker) tellSustained(reason Reason, since time.Time) {
	if tell := b.observer.Sustained; tell != nil {
		b.events = append(b.events, func() { tell(reason, since) })
	}
}

// unlock releases mu and delivers the events that came up under it. One
// goroutine delivers at a time, so the observer sees them in order; an
// observer that calls back only adds to the queue.
func (b *Breaker) unlock() {
	if b.telling || len(b.events) == 0 {
		b.mu.Unlock()
		return
	}
	b.telling = true
	for len(b.events) > 0 {
		events := b.events
		b.events = nil
		b.mu.Unlock()
		for _, tell := range events {
			tell()
		}
		b.mu.Lock()
	}
	b.telling = false
	b.mu.Unlock()
}
