// Command bench measures ocr-proxy against bare reverse proxies on one machine: the same load, interleaved block by block, so that what the
// machine does to one it does to all. Load, proxies and provider share the cores: trust the ratios, not the rates.
//
//	go run ./internal/bench            throughput against a bare httputil.ReverseProxy
//	go run ./internal/bench -waiting 5000   memory while that many requests wait for their next attempt
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
)

type options struct {
	role, addr, upstream string
	rounds               int
	block                time.Duration
	waiting              int
	bodyBytes            int
}

func main() {
	var o options
	flag.StringVar(&o.role, "role", "", "used for its own child processes: provider, bare, spill or faltering")
	flag.StringVar(&o.addr, "addr", "", "child: listen address")
	flag.StringVar(&o.upstream, "upstream", "", "child: upstream address")
	flag.IntVar(&o.rounds, "rounds", 9, "blocks per proxy and cell; the median of their ratios counts")
	flag.DurationVar(&o.block, "block", time.Second, "length of one block")
	flag.IntVar(&o.waiting, "waiting", 0, "measure memory with so many requests waiting in backoff, instead of throughput")
	flag.IntVar(&o.bodyBytes, "body", 1<<20, "with -waiting: size of each body in bytes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.role != "" {
		return serveRole(o)
	}
	dir, err := os.MkdirTemp("", "ocr-proxy-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	product := filepath.Join(dir, "ocr-proxy")
	if err := child.Build(ctx, product); err != nil {
		return err
	}
	b := &bench{dir: dir, product: product, options: o}
	defer b.stop()
	if o.waiting > 0 {
		return b.memory(ctx)
	}
	return b.throughput(ctx)
}

// cell is one kind of load, and the bar that the project sets itself.
type cell struct {
	name    string
	body    int // bytes
	clients int
	against string // the bare proxy that it is compared with
	bar     float64
}

func cells() []cell {
	return []cell{
		{"2 KB, 16 clients", 2 << 10, 16, "bare", 0.85},
		{"200 KB, 16 clients", 200 << 10, 16, "bare", 0.90},
		{"5 MB, 16 clients", 5 << 20, 16, "spill", 0.90},
	}
}

// throughput drives the product and the bare proxies in turn and prints the ratios.
func (b *bench) throughput(ctx context.Context) error {
	if err := b.start(ctx, "provider"); err != nil {
		return err
	}
	targets := []target{{"bare", b.addr("bare")}, {"spill", b.addr("spill")}, {"ocr-proxy", b.addr("ocr-proxy")}}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "load\tproxy\trequests/s\tratio\tbar\t")
	for _, c := range cells() {
		rates := map[string][]float64{}
		for round := range b.options.rounds + 1 {
			for i := range targets {
				t := targets[(i+round)%len(targets)] // nobody is always first
				rate, err := drive(ctx, t.addr, c.body, c.clients, b.options.block)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", c.name, t.name, err)
				}
				if round > 0 { // the first round warms up
					rates[t.name] = append(rates[t.name], rate)
				}
			}
		}
		for _, t := range targets {
			ratios := make([]float64, b.options.rounds)
			for i := range ratios {
				ratios[i] = rates[t.name][i] / rates[c.against][i]
			}
			bar := ""
			if t.name == "ocr-proxy" {
				bar = fmt.Sprintf("at least %.2f of %s", c.bar, c.against)
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f\t%s\t\n", c.name, t.name, median(rates[t.name]), median(ratios), bar)
		}
	}
	return w.Flush()
}

type target struct{ name, addr string }

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

var errStatus = errors.New("unexpected status")
