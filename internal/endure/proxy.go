package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// patience is how long a process may take to start or to end.
const patience = 60 * time.Second

// account is one entry of the program's configuration.
type account struct{ name, kind, upstream, more string }

// proxy is one process of the program.
type proxy struct {
	cmd     *exec.Cmd
	addrs   map[string]string // Of the accounts, by name.
	log     strings.Builder   // The end of it; complete once the process has ended.
	reading sync.WaitGroup
}

var errNotReady = errors.New("it ended before it was ready")

// config writes a configuration; letters go to the folder of that name.
func (p place) config(letters, more string, accounts ...account) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "admin: {listen: %q}\nbody: {dir: %q}\ndead_letters: {dir: %q}\n%sproviders:\n", "127.0.0.1:0", p.dir, letters, more)
	for _, a := range accounts {
		fmt.Fprintf(&b, "  - {name: %s, kind: %s, listen: %q, upstream: %q%s}\n", a.name, a.kind, "127.0.0.1:0", a.upstream, a.more)
	}
	path := filepath.Join(p.dir, "config.yaml")
	return path, os.WriteFile(path, []byte(b.String()), 0o600)
}

// spawn starts the program; ready tells when it serves.
func (p place) spawn(ctx context.Context, config string) (x *proxy, ready <-chan error, err error) {
	x = &proxy{cmd: exec.CommandContext(ctx, p.product, "serve", "--config", config), addrs: map[string]string{}}
	log, err := x.cmd.StderrPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := x.cmd.Start(); err != nil {
		return nil, nil, err
	}
	told := make(chan error, 1)
	x.reading.Go(func() { x.read(log, told) })
	return x, told, nil
}

// start is spawn and the wait for its readiness.
func (p place) start(ctx context.Context, config string) (*proxy, error) {
	x, ready, err := p.spawn(ctx, config)
	if err != nil {
		return nil, err
	}
	select {
	case err = <-ready:
	case <-time.After(patience):
		err = errors.New("it does not become ready")
	}
	if err != nil {
		x.kill()
		return nil, fmt.Errorf("start the program: %w\n%s", err, &x.log)
	}
	return x, nil
}

// read takes the addresses out of the log and keeps some of it.
func (x *proxy) read(log io.Reader, told chan<- error) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	isReady := false
	for lines.Scan() {
		if x.log.Len() < 1<<16 {
			x.log.Write(lines.Bytes())
			x.log.WriteByte('\n')
		}
		if isReady {
			continue
		}
		var e struct{ Msg, Provider, Listen string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		switch e.Msg {
		case "listening":
			x.addrs[e.Provider] = e.Listen
		case "ready":
			isReady = true
			told <- nil
		}
	}
	if !isReady {
		told <- errNotReady
	}
	_, _ = io.Copy(io.Discard, log) // after a line that was too long
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (x *proxy) kill() {
	_ = x.cmd.Process.Kill()
	x.reading.Wait()
	_ = x.cmd.Wait()
}

// stop asks the process to end and waits for it.
func (x *proxy) stop() error {
	if err := x.cmd.Process.Signal(os.Interrupt); err != nil {
		x.kill() // Where there is no such signal there is no such end.
		return nil
	}
	late := time.AfterFunc(patience, func() { _ = x.cmd.Process.Kill() })
	defer late.Stop()
	x.reading.Wait()
	if err := x.cmd.Wait(); err != nil {
		return fmt.Errorf("end of the program: %w\n%s", err, &x.log)
	}
	return nil
}

// command runs the program to its end and gives what it prints.
func (p place) command(ctx context.Context, args ...string) ([]byte, error) {
	var errs strings.Builder
	cmd := exec.CommandContext(ctx, p.product, args...)
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ocr-proxy %s: %w\n%s%s", strings.Join(args, " "), err, errs.String(), text)
	}
	return text, nil
}
