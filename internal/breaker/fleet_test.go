package breaker

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// place is where the processes of a test keep what they know together. A trip there takes its time.
type place struct {
	trip time.Duration

	mu     sync.Mutex
	outage Outage
	skew   time.Duration // of the common clock against everybody's
	away   bool
}

func (p *place) now() time.Time { return time.Now().Add(p.skew) }

func (p *place) change(t Told) (o Outage, now time.Time, ok bool) {
	time.Sleep(p.trip / 2)
	defer time.Sleep(p.trip / 2)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return Outage{}, time.Time{}, false
	}
	p.outage, _ = t.Change(p.outage, p.now())
	return p.outage, p.now(), true
}

func (p *place) set(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

func (p *place) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outage = Outage{}
}

// carry joins a breaker to the others until the test or the process ends.
func (p *place) carry(b *Breaker, name string, end <-chan struct{}) {
	stirred := make(chan struct{}, 1)
	b.Join(name, func() {
		select {
		case stirred <- struct{}{}:
		default:
		}
	})
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			t := b.Tell()
			if o, now, ok := p.change(t); ok {
				b.Hear(t, o, now)
			} else {
				b.Alone()
			}
			select {
			case <-end:
				return
			case <-stirred:
			case <-tick.C:
			}
		}
	}()
}

// join makes n breakers that act together until the test ends.
func (p *place) join(t *testing.T, n int, s Settings) []*Breaker {
	t.Helper()
	end := make(chan struct{})
	t.Cleanup(func() {
		close(end)
		p.settle()
	})
	all := make([]*Breaker, n)
	for i := range all {
		all[i] = New(s, Observer{})
		p.carry(all[i], strconv.Itoa(i), end)
	}
	p.settle()
	return all
}

// settle lets everybody hear of what has happened.
func (p *place) settle() { time.Sleep(402*time.Millisecond + 4*p.trip) }

func allAre(t *testing.T, all []*Breaker, want State) {
	t.Helper()
	for i, b := range all {
		require.Equal(t, want.String(), b.Snapshot().State.String(), "breaker %d", i)
	}
}

func TestOneOpensAllOpenOneProbesAllClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{trip: 2 * time.Millisecond, skew: -3 * time.Hour}
		all := p.join(t, 4, consecutive(3))
		start := time.Now()
		report(t, all[0], Failure, Failure, Failure)
		p.settle()
		allAre(t, all, Open)
		for _, b := range all {
			s := b.Snapshot()
			require.Equal(t, ReasonFailures, s.Reason)
			require.WithinDuration(t, start, s.OpenedAt, 5*time.Millisecond)
			require.InDelta(t, (reset - time.Since(start)).Seconds(), refused(t, b, false).Wait.Seconds(), 0.01)
		}

		time.Sleep(time.Until(start.Add(reset + 10*time.Millisecond)))
		require.Equal(t, busyWait, refused(t, all[2], false).Wait, "he has to ask first")
		granted := all[2].Changed()
		time.Sleep(3 * p.trip)
		require.True(t, isClosed(granted), "who holds is told that he may probe")
		require.Equal(t, busyWait, all[3].Wait())
		probe := acquire(t, all[2])
		require.True(t, probe.Probe())
		for range 3 { // longer than the lease
			for i, b := range all {
				if i != 2 {
					refused(t, b, true)
				}
			}
			time.Sleep(2 * time.Second)
		}
		probe.Done(Failure)
		p.settle()
		allAre(t, all, Open)
		for _, b := range all {
			require.Greater(t, b.Wait(), reset-time.Second, "a full interval from the probe's failure, for all")
			require.WithinDuration(t, start, b.Snapshot().OpenedAt, 5*time.Millisecond)
		}

		time.Sleep(reset)
		refused(t, all[1], true)
		changed := all[3].Changed()
		time.Sleep(3 * p.trip)
		acquire(t, all[1]).Done(Success)
		p.settle()
		allAre(t, all, Closed)
		require.True(t, isClosed(changed), "those who hold look again")
	})
}

// A process that joins late finds the circuit open.
func TestJoiningAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{trip: time.Millisecond}
		first := p.join(t, 1, consecutive(1))
		report(t, first[0], Failure)
		time.Sleep(4 * time.Second)
		late := p.join(t, 1, consecutive(1))
		require.Equal(t, Open, late[0].Snapshot().State)
		require.InDelta(t, (reset - 4*time.Second).Seconds(), late[0].Wait().Seconds(), 0.5)
	})
}

// A process that has no requests does not keep the others from probing; one that has the only request in a long time finds the place ready.
func TestTheProbeOfAProcessThatIsRarelyAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{trip: time.Millisecond}
		all := p.join(t, 1, consecutive(1))
		report(t, all[0], Failure)
		time.Sleep(100 * reset)
		for range 40 {
			require.Zero(t, all[0].Wait())
			time.Sleep(1037 * time.Millisecond)
		}
		report(t, all[0], Success)

		all = p.join(t, 5, consecutive(1))
		report(t, all[0], Failure)
		time.Sleep(100 * reset)
		refused0, start := 0, time.Now()
		for all[3].Snapshot().State != Closed {
			pass, err := all[3].Acquire(nil, true)
			if err != nil {
				refused0++
				time.Sleep(busyWait)
				continue
			}
			pass.Done(Success)
		}
		require.LessOrEqual(t, time.Since(start), probeLease+time.Second, "refused %d times", refused0)
	})
}

