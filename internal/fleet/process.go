package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience is how long a process may take to start or to end.
const patience = 30 * time.Second

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
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", p.product, "github.com/ocr-proxy/ocr-proxy/cmd/ocr-proxy")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return p, fmt.Errorf("build the program: %w\n%s", err, text)
	}
	return p, nil
}

func (p place) remove() { _ = os.RemoveAll(p.dir) }

// process is one child of this program.
type process struct {
	cmd     *exec.Cmd
	name    string
	addr    string // of its listener
	admin   string
	letters string // folder of its dead letters
	dir     string

	reading sync.WaitGroup
	log     strings.Builder // the beginning of it; complete once the process has ended
}

var errNotReady = errors.New("it ended before it was ready")

// proxy starts the program in front of the upstream, with those settings, and waits until it serves.
func (p place) proxy(ctx context.Context, upstream, settings string) (*process, error) {
	dir, err := os.MkdirTemp(p.dir, "proxy-")
	if err != nil {
		return nil, err
	}
	x := &process{name: "ocr-proxy", dir: dir, letters: filepath.Join(dir, "letters")}
	if x.admin, err = freeAddress(ctx); err != nil {
		return nil, err
	}
	config := fmt.Sprintf("admin: {listen: %q}\nbody: {dir: %q}\ndead_letters: {dir: %q}\n%sproviders:\n  - {name: ocr, kind: generic, listen: \"127.0.0.1:0\", upstream: %q}\n",
		x.admin, dir, x.letters, settings, "http://"+upstream)
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	return x, x.start(ctx, p.product, "serve", "--config", path)
}

// start runs the command until it says on its standard error where it listens and that it is ready.
func (x *process) start(ctx context.Context, command string, args ...string) error {
	x.cmd = exec.CommandContext(ctx, command, args...)
	log, err := x.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := x.cmd.Start(); err != nil {
		return err
	}
	told := make(chan error, 1)
	x.reading.Go(func() { x.read(log, told) })
	select {
	case err = <-told:
	case <-time.After(patience):
		err = errors.New("it does not become ready")
	}
	if err != nil {
		x.kill()
		return fmt.Errorf("start %s: %w\n%s", x.name, err, &x.log)
	}
	return nil
}

// read takes the address out of the log and keeps some of it.
func (x *process) read(log io.Reader, told chan<- error) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	isReady := false
	for lines.Scan() {
		if x.log.Len() < 1<<14 {
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
			if e.Provider != "" {
				x.addr = e.Listen
			}
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
func (x *process) kill() {
	_ = x.cmd.Process.Kill()
	x.reading.Wait()
	_ = x.cmd.Wait()
}

// stop asks the process to end, waits for it and removes its folder.
func (x *process) stop() {
	if x.cmd.Process.Signal(os.Interrupt) != nil {
		x.kill()
	}
	late := time.AfterFunc(patience, func() { _ = x.cmd.Process.Kill() })
	defer late.Stop()
	x.reading.Wait()
	_ = x.cmd.Wait()
	if x.dir != "" {
		_ = os.RemoveAll(x.dir)
	}
}

// metric is the sum over a metric's series; false: it has none.
func (x *process) metric(ctx context.Context, name string) (sum float64, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+x.admin+"/metrics", http.NoBody)
	if err != nil {
		return 0, false, err
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, false, err
	}
	for line := range strings.Lines(string(text)) {
		rest, found := strings.CutPrefix(line, name)
		if !found || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		if err != nil {
			return 0, false, err
		}
		sum, ok = sum+value, true
	}
	return sum, ok, nil
}

// freeAddress is one that nobody listens on.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
