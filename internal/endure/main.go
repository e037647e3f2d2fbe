// Command endure shows on the machine at hand what the dead letters promise: that a storm of them is durable as fast as bare durable writes
// allow, and that no kill -9 costs one. Both run the real program as a process and look at its folder afterwards, file by file.
//
//	go run ./internal/endure storm -size 20480   an open circuit under as many documents a second as 0.6 of a bare loop's writes
//	go run ./internal/endure crash -rounds 300   kill -9 at random moments under load
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
)

var errUsage = errors.New("use: endure storm|crash [flags]; -h lists them")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "endure:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := flags.String("dir", "", "folder on the disk to try; empty: the system's temp folder")
	var s storm
	var c crash
	var do func(context.Context, place) error
	switch args[0] {
	case "storm":
		s.flags(flags)
		do = s.run
	case "crash":
		c.flags(flags)
		do = c.run
	default:
		return errUsage
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	p, err := newPlace(ctx, *dir, out)
	if err != nil {
		return err
	}
	defer p.remove()
	return do(ctx, p)
}

// place is where a trial happens.
type place struct {
	dir     string    // A folder of its own.
	product string    // The program.
	out     io.Writer // Gets the figures.
}

func newPlace(ctx context.Context, parent string, out io.Writer) (place, error) {
	dir, err := os.MkdirTemp(parent, "ocr-proxy-endure-")
	if err != nil {
		return place{}, err
	}
	p := place{dir: dir, product: filepath.Join(dir, "ocr-proxy.exe"), out: out}
	if err := child.Build(ctx, p.product); err != nil {
		p.remove()
		return place{}, err
	}
	return p, nil
}

func (p place) remove() { _ = os.RemoveAll(p.dir) }

// folder makes a folder of that name anew.
func (p place) folder(name string) (string, error) {
	dir := filepath.Join(p.dir, name)
	return dir, os.MkdirAll(dir, 0o700)
}

func (p place) say(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format+"\n", args...) }

// rounded is a duration as people read it.
func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
