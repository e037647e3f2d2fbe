package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
)

// bench owns the processes of one measurement.
type bench struct {
	dir, product string
	options      options
	addrs        map[string]string
	children     []*child.Process
}

func (b *bench) addr(name string) string { return b.addrs[name] }

// start runs the provider in that role and every proxy in front of it, each a process of its own so that none pays for another's garbage.
func (b *bench) start(ctx context.Context, provider string) error {
	b.addrs = map[string]string{}
	names := []string{"provider", "bare", "spill", "ocr-proxy", "admin"}
	free, err := child.FreeAddresses(ctx, len(names))
	if err != nil {
		return err
	}
	for i, name := range names {
		b.addrs[name] = free[i]
	}
	upstream := "http://" + b.addrs["provider"]
	self, err := os.Executable()
	if err != nil {
		return err
	}
	config := filepath.Join(b.dir, "config.yaml")
	text := fmt.Sprintf(`
admin: {listen: %q}
body: {dir: %q}
dead_letters: {dir: %q}
breaker: {failure_threshold: 1000000}
retry: {total_budget: 10m, attempt_timeout: 5m, cap_delay: 5m, budget: {ratio: 0}}
providers:
  - {name: bench, kind: generic, listen: %q, upstream: %q}
`, b.addrs["admin"], filepath.Join(b.dir, "spool"), filepath.Join(b.dir, "letters"), b.addrs["ocr-proxy"], upstream)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	for _, c := range []child.Command{
		{Name: "provider", Path: self, Args: []string{"-role", provider, "-addr", b.addrs["provider"]}},
		{Name: "bare", Path: self, Args: []string{"-role", "bare", "-addr", b.addrs["bare"], "-upstream", upstream}},
		{Name: "spill", Path: self, Args: []string{"-role", "spill", "-addr", b.addrs["spill"], "-upstream", upstream}},
		{Name: "ocr-proxy", Path: b.product, Args: []string{"serve", "--config", config}},
	} {
		c.Env = []string{"TMPDIR=" + b.dir}
		x, err := c.Start(ctx)
		if err != nil {
			return err
		}
		b.children = append(b.children, x)
	}
	return nil
}

// stop ends the processes that start began, and only those. Requests that wait for minutes are not waited for.
func (b *bench) stop() {
	for _, x := range b.children {
		x.Kill()
	}
}

// serveRole is the life of a child process.
func serveRole(o options) error {
	var h http.Handler
	switch o.role {
	case "provider":
		h = http.HandlerFunc(answer)
	case "faltering":
		h = http.HandlerFunc(falter)
	case "bare", "spill":
		var err error
		if h, err = bareProxy(o.upstream, o.role == "spill"); err != nil {
			return err
		}
	default:
		return fmt.Errorf("no role is called %q", o.role)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", o.addr)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(os.Stderr, child.Ready); err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	return s.Serve(l)
}

// answer is a provider that reads the document and says what an OCR answer of 20 KB would.
func answer(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(ocrAnswer())
}

// falter is a provider that asks everybody to come back much later. It does not throttle: then the first answer would hold all the others
// in the queue before their first attempt.
func falter(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Retry-After", "240")
	w.WriteHeader(http.StatusServiceUnavailable)
}
