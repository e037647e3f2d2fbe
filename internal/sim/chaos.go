package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// action is what a plan does with a request.
type action int

const (
	actAnswer   action = iota // Do the work and answer.
	actScript                 // Answer what the script's step says.
	actThrottle               // Answer that the call came too fast.
	actFail                   // Answer with a server error.
	actLose                   // Do the work and close the connection.
	actHang                   // Read the request and stay silent.
	actRefuse                 // Reset the connection unread.
)

// plan is the fate of one request, fixed when it arrives.
type plan struct {
	action        action
	status        int // Of actFail.
	step          Step
	delay         time.Duration
	retryAfter    int
	jobTime       time.Duration
	itemErrorRate float64
	seed          [32]byte
}

// chaos makes the plans.
type chaos struct {
	mu      sync.Mutex
	rng     *rand.Rand
	start   time.Time
	faults  Faults
	step    int // Of the script, the next.
	buckets map[string]*bucket
}

func newChaos(seed uint64, f Faults) *chaos {
	c := &chaos{rng: rand.New(rand.NewPCG(seed, 0x0c5)), start: time.Now()} //nolint:gosec // Reproducible faults, no secret.
	c.set(f)
	return c
}

func (c *chaos) set(f Faults) {
	f.Outages, f.Script = slices.Clone(f.Outages), slices.Clone(f.Script)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults, c.step, c.buckets = f, 0, map[string]*bucket{}
}

func (c *chaos) current() Faults {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.faults
	f.Outages, f.Script = slices.Clone(f.Outages), slices.Clone(f.Script)
	return f
}

func (c *chaos) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start = time.Now()
}

// next plans one request. Every request draws the same number of values whatever it meets, so that a request's luck depends
// on its place in the order only and not on the settings before it.
func (c *chaos) next(op string) plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.faults
	errorLuck, loseLuck, jitter := c.rng.Float64(), c.rng.Float64(), c.rng.Float64()
	p := plan{retryAfter: f.RetryAfter, jobTime: f.JobTime, itemErrorRate: f.ItemErrorRate}
	for i := range 4 {
		binary.LittleEndian.PutUint64(p.seed[8*i:], c.rng.Uint64())
	}
	now := time.Now()
	switch {
	case c.step < len(f.Script):
		p.step = f.Script[c.step]
		c.step++
		p.action, p.delay = p.step.action(), p.step.Delay
	case f.inOutage(now.Sub(c.start)):
		p.action, p.status = outageAction(f.OutageMode), http.StatusServiceUnavailable
	case !c.admit(op, now):
		p.action = actThrottle
	default:
		p.delay = f.Latency + time.Duration(jitter*float64(f.LatencyJitter))
		switch {
		case errorLuck < f.ErrorRate/2:
			p.action, p.status = actFail, http.StatusInternalServerError
		case errorLuck < f.ErrorRate:
			p.action, p.status = actFail, http.StatusServiceUnavailable
		case loseLuck < f.LoseRate:
			p.action = actLose
		}
	}
	return p
}

func outageAction(mode OutageMode) action {
	switch mode {
	case OutageRefuse:
		return actRefuse
	case OutageHang:
		return actHang
	case OutageUnavailable:
	}
	return actFail // The zero value, too.
}

// admit takes one call from the operation's bucket. The providers, too, meter their operations apart.
func (c *chaos) admit(op string, now time.Time) bool {
	if c.faults.Throttle == 0 {
		return true
	}
	b := c.buckets[op]
	if b == nil {
		b = &bucket{tokens: float64(c.faults.burst()), last: now}
		c.buckets[op] = b
	}
	return b.take(now, c.faults.Throttle, float64(c.faults.burst()))
}

// bucket is a token bucket that is filled when it is looked at.
type bucket struct {
	tokens float64
	last   time.Time
}

func (b *bucket) take(now time.Time, rate, burst float64) bool {
	b.tokens = min(burst, b.tokens+rate*now.Sub(b.last).Seconds())
	b.last = now
	const whole = 1 - 1e-9 // Ten tenths of a token add up to a little less than one.
	if b.tokens < whole {
		return false
	}
	b.tokens = max(0, b.tokens-1)
	return true
}

// refusing reports whether connections are refused at present.
func (c *chaos) refusing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.step >= len(c.faults.Script) && c.faults.OutageMode == OutageRefuse && c.faults.inOutage(time.Since(c.start))
}
