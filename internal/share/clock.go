package share

import (
	"sync"
	"time"
)

// clock estimates the server's time by this process' monotonic clock, so that neither the machine's wall clock nor a step in it matters.
type clock struct {
	mu     sync.Mutex
	server time.Time     // what the server's clock showed
	local  time.Time     // when it did
	trip   time.Duration // how long the question took: the estimate is off by half of it at most
	best   time.Duration // the shortest trip so far
}

// keepEstimate is how long an estimate is better than one of a slower trip.
const keepEstimate = 5 * time.Second

// seen takes in that the server told its time in answer to a question sent then.
func (c *clock) seen(server, sent time.Time) {
	now := time.Now()
	trip := now.Sub(sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.best == 0 || trip < c.best {
		c.best = trip
	}
	if !c.local.IsZero() && trip > 2*c.best && trip > c.trip && now.Sub(c.local) < keepEstimate {
		return
	}
	c.server, c.local, c.trip = server, sent.Add(trip/2), trip
}

func (c *clock) now() (now time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.local.IsZero() {
		return time.Time{}, false
	}
	return c.server.Add(time.Since(c.local)), true
}

// fromServer is the time that the server tells as seconds and microseconds.
func fromServer(seconds, micros int64) time.Time {
	return time.Unix(seconds, micros*int64(time.Microsecond)).UTC()
}
