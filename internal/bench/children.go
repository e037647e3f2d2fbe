package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// bench owns the processes of one measurement.
type bench struct {
	dir, product string
	options      options
	addrs        map[string]string
	children     []*exec.Cmd
}

func (b *bench) addr(name string) string { return b.addrs[name] }

// start runs the provider in that role and every proxy in front of it, each a process of its own so that none pays for another's garbage.
func (b *bench) start(ctx context.Context, provider string) error {
	b.addrs = map[string]string{}
	for _, name := range []string{"provider", "bare", "spill", "ocr-proxy", "admin"} {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		b.addrs[name] = l.Addr().String()
		if err := l.Close(); err != nil {
			return err
		}
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
	for _, c := range []struct {
		name string
		args []string
	}{
		{"provider", []string{self, "-role", provider, "-addr", b.addrs["provider"]}},
		{"bare", []string{self, "-role", "bare", "-addr", b.addrs["bare"], "-upstream", upstream}},
		{"spill", []string{self, "-role", "spill", "-addr", b.addrs["spill"], "-upstream", upstream}},
		{"ocr-proxy", []string{b.product, "serve", "--config", config}},
	} {
		if err := b.child(ctx, c.name, c.args); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) child(ctx context.Context, name string, args []string) error {
	log, err := os.Create(filepath.Join(b.dir, name+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+b.dir)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	b.children = append(b.children, cmd)
	for range 200 {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", b.addrs[name])
		if err == nil {
			return conn.Close()
		}
		time.Sleep(25 * time.Millisecond)
	}
	text, _ := os.ReadFile(log.Name())
	return fmt.Errorf("%s does not listen on %s: %s", name, b.addrs[name], text)
}

// stop ends the processes that start began, and only those.
func (b *bench) stop() {
	for _, c := range b.children {
		_ = c.Process.Signal(syscall.SIGTERM)
	}
	for _, c := range b.children {
		done := make(chan struct{})
		go func() { _ = c.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(3 * time.Second):
			_ = c.Process.Kill()
			<-done
		}
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
	s := &http.Server{Addr: o.addr, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	return s.ListenAndServe()
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
