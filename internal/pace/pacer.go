package pace

import "time"

// Pacer is where a queue gets its slots from: a Rate of this process, or one that it shares with others. The queue calls it under its own lock,
// so nothing here may wait for a network: who shares answers from what it holds, asks for more meanwhile, and calls the queue's wake when there
// is more to know.
type Pacer interface {
	// Take gives the next slot for a call of that cost, if its time has come, and its number. Otherwise at is when to ask again; zero:
	// the queue will be woken. More tells that others wait behind the call. While nothing is known to limit calls it gives slots at once.
	Take(now time.Time, cost int, more bool) (slot uint64, at time.Time, ok bool)
	// GiveBack tells that no call was made in a slot.
	GiveBack(slot uint64, cost int)
	// Rate is what is known, with times of this process's clock.
	Rate() Rate
	// Throttled tells of a throttle.
	Throttled(e Evidence)
	// Pause lets nobody go for so long. A longer pause stays as it is.
	Pause(length time.Duration)
	// Resume starts again after an outage, before which the provider took so many calls of this process per second.
	Resume(accepted float64)
	// Tune replaces the tuning.
	Tune(t Tuning)
}

// own is the Pacer of a process that shares with nobody.
type own struct {
	rate   Rate
	tuning Tuning
}

func (o *own) Take(now time.Time, cost int, more bool) (slot uint64, at time.Time, ok bool) {
	if at := o.rate.Next(now, o.tuning); at.After(now) {
		return 0, at, false
	}
	return o.rate.Take(now, cost, more, o.tuning), time.Time{}, true
}

func (o *own) GiveBack(_ uint64, cost int) { o.rate.GiveBack(cost) }

func (o *own) Rate() Rate { return o.rate }

func (o *own) Throttled(e Evidence) { o.rate.Throttled(time.Now(), e, o.tuning) }

func (o *own) Pause(length time.Duration) { o.rate.PauseUntil(time.Now().Add(length)) }

func (o *own) Resume(accepted float64) { o.rate.Resume(time.Now(), accepted, o.tuning) }

func (o *own) Tune(t Tuning) { o.tuning = t }
