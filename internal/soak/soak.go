package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
)

// soak is one run.
type soak struct {
	*stage
	options options
	out     io.Writer
	crew    *crew
	ledger  *ledger

	quietTime time.Duration
	lives     []life
	done      map[string]int // Mischiefs, by name.
	next      int            // The next mischief.
	replays   int
	resolved  int
	fulls     []window
	restarts  []window
}

// life is what was seen of one process of the proxy.
type life struct {
	length        time.Duration // Under load, from when it was warm.
	before, after holdings
	samples       []sample
	peak          int64
}

// shares are the parts of the run that each process of the proxy gets. The last one is the one that grows old.
func shares() []float64 { return []float64{0.15, 0.15, 0.7} }

func (s *soak) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// run makes the whole soak and gives what it found.
func (s *soak) run(ctx context.Context) (*report, error) {
	if err := s.startProviders(ctx); err != nil {
		return nil, err
	}
	if err := s.startProxy(ctx); err != nil {
		return nil, err
	}
	press, err := newPress(s.options.seed)
	if err != nil {
		return nil, err
	}
	s.ledger, s.done = newLedger(), map[string]int{}
	s.crew = newCrew(s.listen, press, s.ledger, s.options.think)
	working, stop := context.WithCancel(ctx)
	defer stop()
	var workers sync.WaitGroup
	for i := range s.options.workers {
		workers.Go(func() { s.crew.work(working, rand.New(rand.NewPCG(s.options.seed, uint64(i)))) })
	}
	began := time.Now()
	for i, share := range shares() {
		length := time.Duration(share * float64(s.options.length))
		if i > 0 {
			if err := s.restart(ctx); err != nil {
				return nil, err
			}
		}
		if err := s.live(ctx, length); err != nil {
			return nil, err
		}
	}
	s.say("the workers bring home what they have in hand")
	stop()
	workers.Wait()
	if err := s.stopProxy(); err != nil {
		s.ledger.wrong("the last end: " + err.Error())
	}
	s.providers.Kill()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.conclude(ctx, time.Since(began))
}

// live is the life of one process of the proxy: it gets warm, is looked at in quiet, lives through mischief, and is looked at again.
func (s *soak) live(ctx context.Context, length time.Duration) error {
	warming := min(length/4, 15*time.Second)
	sleep(ctx, warming)
	var l life
	var err error
	// The first quiet waits for two looks that agree, so that the measure for all later ones is not one that was about to change.
	last := holdings{goroutines: -1}
	if l.before, err = s.quiet(ctx, 15*time.Second, func(h holdings) bool {
		same := h.goroutines == last.goroutines && h.files == last.files && h.inFlight == 0
		last = h
		return same
	}); err != nil {
		return err
	}
	began := time.Now()
	var over atomic.Bool
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for !over.Load() {
			if bytes, err := s.proxy.Resident(); err == nil {
				l.samples = append(l.samples, sample{time.Since(began), bytes})
			}
			pause(500 * time.Millisecond)
		}
	})
	err = s.mischief(ctx, length-warming)
	l.length = time.Since(began)
	over.Store(true)
	sampling.Wait()
	if err != nil {
		return err
	}
	l.after, err = s.quiet(ctx, 30*time.Second, func(h holdings) bool { return len(l.before.compare(h)) == 0 })
	if err != nil {
		return err
	}
	l.peak, err = s.proxy.Peak()
	s.lives = append(s.lives, l)
	s.say("a process of %s: goroutines %d, then %d; descriptors %d, then %d; resident %s, then %s", l.length.Round(time.Second),
		l.before.goroutines, l.after.goroutines, l.before.files, l.after.files, mb(l.before.resident), mb(l.after.resident))
	return err
}

// mischief makes one after another, with rests between them, for that time.
func (s *soak) mischief(ctx context.Context, length time.Duration) error {
	all := s.mischiefs()
	until := time.Now().Add(length)
	step := min(max(s.options.length/40, 1500*time.Millisecond), 8*time.Second)
	for time.Now().Before(until) && ctx.Err() == nil {
		m := all[s.next%len(all)]
		s.next++
		s.say("%s", m.name)
		if err := m.do(ctx, step); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		s.done[m.name]++
		sleep(ctx, min(step, time.Until(until)))
	}
	return ctx.Err()
}

// quiet holds the workers once they have brought home what they have in hand, and looks at the proxy until it is as it should be. The providers
// are started anew, which closes all the connections that the proxy keeps to them.
func (s *soak) quiet(ctx context.Context, most time.Duration, good func(holdings) bool) (holdings, error) {
	began := time.Now()
	s.crew.gate.Lock()
	defer s.crew.gate.Unlock()
	s.crew.rest()
	s.providers.Kill()
	if err := s.startProviders(ctx); err != nil {
		return holdings{}, err
	}
	pause(time.Second)
	h, err := settle(ctx, most, func() (holdings, error) { return measure(ctx, s.proxy, s.admin, s.bodies()) }, good)
	s.quietTime += time.Since(began)
	return h, err
}

// restart ends the proxy in an orderly way under full load and starts it again.
func (s *soak) restart(ctx context.Context) error {
	sleep(ctx, time.Second)
	s.say("the proxy is ended by SIGTERM under load, and started again")
	w := window{from: time.Now()}
	s.crew.away.Store(true)
	if err := s.stopProxy(); err != nil {
		s.ledger.wrong("an end under load: " + err.Error())
	}
	err := s.startProxy(ctx)
	sleep(ctx, 200*time.Millisecond) // For connections that were cut at the last moment.
	s.crew.away.Store(false)
	w.to = time.Now()
	s.restarts = append(s.restarts, w)
	return err
}

// conclude reads everything that is left and settles the ledger.
func (s *soak) conclude(ctx context.Context, took time.Duration) (*report, error) {
	r := &report{options: s.options, took: took, quiet: s.quietTime, lives: s.lives, done: s.done, replays: s.replays, resolved: s.resolved, disk: s.volume.kind(), redis: s.redis != nil}
	f, err := os.Open(s.journal())
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	e := evidence{entries: map[string]entry{}, fulls: s.fulls, restarts: s.restarts}
	if e.record, err = readJournal(f); err != nil {
		return nil, err
	}
	if e.letters, err = readLetters(s.letters()); err != nil {
		return nil, err
	}
	for name, d := range s.ledger.entries {
		e.entries[name] = *d
	}
	e.hangUps = s.ledger.counts[hangUps]
	r.tally, r.faults, r.counts = e.settle(), e.record.faults, s.ledger.counts
	r.tally.wrong = append(r.tally.wrong, s.ledger.faults...)
	if text, err := child.Output(ctx, s.product, "dlq", "verify", "--dir", s.letters()); err != nil {
		r.tally.wrong = append(r.tally.wrong, err.Error())
	} else {
		r.verified, _, _ = strings.Cut(string(text), "\n")
	}
	for _, folder := range []string{"quarantine", "claimed"} {
		left, err := os.ReadDir(filepath.Join(s.letters(), folder))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if len(left) > 0 {
			r.tally.wrong = append(r.tally.wrong, fmt.Sprintf("%d files lie in %s", len(left), folder))
		}
	}
	return r, nil
}