func TestAKilledProber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{trip: time.Millisecond}
		all := p.join(t, 2, consecutive(1))
		end := make(chan struct{})
		victim := New(consecutive(1), Observer{})
		p.carry(victim, "victim", end)
		report(t, victim, Failure)
		time.Sleep(reset + 2*time.Millisecond)
		refused(t, victim, false)
		time.Sleep(10 * time.Millisecond)
		acquire(t, victim) // and never reports
		close(end)
		killed := time.Now()
		for {
			pass, err := all[1].Acquire(nil, true)
			if err == nil {
				pass.Done(Success)
				break
			}
			time.Sleep(busyWait)
		}
		require.Less(t, time.Since(killed), probeLease+time.Second)
		p.settle()
		allAre(t, all, Closed)
	})
}

func TestAloneAndTogetherAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{trip: time.Millisecond}
		all := p.join(t, 3, consecutive(1))
		p.set(true)
		p.settle()
		report(t, all[0], Failure)
		p.settle()
		isState(t, all[0], Open)
		isState(t, all[1], Closed)
		time.Sleep(reset)
		require.Zero(t, all[0].Wait(), "alone nobody has to be asked")
		report(t, all[0], Failure)
		p.set(false)
		p.settle()
		allAre(t, all, Open)

		// What all know is lost: the first who looks tells it again, and nobody takes the loss for a recovery.
		p.lose()
		p.settle()
		allAre(t, all, Open)
		require.True(t, p.outage.Open)

		// One recovers alone; then all have recovered.
		p.set(true)
		time.Sleep(reset)
		acquire(t, all[2]).Done(Success)
		p.settle()
		isState(t, all[0], Open)
		p.set(false)
		p.settle()
		allAre(t, all, Closed)
		p.lose()
		p.settle()
		allAre(t, all, Closed)
	})
}

// What happens while the others are being told is told next, and is not undone by what they say to the earlier.
func TestWhatHappensMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(consecutive(1), Observer{})
		b.Join("b", func() {})
		told := b.Tell()
		report(t, b, Failure)
		now := time.Now()
		o, changed := told.Change(Outage{Turn: 7}, now)
		require.False(t, changed)
		b.Hear(told, o, now)
		isState(t, b, Open)
		told = b.Tell()
		o, changed = told.Change(o, now)
		require.True(t, changed)
		require.Equal(t, Outage{Turn: 8, Open: true, Reason: ReasonFailures, Since: now, Reopened: now}, o)
		b.Hear(told, o, now)
		isState(t, b, Open)
	})
}

// Many processes with many requests against a service that comes and goes, with slow trips and lost states: there is never more than one probe
// at a time, and everybody agrees in the end.
func TestFleetUnderLoad(t *testing.T) {
	for seed := range uint64(12) {
		for _, waiting := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d %t", seed, waiting), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { fleetUnderLoad(t, rand.New(rand.NewPCG(seed, 2)), waiting) })
			})
		}
	}
}

func fleetUnderLoad(t *testing.T, random *rand.Rand, waiting bool) {
	t.Helper()
	p := &place{trip: time.Duration(1+random.IntN(100)) * time.Millisecond}
	all := p.join(t, 4, consecutive(3))
	var mu sync.Mutex // guards what follows
	well, probing, probes, calls := true, 0, 0, 0
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	over := make(chan struct{})
	var workers sync.WaitGroup
	for i := range 12 {
		b := all[i%len(all)]
		workers.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(time.Duration(draw(300)) * time.Millisecond):
				}
				pass, err := b.Acquire(&Caller{}, waiting)
				if err != nil {
					continue
				}
				mu.Lock()
				calls++
				if pass.Probe() {
					probing++
					probes++
					if probing > 1 {
						t.Error("two probes at one time")
					}
				}
				mu.Unlock()
				time.Sleep(time.Duration(draw(6000)) * time.Millisecond)
				mu.Lock()
				if pass.Probe() {
					probing--
				}
				r := Failure
				if well {
					r = Success
				}
				mu.Unlock()
				pass.Done(r)
			}
		})
	}
	for range 6 {
		mu.Lock()
		well = false
		mu.Unlock()
		time.Sleep(time.Duration(30+draw(60)) * time.Second)
		if draw(2) == 0 {
			p.lose()
		}
		mu.Lock()
		well = true
		mu.Unlock()
		time.Sleep(40 * time.Second)
		allAre(t, all, Closed)
	}
	close(over)
	workers.Wait()
	require.Greater(t, probes, 5, "without probes nothing was tried; %d calls", calls)
}
