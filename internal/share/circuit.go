package share

import (
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
)

// keepOutage is how long it is known that a service was down when nobody says so any more.
const keepOutage = time.Hour

// Circuit lets an account's breaker act together with those of the other processes until the store is closed. After this process has been
// granted to probe for all, granted is called; nil: nobody waits for it.
func (a *Account) Circuit(b *breaker.Breaker, granted func()) {
	s := a.store
	stirred := make(chan struct{}, 1)
	b.Join(s.me, func() { stir(stirred) })
	cell := NewCell[breaker.Outage](a, "circuit", keepOutage)
	s.done.Go(func() {
		defer b.Alone()
		tick := time.NewTicker(refreshEvery)
		defer tick.Stop()
		for {
			s.carry(b, cell, granted)
			select {
			case <-s.ending.Done():
				return
			case <-stirred:
			case <-cell.Stirred():
			case <-tick.C:
			}
		}
	})
}

// carry brings the breaker's news to the others, and theirs to it.
func (s *Store) carry(b *breaker.Breaker, cell *Cell[breaker.Outage], granted func()) {
	if !s.Connected() {
		b.Alone()
		return
	}
	if _, known := cell.Get(); !known {
		return // the first look is under way
	}
	told := b.Tell()
	outage, now, err := cell.Change(s.ending, told.Change)
	if err != nil {
		return // it is tried again; when the server stays away, that is noticed above
	}
	if b.Hear(told, outage, now) && granted != nil {
		granted()
	}
}

// stir tells a goroutine that there is something to do, if it has not been told yet.
func stir(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
