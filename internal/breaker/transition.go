package breaker

import "time"

// open starts an open interval; mu is held.
func (b *Breaker) open(reason Reason) {
	now := time.Now()
	again := b.state == HalfOpen
	if !again {
		b.since = now
		b.sustained = false
	}
	b.reopened = now
	b.reason = reason
	b.refused = 0
	b.run++
	b.enter(Open)
	if again && !b.sustained && now.Sub(b.since) > 2*b.settings.ResetTimeout {
		b.sustained = true
		b.tellSustained(b.reason, b.since)
	}
}

// close ends an outage and forgets its counts; mu is held.
func (b *Breaker) close() {
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
