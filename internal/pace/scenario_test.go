package pace

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// upstream is a simulated provider: a token bucket which answers 429 in reject when it is empty, and otherwise takes a log-normal time.
type upstream struct {
	began      time.Time
	service    time.Duration // mean
	reject     time.Duration
	jitter     time.Duration // that calls take at most to arrive
	retryAfter time.Duration // told with a 429; 0: nothing is told
	burst      float64
	quota      func(at time.Duration) float64 // per second
	down       func(at time.Duration) bool

	mu                  sync.Mutex
	rng                 *rand.Rand
	tokens              float64
	last                time.Duration
	calls               []time.Duration
	taken, refused, out int
}

// answer is what a call brings.
type answer uint8

const (
	good answer = iota
	tooMany
	unavailable
)

func newUpstream(seed uint64, quota, burst float64) *upstream {
	return &upstream{
		began: time.Now(), service: 1500 * time.Millisecond, reject: 50 * time.Millisecond, burst: burst, tokens: burst,
		quota:  func(time.Duration) float64 { return quota },
		down:   func(time.Duration) bool { return false },
		jitter: time.Millisecond, rng: rand.New(rand.NewPCG(seed, 7)),
	}
}

func (u *upstream) call() answer {
	u.mu.Lock()
	late := time.Duration(u.rng.Int64N(int64(u.jitter)))
	u.mu.Unlock()
	time.Sleep(late)
	took, a := u.take()
	time.Sleep(took)
	if a == good && u.down(time.Since(u.began)) {
		return unavailable
	}
	return a
}

func (u *upstream) take() (time.Duration, answer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := time.Since(u.began)
	u.calls = append(u.calls, at)
	u.tokens = min(u.burst, u.tokens+u.quota(at)*(at-u.last).Seconds())
	u.last = at
	switch {
	case u.down(at):
		u.out++
		return u.reject, unavailable
	case u.tokens < 1-1e-9:
		u.refused++
		return u.reject, tooMany
	}
	u.tokens--
	u.taken++
	return time.Duration(float64(u.service) * math.Exp(u.rng.NormFloat64()*0.3-0.045)), good
}

// fraction of the calls that were throttled.
func (u *upstream) throttled() float64 { return float64(u.refused) / float64(len(u.calls)) }

// between counts the calls that came from then on for that long.
func (u *upstream) between(from, length time.Duration) (n int) {
	for _, at := range u.calls {
		if at >= from && at < from+length {
			n++
		}
	}
	return n
}

// fuse is a breaker for scenarios: failures in a row open it, one probe at a time is let out every so often, a success closes it.
type fuse struct {
	mu       sync.Mutex
	failures int
	open     bool
	until    time.Time
	every    time.Duration
	changed  func()
}

func (f *fuse) state() (CircuitState, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.open {
		return Closed, 0
	}
	return Holding, max(0, time.Until(f.until))
}

func (f *fuse) tell(ok bool) {
	f.mu.Lock()
	was := f.open
	if ok {
		f.failures, f.open = 0, false
	} else if f.failures++; f.failures >= 5 {
		f.open, f.until = true, time.Now().Add(f.every)
	}
	changed := was != f.open
	f.mu.Unlock()
	if changed {
		f.changed()
	}
}

// fleet is workers who call a simulated provider through one queue.
type fleet struct {
	u  *upstream
	qs *Queues
	q  *Queue
	f  *fuse

	mu       sync.Mutex
	attempts int // the most that a document needed
}

func newFleet(u *upstream, s Settings) *fleet {
	f := &fleet{u: u, f: &fuse{every: 2 * time.Second}}
	f.qs = NewQueues("acct", nil, s, f.f.state, nil)
	f.f.changed = f.qs.CircuitChanged
	f.q = f.qs.For("other")
	return f
}

func usual() Settings {
	return Settings{Adaptive: true, StartRate: 2, Recovery: 10 * time.Second, MaxWaiting: 10000, MaxPause: time.Minute, Smear: time.Second}
}

// do has one document done, however often it takes.
func (f *fleet) do(r Request) {
	var turn Turn
	for n := 1; ; n++ {
		r.Again = n > 1
		if err := f.q.Enter(&turn, r); err != nil {
			panic(err)
		}
		if ready := turn.Ready(); ready != nil {
			<-ready
			if err := turn.Err(); err != nil {
				panic(err)
			}
		}
		a := f.u.call()
		f.f.tell(a != unavailable)
		switch a {
		case good:
			turn.Done(Accepted)
			f.mu.Lock()
			f.attempts = max(f.attempts, n)
			f.mu.Unlock()
			return
		case tooMany:
			if f.u.retryAfter > 0 {
				f.q.Pause(time.Now().Add(f.u.retryAfter))
			}
			turn.Done(Throttled)
		case unavailable:
			turn.Done(Other)
		}
	}
}

