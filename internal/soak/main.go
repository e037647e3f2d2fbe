// Command soak runs the real program for a long time as a process of its own, under mixed traffic, with everything going wrong around it that can
// go wrong, and then presents a ledger: every document was told of once and paid for once, and the program holds no more than at the beginning.
//
//	go run ./internal/soak -for 3m
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
)

type options struct {
	length   time.Duration
	workers  int
	think    time.Duration
	seed     uint64
	race     bool
	noRedis  bool
	program  string
	markdown string
	keep     string
}

var errUnclean = errors.New("the ledger does not come out even, or something has grown")

func main() {
	var o options
	flag.DurationVar(&o.length, "for", 3*time.Minute, "length of the run, but for the quiet in which the proxy is measured")
	flag.IntVar(&o.workers, "workers", 24, "workers that send documents")
	flag.DurationVar(&o.think, "think", 150*time.Millisecond, "what a worker pauses on average between two documents")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of documents and moments")
	flag.BoolVar(&o.race, "race", false, "build the program with the race detector")
	flag.BoolVar(&o.noRedis, "without-redis", false, "go without the part that needs redis-server")
	flag.StringVar(&o.program, "program", "", "a program that is built already, instead of this module's")
	flag.StringVar(&o.markdown, "markdown", "", "file that gets the figures as a table for docs/reliability.md")
	flag.StringVar(&o.keep, "keep", "", "folder that gets the proxy's log and the provider's journal")
	provider := flag.String("provider", "", "used for its own child process: what the simulated providers are to do")
	flag.Parse()
	if err := begin(o, *provider); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func begin(o options, provider string) error {
	if provider != "" {
		var spec providerSpec
		if err := json.Unmarshal([]byte(provider), &spec); err != nil {
			return err
		}
		return serveProviders(spec)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if was, err := apart(ctx); was || err != nil {
		return err
	}
	return o.run(ctx)
}

// run sets the stage, makes the run and reports.
func (o options) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "ocr-proxy-soak-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s := &stage{dir: dir, product: o.program, drain: min(max(o.length/40, 2*time.Second), 5*time.Second)}
	if s.self, err = os.Executable(); err != nil {
		return err
	}
	if s.product == "" {
		s.product = filepath.Join(dir, "ocr-proxy.exe")
		var flags []string
		if o.race {
			flags = append(flags, "-race")
		}
		if err := child.Build(ctx, s.product, flags...); err != nil {
			return err
		}
	}
	disk := filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		return err
	}
	s.volume = mount(disk)
	defer s.close()
	if s.log, err = os.Create(filepath.Join(dir, "proxy.log")); err != nil {
		return err
	}
	if !o.noRedis {
		if s.redis, err = child.StartRedis(ctx, dir); errors.Is(err, child.ErrNoRedis) {
			return fmt.Errorf("%w, so that what is said of Redis cannot be tried; -without-redis leaves it out", err)
		} else if err != nil {
			return err
		}
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	x := &soak{stage: s, options: o, out: os.Stdout}
	x.say("seed %d; %d workers for %s; full disk: %s", o.seed, o.workers, o.length, s.volume.kind())
	if o.noRedis {
		x.say("!!! WITHOUT REDIS: what is said of a state that processes share is not tried")
	}
	r, err := x.run(ctx)
	if o.keep != "" {
		err = errors.Join(err, keep(o.keep, s.log.Name(), s.journal()))
	}
	if err != nil {
		return err
	}
	fmt.Println(r.table())
	if o.markdown != "" {
		if err := os.WriteFile(o.markdown, []byte(r.markdown()), 0o644); err != nil {
			return err
		}
	}
	if !r.clean() {
		return errUnclean
	}
	return nil
}

// keep copies files to a folder.
func keep(dir string, files ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
