package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// storm is an outage at the worst time: the circuit is open and documents come as fast as share of what the disk bears.
type storm struct {
	size    int
	length  time.Duration
	share   float64
	clients int
	rounds  int
	block   time.Duration
}

func (s *storm) flags(f *flag.FlagSet) {
	f.IntVar(&s.size, "size", 20<<10, "size of each document in bytes, at least 8")
	f.DurationVar(&s.length, "for", 10*time.Second, "length of the storm")
	f.Float64Var(&s.share, "share", 0.6, "documents per second as a share of the bare loop's")
	f.IntVar(&s.clients, "clients", 512, "connections of the workers")
	f.IntVar(&s.rounds, "rounds", 5, "blocks of the bare loop and of the store before; their median counts")
	f.DurationVar(&s.block, "block", time.Second, "length of one block")
}

func (s *storm) run(ctx context.Context, p place) error {
	if s.size < 8 {
		return errors.New("size is less than 8 bytes")
	}
	p.say("documents of %d bytes; in the bare loop %d writers: write, sync, rename, sync the folder", s.size, bareWriters)
	rate, err := s.compare(ctx, p)
	if err != nil {
		return err
	}
	return s.blow(ctx, p, rate)
}

// compare measures the bare loop and the store alone, block by block in turn, and gives the bare loop's rate.
func (s *storm) compare(ctx context.Context, p place) (float64, error) {
	crowds := []int{64, 200}
	var bares []float64
	rates, ratios := map[int][]float64{}, map[int][]float64{}
	for round := range s.rounds {
		dir, err := p.folder(fmt.Sprint("bare", round))
		if err != nil {
			return 0, err
		}
		b, err := bare(ctx, dir, s.size, s.block)
		if err != nil {
			return 0, fmt.Errorf("bare loop: %w", err)
		}
		bares = append(bares, b)
		for _, writers := range crowds {
			r, err := s.store(ctx, filepath.Join(p.dir, fmt.Sprint("store", round, "-", writers)), writers)
			if err != nil {
				return 0, fmt.Errorf("store with %d writers: %w", writers, err)
			}
			rates[writers] = append(rates[writers], r)
			ratios[writers] = append(ratios[writers], r/b)
		}
	}
	b := median(bares)
	p.say("bare loop                %6.0f/s   (%.0f to %.0f)", b, slices.Min(bares), slices.Max(bares))
	for _, writers := range crowds {
		r := ratios[writers]
		p.say("store, %3d writers       %6.0f/s   ratio %.2f (%.2f to %.2f)", writers, median(rates[writers]), median(r), slices.Min(r), slices.Max(r))
	}
	return b, nil
}

