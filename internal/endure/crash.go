package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// crash kills the program again and again while documents fail in every way, and looks each time for what workers were promised.
type crash struct {
	rounds  int
	workers int
	perDir  int
	longest time.Duration
	seed    uint64
}

func (c *crash) flags(f *flag.FlagSet) {
	f.IntVar(&c.rounds, "rounds", 300, "how often the program is killed")
	f.IntVar(&c.workers, "workers", 48, "workers that send documents")
	f.IntVar(&c.perDir, "per-folder", 10, "kills before a new folder of dead letters is begun")
	f.DurationVar(&c.longest, "longest", 600*time.Millisecond, "longest load before a kill")
	f.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "seed of the moments and documents")
}

// enough is how many rounds must have shown something.
const enough = 50

// figures say what a trial was worth.
type figures struct{ letters, jobs, unanswered, busy int }

func (c *crash) run(ctx context.Context, p place) error {
	p.say("%d rounds, seed %d", c.rounds, c.seed)
	random := rand.New(rand.NewPCG(c.seed, 0))
	provider := newProvider()
	defer provider.Close()
	var all figures
	for done := 0; done < c.rounds; {
		rounds := min(c.perDir, c.rounds-done)
		f, err := c.folder(ctx, p, provider.URL, random, rounds)
		if err != nil {
			return fmt.Errorf("between rounds %d and %d (seed %d; the folder was %s): %w", done+1, done+rounds, c.seed, p.dir, err)
		}
		done += rounds
		all.letters += f.letters
		all.jobs += f.jobs
		all.unanswered += f.unanswered
		all.busy += f.busy
		p.say("%4d kills, %d of them under load; kept %d letters and %d jobs that workers were told of; %d documents were cut off", done, all.busy, all.letters, all.jobs, all.unanswered)
	}
	if c.rounds >= enough && (all.letters == 0 || all.jobs == 0 || all.unanswered == 0) {
		return errors.New("the kills hit nothing: give -longest more time")
	}
	return nil
}

// folder kills the program several times over one folder of dead letters.
func (c *crash) folder(ctx context.Context, p place, provider string, random *rand.Rand, rounds int) (f figures, err error) {
	letters := filepath.Join(p.dir, "letters")
	if err := os.RemoveAll(letters); err != nil {
		return f, err
	}
	config, err := p.config(letters, "retry: {max_attempts: 2, base_delay: 2ms, budget: {ratio: 0}}\n",
		account{"strict", "generic", provider + "/strict", ""},
		account{"busy", "generic", provider + "/busy", ", breaker: {failure_threshold: 1000000}"},
		account{"gone", "generic", "http://127.0.0.1:1", ", breaker: {failure_threshold: 1, reset_timeout: 1h}"},
		account{"jobs", "azure", provider + "/jobs", ""})
	if err != nil {
		return f, err
	}
	promised := newLedger()
	for range rounds {
		unanswered, err := c.round(ctx, p, config, promised, random)
		if err != nil {
			return f, err
		}
		f.unanswered += unanswered
		if unanswered > 0 {
			f.busy++
		}
		if err := c.check(ctx, p, letters, promised); err != nil {
			return f, err
		}
	}
	f.letters, f.jobs = len(promised.letters), len(promised.jobs)

	// A last start and an orderly end: nothing of all that stands in the way, and nothing unfinished is left.
	x, err := p.proxy(config).Start(ctx)
	if err != nil {
		return f, err
	}
	if err := x.Stop(); err != nil {
		return f, err
	}
	left, err := entries(letters, "tmp")
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("the start has left %d files in tmp", len(left))
	}
	return f, errors.Join(err, c.check(ctx, p, letters, promised))
}

// round starts the program, lets workers send, and kills it at some moment: now and then before it is ready. It gives the number of documents
// that were on their way.
func (c *crash) round(ctx context.Context, p place, config string, promised *ledger, random *rand.Rand) (unanswered int, err error) {
	if random.IntN(8) == 0 {
		x, _, err := p.proxy(config).Spawn(ctx)
		if err != nil {
			return 0, err
		}
		time.Sleep(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
		x.Kill()
		return 0, nil
	}
	x, err := p.proxy(config).Start(ctx)
	if err != nil {
		return 0, err
	}
	load := newLoad(x.Addr, c.workers, random.Uint64(), promised)
	time.Sleep(time.Duration(random.Int64N(int64(c.longest))))
	load.killed.Store(true)
	x.Kill()
	return load.wait()
}

// check looks at the folder of a program that was killed: what was promised is there, and what is listed is whole.
func (c *crash) check(ctx context.Context, p place, letters string, promised *ledger) error {
	if _, err := os.Stat(letters); errors.Is(err, os.ErrNotExist) && len(promised.letters) == 0 {
		return nil // It was killed before it began.
	}
	if err := promised.check(letters); err != nil {
		return err
	}
	if _, err := p.command(ctx, "dlq", "verify", "--dir", letters); err != nil {
		return err
	}
	if left, err := entries(letters, "quarantine"); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("%d files were put into quarantine", len(left)))
	}
	open, err := entries(letters, "open")
	if err != nil {
		return err
	}
	text, err := p.command(ctx, "dlq", "list", "--dir", letters, "--output", "json")
	if err != nil {
		return err
	}
	var listed []record
	if err := json.Unmarshal(text, &listed); err != nil {
		return fmt.Errorf("dlq list: %w", err)
	}
	if len(listed) != len(open) {
		return fmt.Errorf("dlq list shows %d letters where %d files are open", len(listed), len(open))
	}
	for _, l := range listed {
		if _, err := os.Stat(filepath.Join(letters, filepath.FromSlash(l.RawPayloadRef))); l.RawPayloadRef == "" || err != nil {
			return fmt.Errorf("dlq list shows the letter %s without its payload: %w", l.ID, err)
		}
	}
	_, err = readJobs(letters)
	return err
}

// operationID is the job's name in the address under which its result is polled.
func operationID(h http.Header) string {
	at := h.Get("Operation-Location")
	path, _, _ := strings.Cut(at, "?")
	return path[strings.LastIndexByte(path, '/')+1:]
}
