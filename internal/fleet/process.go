package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
)

// place is where the scenarios happen.
type place struct {
	dir     string // a folder of its own
	product string // the program
	self    string // this program
}

func newPlace(ctx context.Context) (place, error) {
	dir, err := os.MkdirTemp("", "ocr-proxy-fleet-")
	if err != nil {
		return place{}, err
	}
	p := place{dir: dir, product: filepath.Join(dir, "ocr-proxy.exe")}
	if p.self, err = os.Executable(); err != nil {
		return p, err
	}
	return p, child.Build(ctx, p.product)
}

func (p place) remove() { _ = os.RemoveAll(p.dir) }

// process is one child of this program.
type process struct {
	*child.Process
	addr    string // of its listener
	admin   string
	letters string // folder of its dead letters
	dir     string
}

// accountName is what the account is called in the configuration.
const accountName = "ocr"

// proxy starts the program in front of the upstream, with those settings, and waits until it serves.
func (p place) proxy(ctx context.Context, upstream, settings string) (*process, error) {
	dir, err := os.MkdirTemp(p.dir, "proxy-")
	if err != nil {
		return nil, err
	}
	x := &process{dir: dir, letters: filepath.Join(dir, "letters")}
	if x.admin, err = child.FreeAddress(ctx); err != nil {
		return nil, err
	}
	config := fmt.Sprintf("admin: {listen: %q}\nbody: {dir: %q}\ndead_letters: {dir: %q}\n%sproviders:\n  - {name: %s, kind: generic, listen: \"127.0.0.1:0\", upstream: %q}\n",
		x.admin, dir, x.letters, settings, accountName, "http://"+upstream)
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	return x, x.start(ctx, accountName, child.Command{Name: "ocr-proxy", Path: p.product, Args: []string{"serve", "--config", path}})
}

func (x *process) start(ctx context.Context, account string, c child.Command) (err error) {
	if x.Process, err = c.Start(ctx); err != nil {
		return err
	}
	x.addr = x.Addr(account)
	return nil
}

// stop asks the process to end, waits for it and removes its folder. How it ends is no matter here.
func (x *process) stop() {
	_ = x.Stop()
	if x.dir != "" {
		_ = os.RemoveAll(x.dir)
	}
}

// metric is the sum over a metric's series; false: it has none.
func (x *process) metric(ctx context.Context, name string) (sum float64, ok bool, err error) {
	m, err := child.Scrape(ctx, x.admin)
	sum, ok = m.Sum(name)
	return sum, ok, err
}