// store writes letters with payloads, without a proxy before it.
func (s *storm) store(ctx context.Context, dir string, writers int) (rate float64, err error) {
	store, err := dlq.Open(dir, dlq.Options{KeepPayloads: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return hammer(ctx, writers, s.block, func(int) func(int64) error {
		body := filler(s.size)
		return func(n int64) error {
			stamp(body, n)
			_, err := store.Put(ctx, letter(n), bytes.NewReader(body))
			return err
		}
	})
}

// letter is what an open circuit has to say about a document.
func letter(n int64) *dlq.Envelope {
	key := sha256.Sum256([]byte(strconv.FormatInt(n, 10)))
	hexKey := hex.EncodeToString(key[:])
	return &dlq.Envelope{
		Outcome: "circuit_open", DocumentID: hexKey, IdempotencyKey: hexKey, RequestFingerprint: hexKey, Provider: "gone", Kind: "generic",
		Operation: "ocr", FailureClass: "transient", ErrorClass: "transient", Diagnostic: "The circuit is open.", Occurrences: 1,
		Request: dlq.Request{Method: http.MethodPost, Path: "/ocr", ContentType: "application/pdf"},
	}
}

// told is one answer.
type told struct {
	n     int64
	id    string
	added time.Duration // From the moment at which the document was due.
}

// blow sends share of rate documents per second to the real program in front of a provider that is gone.
func (s *storm) blow(ctx context.Context, p place, rate float64) error {
	letters := filepath.Join(p.dir, "letters")
	config, err := p.config(letters, "retry: {max_attempts: 1}\n",
		account{"gone", "generic", "http://127.0.0.1:1", ", breaker: {failure_threshold: 1, reset_timeout: 1h}"})
	if err != nil {
		return err
	}
	x, err := p.proxy(config).Start(ctx)
	if err != nil {
		return err
	}
	answers, took, err := s.send(ctx, x.Addr("gone"), rate*s.share)
	err = errors.Join(err, x.Stop())
	if err != nil {
		return fmt.Errorf("storm: %w\n%s", err, x.Log())
	}
	dir, err := p.folder("bare-after")
	if err != nil {
		return err
	}
	after, err := bare(ctx, dir, s.size, s.block)
	if err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	s.report(p, answers, took, rate, after)
	each := func(d time.Duration) time.Duration {
		return (d / time.Duration(len(answers)+1)).Round(time.Microsecond)
	}
	p.say("the program's CPU        %s user, %s system for each document", each(x.State().UserTime()), each(x.State().SystemTime()))
	return s.verify(p, letters, answers)
}

// send is an open loop: a document is due when its time has come, whether earlier ones are answered or not.
func (s *storm) send(ctx context.Context, addr string, perSecond float64) (answers []told, took time.Duration, err error) {
	workers := make([]*worker, 0, s.clients)
	defer func() {
		for _, w := range workers {
			w.close()
		}
	}()
	for range s.clients {
		w, err := dial(ctx, addr)
		if err != nil {
			return nil, 0, err
		}
		workers = append(workers, w)
	}
	if err := openCircuit(workers[0], s.size); err != nil {
		return nil, 0, err
	}
	total := int64(perSecond * s.length.Seconds())
	answers = make([]told, total)
	var (
		wg    sync.WaitGroup
		next  atomic.Int64
		fault atomic.Pointer[error]
	)
	began := time.Now()
	for _, w := range workers {
		wg.Go(func() {
			body := filler(s.size)
			for ctx.Err() == nil && fault.Load() == nil {
				n := next.Add(1) - 1
				if n >= total {
					return
				}
				due := time.Duration(float64(n) / perSecond * float64(time.Second))
				time.Sleep(due - time.Since(began))
				stamp(body, n+1)
				a, err := w.post("/ocr", "application/pdf", body)
				if err == nil && a.header.Get(letterHeader) == "" {
					err = fmt.Errorf("document %d was answered %d (%s) without a dead letter", n, a.status, a.header.Get("Ocr-Proxy-Outcome"))
				}
				if err != nil {
					fault.Store(&err)
					return
				}
				answers[n] = told{n + 1, a.header.Get(letterHeader), time.Since(began) - due}
			}
		})
	}
	wg.Wait()
	if err := fault.Load(); err != nil {
		return nil, 0, *err
	}
	return answers, time.Since(began), ctx.Err()
}

// openCircuit sends the one document that finds the provider gone; the others find the circuit open.
func openCircuit(w *worker, size int) error {
	_, err := w.post("/ocr", "application/pdf", filler(size))
	return err
}

func (s *storm) report(p place, answers []told, took time.Duration, before, after float64) {
	added := make([]time.Duration, len(answers))
	for i, a := range answers {
		added[i] = a.added
	}
	slices.Sort(added)
	done := float64(len(answers)) / took.Seconds()
	p.say("storm, due for %-9s %6.0f/s   answered %.0f/s, ratio %.2f (the bare loop after it: %.0f/s)", s.length, before*s.share, done, done/before, after)
	p.say("added                    p50 %s, p99 %s, most %s", rounded(quantile(added, 0.5)), rounded(quantile(added, 0.99)), rounded(quantile(added, 1)))
}

// verify looks for every letter that an answer has named.
func (s *storm) verify(p place, letters string, answers []told) error {
	promised := newLedger()
	sumOf := stampedSums(s.size)
	for _, a := range answers {
		if _, twice := promised.letters[a.id]; twice {
			return fmt.Errorf("two documents have the dead letter %s", a.id)
		}
		promised.letter(a.id, sumOf(a.n))
	}
	if err := promised.check(letters); err != nil {
		return err
	}
	open, err := entries(letters, "open")
	if err != nil {
		return err
	}
	for _, folder := range []string{"tmp", "quarantine"} {
		if left, err := entries(letters, folder); err != nil || len(left) > 0 {
			return errors.Join(err, fmt.Errorf("%d files are left in %s", len(left), folder))
		}
	}
	if len(open) != len(answers)+1 { // The first opened the circuit.
		return fmt.Errorf("%d letters for %d answers", len(open), len(answers)+1)
	}
	p.say("verified                 %d answers, each with its whole letter and payload, nothing else", len(answers))
	return nil
}

// quantile of sorted durations; q is 0 to 1.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