// work does so many documents with so many workers and returns how long it took.
func (f *fleet) work(workers, documents int) time.Duration {
	start := time.Now()
	todo := make(chan struct{}, documents)
	for range documents {
		todo <- struct{}{}
	}
	close(todo)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range todo {
				f.do(Request{})
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func seeds() []uint64 { return []uint64{1, 2, 3} }

func TestOverload(t *testing.T) {
	for _, c := range []struct {
		name       string
		retryAfter time.Duration
		burst      float64
		makespan   float64
	}{
		{"with hints and a burst", time.Second, 22, 1.05},
		{"without hints, with a burst", 0, 22, 1.05},
		{"strict, without hints", 0, 1, 1.10},
		{"strict, with hints", time.Second, 1, 1.16},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, seed := range seeds() {
				synctest.Test(t, func(t *testing.T) {
					u := newUpstream(seed, 22.2, c.burst)
					u.retryAfter = c.retryAfter
					f := newFleet(u, usual())
					took := f.work(100, 6666)
					makespan := took.Seconds() / (6666 / 22.2)
					t.Logf("makespan %.3f, throttled %d = %.2f %%, most attempts %d", makespan, u.refused, 100*u.throttled(), f.attempts)
					require.LessOrEqual(t, makespan, c.makespan)
					require.LessOrEqual(t, u.throttled(), 0.02)
					require.LessOrEqual(t, f.attempts, 6)
				})
			}
		})
	}
}

func TestTenTimesFaster(t *testing.T) {
	for _, burst := range []float64{22, 222} {
		for _, seed := range seeds() {
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(seed, 222, burst)
				u.service, u.reject, u.jitter = 150*time.Millisecond, 5*time.Millisecond, 100*time.Microsecond
				s := usual()
				s.StartRate, s.Recovery = 20, time.Second
				f := newFleet(u, s)
				makespan := f.work(100, 6666).Seconds() / (6666 / 222.0)
				t.Logf("makespan %.3f, throttled %d = %.2f %%", makespan, u.refused, 100*u.throttled())
				require.LessOrEqual(t, makespan, 1.05)
				require.LessOrEqual(t, u.throttled(), 0.02)
			})
		}
	}
}

func TestChangingQuota(t *testing.T) {
	for burst, least := range map[float64]float64{1: 0.90, 22: 0.976} {
		for _, seed := range seeds() {
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(seed, 22.2, burst)
				u.quota = func(at time.Duration) float64 {
					switch {
					case at < 100*time.Second:
						return 22.2
					case at < 200*time.Second:
						return 11.1
					}
					return 22.2
				}
				f := newFleet(u, usual())
				f.work(100, 6666)
				took := u.calls[len(u.calls)-1].Seconds()
				ideal := 22.2*100 + 11.1*100 + 22.2*(took-200)
				t.Logf("burst %v: goodput %.3f, throttled %d = %.2f %%", burst, float64(u.taken)/ideal, u.refused, 100*u.throttled())
				require.GreaterOrEqual(t, float64(u.taken)/ideal, least)
				require.LessOrEqual(t, u.throttled(), 0.03)
			})
		}
	}
}

func TestOutage(t *testing.T) {
	for _, hints := range []time.Duration{0, time.Second} {
		for _, seed := range seeds() {
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(seed, 22.2, 22)
				u.retryAfter = hints
				u.down = func(at time.Duration) bool { return at >= 100*time.Second && at < 160*time.Second }
				f := newFleet(u, usual())
				took := f.work(100, 6666)
				first := u.calls[slices.IndexFunc(u.calls, func(at time.Duration) bool { return at >= 160*time.Second })]
				peak, later := u.between(first, time.Second), 0
				for from := first; from < first+10*time.Second; from += 50 * time.Millisecond {
					later = max(later, u.between(from, time.Second))
				}
				makespan := took.Seconds() / (6666/22.2 + 60)
				t.Logf("makespan %.3f, throttled %d, 503 %d, first second %d, most in one of the next %d, first after %s", makespan, u.refused, u.out, peak, later, first-160*time.Second)
				require.LessOrEqual(t, float64(peak), 1.2*22.2)
				require.LessOrEqual(t, float64(later), 1.35*22.2)
				require.LessOrEqual(t, makespan, 1.06)
				require.LessOrEqual(t, u.out, 200)
			})
		}
	}
}

func TestSlowQuota(t *testing.T) {
	for _, burst := range []float64{1, 5} {
		for _, seed := range seeds() {
			synctest.Test(t, func(t *testing.T) {
				u := newUpstream(seed, 1.0/3, burst)
				f := newFleet(u, usual())
				documents := 1200
				makespan := f.work(20, documents).Seconds() / float64(3*documents)
				t.Logf("burst %v: makespan %.3f, throttled %d = %.2f %%", burst, makespan, u.refused, 100*u.throttled())
				require.LessOrEqual(t, makespan, 1.1)
				require.LessOrEqual(t, u.throttled(), 0.05)
			})
		}
	}
}

func TestRealTimeBesideBulk(t *testing.T) {
	latencies := func(t *testing.T, seed uint64, tenant string) (p99 time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			u := newUpstream(seed, 22.2, 22)
			f := newFleet(u, usual())
			var wg sync.WaitGroup
			for range 5000 {
				wg.Go(func() { f.do(Request{Tenant: "bulk"}) })
			}
			var mu sync.Mutex
			var all []time.Duration
			for range 200 {
				time.Sleep(time.Second)
				wg.Go(func() {
					start := time.Now()
					f.do(Request{Tenant: tenant})
					mu.Lock()
					defer mu.Unlock()
					all = append(all, time.Since(start))
				})
			}
			wg.Wait()
			slices.Sort(all)
			p99 = all[len(all)*99/100]
			t.Logf("%s: p99 %s, throttled %d", tenant, p99, u.refused)
		})
		return p99
	}
	fair := latencies(t, 1, "real-time")
	fifo := latencies(t, 1, "bulk")
	require.LessOrEqual(t, fair, 4500*time.Millisecond)
	require.LessOrEqual(t, fair, fifo/20)
}
