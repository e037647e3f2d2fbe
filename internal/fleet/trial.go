package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
)

// trial is one way of sending the documents of a crew to an account.
type trial struct {
	account   account
	clock     scale // 0: the fleet's
	workers   int
	documents int
	settings  settings
	sidecars  int  // proxies; 0 counts as 1
	shared    bool // they share their state in a Redis
	flicker   bool // which is killed and started again on the way
	direct    bool // no proxy: the workers keep to the quota, which they know
	stream    time.Duration
	bulk      sender // who the documents come from
	realtime  sender // who the documents of the stream come from
}

// result is what a trial has brought.
type result struct {
	trial    trial
	scale    scale
	makespan time.Duration // of the backlog, in the provider's time
	ideal    time.Duration
	backlog  tally
	stream   tally
	counts   counts
	faults   []string // documents that are not accounted for
	alone    int      // proxies that were not connected to the Redis at the end
	delays   delays
	notes    []string // for people
}

// limit is how long a trial may take on the clock before it is broken off.
func (t trial) limit(by scale) time.Duration {
	return 2*by.real(t.account.ideal(t.documents, t.workers)) + 10*time.Second
}

// run makes the trial from the start of its processes to their end. Ready is called when they have started, or have failed to.
func (f *fleet) run(ctx context.Context, t trial, ready func()) (_ *result, err error) {
	ready = sync.OnceFunc(ready)
	defer ready()
	by := cmp.Or(t.clock, f.scale)
	up, err := newProvider(ctx, t.account, by, 1)
	if err != nil {
		return nil, err
	}
	defer up.close()
	var redis *child.Redis
	if t.shared {
		if redis, err = child.StartRedis(ctx, f.place.dir); err != nil {
			return nil, err
		}
		defer func() { redis.Kill() }()
		t.settings.state = redis.URL()
	}
	targets := []string{up.addr}
	var letters []string
	var proxies []*process
	defer func() {
		for _, x := range proxies {
			x.stop()
		}
	}()
	if !t.direct {
		targets = nil
		for range max(1, t.sidecars) {
			x, err := f.place.proxy(ctx, up.addr, t.settings.text(by))
			if err != nil {
				return nil, err
			}
			proxies = append(proxies, x)
			targets, letters = append(targets, x.addr), append(letters, x.letters)
		}
	}
	r := &result{trial: t, scale: by, ideal: t.account.ideal(t.documents, t.workers)}
	c := crew{scale: by, targets: targets, workers: t.workers, spread: startSpread, from: t.bulk}
	if t.stream > 0 {
		c.spread = filling
	}
	if t.direct {
		c.post = newDirect(t.account, by).post
	}

	var aside sync.WaitGroup
	over := make(chan struct{})
	most, streamed := 0, 0
	if t.stream > 0 {
		most = int(by.told(t.limit(by)) / t.stream)
	}
	all := make(ledger, t.documents+most)
	working, cancel := context.WithTimeout(ctx, t.limit(by))
	defer cancel()
	ready()
	up.begin()
	began := time.Now()
	if t.stream > 0 {
		aside.Go(func() {
			streamer := c
			streamer.from = t.realtime
			pause(working, by.real(filling)) // the bulk is there first: what it costs to come is the machine's affair
			streamed = streamer.stream(working, t.documents, most, by.real(t.stream), over, all)
		})
	}
	if t.flicker {
		aside.Go(func() { r.notes = append(r.notes, flicker(working, redis, proxies, by.real(r.ideal))...) })
	}
	machine := newWatch()
	c.work(working, t.documents, all)
	r.makespan = by.told(time.Since(began))
	r.delays = machine.end()
	close(over)
	aside.Wait()
	if t.shared {
		r.alone = alone(ctx, proxies)
	}

	found, err := openLetters(letters...)
	if err != nil {
		return nil, err
	}
	r.counts = up.counts()
	all = all[:t.documents+streamed]
	r.backlog = all.settle(0, t.documents, r.counts.times, found, len(targets))
	r.stream = all.settle(t.documents, len(all), r.counts.times, found, len(targets))

	r.faults = slices.Concat(r.backlog.faults, r.stream.faults, all.strangers(found))
	return r, nil
}

// direct is an ideal client: it knows the quota and keeps to it, all workers together. What its own clock makes late it catches up with as far as
// the provider's burst allows.
type direct struct {
	account account
	scale   scale
	mu      sync.Mutex // held by whoever's turn is next, while it waits for it
	began   time.Time
	next    time.Duration // the next slot, in the provider's time
}

func newDirect(a account, s scale) *direct { return &direct{account: a, scale: s, began: time.Now()} }

// turn waits for the caller's slot.
func (d *direct) turn(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	pause(ctx, time.Until(d.began.Add(d.scale.real(d.next))))
	now := d.scale.told(time.Since(d.began))
	interval := time.Duration(float64(time.Second) / d.account.quotaAt(now))
	d.next = max(d.next, now-time.Duration((d.account.burst-1)*float64(interval))) + interval
}

func (d *direct) post(ctx context.Context, w *worker, n int) (reply, error) {
	for {
		d.turn(ctx)
		r, err := w.send(ctx, sender{}, n)
		if err != nil || r.status != http.StatusTooManyRequests {
			return r, err
		}
	}
}

// connected is the metric that tells whether a proxy shares its state.
const connected = "ocrproxy_state_connected"

// alone counts the proxies that do not share their state; those that were left alone get some time to come back.
func alone(ctx context.Context, proxies []*process) (n int) {
	for range 20 {
		n = 0
		for _, x := range proxies {
			if value, ok, err := x.metric(ctx, connected); err != nil || !ok || value != 1 {
				n++
			}
		}
		if n == 0 {
			return 0
		}
		pause(ctx, 250*time.Millisecond)
	}
	return n
}

// flicker kills the Redis after a quarter of the time and starts it again, empty, after half of it.
func flicker(ctx context.Context, redis *child.Redis, proxies []*process, length time.Duration) []string {
	began := time.Now()
	pause(ctx, length/4)
	redis.Kill()
	pause(ctx, time.Until(began.Add(length*2/5)))
	left := 0
	for _, x := range proxies {
		if value, ok, err := x.metric(ctx, connected); err == nil && ok && value == 0 {
			left++
		}
	}
	pause(ctx, time.Until(began.Add(length/2)))
	if err := redis.Start(ctx); err != nil {
		return []string{"Redis did not start again: " + err.Error()}
	}
	return []string{fmt.Sprintf("Redis was killed after a quarter of the ideal time and started again, empty, after half of it; %d of %d proxies said meanwhile that they are alone", left, len(proxies))}
}
