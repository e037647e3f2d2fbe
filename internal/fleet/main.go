// Command fleet tries the real program under the problem it is for: many workers, one account with a quota. Everything happens in real time, which
// runs faster than the provider's by a scale; what is printed is scaled back. The ideal is the quota's arithmetic.
//
//	go run ./internal/fleet                      all scenarios, about six minutes
//	go run ./internal/fleet -only outage         one of them
//	go run ./internal/fleet -only 'overload/*'   some of its rows, which are named while they run
//
// It ends with 1 when a bar was missed or could not be measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"strings"
	"time"
)

type options struct {
	role, upstream string
	only, write    string
	scale          float64
	limit          time.Duration
	waiting        int
}

func main() {
	var o options
	flag.StringVar(&o.role, "role", "", "used for its own child processes: bare or blocked")
	flag.StringVar(&o.upstream, "upstream", "", "child: upstream address")
	flag.StringVar(&o.only, "only", "", "scenarios, or rows as scenario/row, with commas between them; * stands for any name; empty: all")
	flag.StringVar(&o.write, "write", "", "also write the tables into this markdown file, below the mark "+mark)
	flag.Float64Var(&o.scale, "scale", 10, "how many times faster than the provider's the clock runs, 1 to 50")
	flag.DurationVar(&o.limit, "limit", 20*time.Minute, "give up after this time")
	flag.IntVar(&o.waiting, "waiting", 10000, "requests that wait in scenario waiting")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.role != "" {
		return serveRole(o)
	}
	if !(o.scale >= 1 && o.scale <= 50) {
		return errors.New("scale must be from 1 to 50")
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	place, err := newPlace(ctx)
	defer place.remove()
	if err != nil {
		return err
	}
	f := &fleet{place: place, scale: scale(o.scale), out: os.Stdout, results: map[string]found{}}
	if o.only != "" {
		f.only = strings.Split(o.only, ",")
	}
	scenarios := append(overloads(), outage(), tenants(), sidecars())
	if err := f.known(append(scenarios, scenario{name: waitingName})); err != nil {
		return err
	}
	began, before := time.Now(), aboutMachine()
	f.begin(ctx, scenarios)
	if err := f.playAll(ctx, scenarios, o.waiting); err != nil {
		return err
	}
	missed := 0
	var bars strings.Builder
	for _, b := range f.bars {
		_, _ = fmt.Fprintln(&bars, b)
		if !b.holds() {
			missed++
		}
	}
	end := fmt.Sprintf("%d of %d bars hold; %s in all", len(f.bars)-missed, len(f.bars), time.Since(began).Round(time.Second))
	f.say("%s\n%s\n", bars.String(), end)
	if o.write != "" {
		if err := f.write(o.write, before, bars.String(), end); err != nil {
			return err
		}
	}
	if missed > 0 {
		return fmt.Errorf("%w: %d", errMissed, missed)
	}
	return nil
}

// playAll shows the scenarios in their order, those last that are measured beside the others.
func (f *fleet) playAll(ctx context.Context, scenarios []scenario, waiting int) error {
	for _, aside := range []bool{false, true} {
		for _, s := range scenarios {
			if s.aside != aside {
				continue
			}
			if err := f.play(ctx, s); err != nil {
				return err
			}
		}
		if !aside && f.wants(waitingName, "") {
			if err := f.wait(ctx, waiting); err != nil {
				return err
			}
		}
	}
	return nil
}

// known reports a pattern that names nothing.
func (f *fleet) known(scenarios []scenario) error {
	for _, pattern := range f.only {
		hit := false
		for _, s := range scenarios {
			names := []string{s.name}
			for _, r := range s.rows {
				names = append(names, s.name+"/"+r.name)
			}
			for _, name := range names {
				ok, err := path.Match(pattern, name)
				if err != nil {
					return fmt.Errorf("-only %q: %w", pattern, err)
				}
				hit = hit || ok
			}
		}
		if !hit {
			return fmt.Errorf("-only %q names no scenario", pattern)
		}
	}
	return nil
}
