package child

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// patience is how long a process may take to start or to end.
const patience = 60 * time.Second

// keptLog is how many bytes of a process's log are kept for an error message.
const keptLog = 64 << 10

var (
	errEnded = errors.New("it ended before it was ready")
	errLate  = errors.New("it does not become ready")
)

// Ready is the line by which a child says that it serves.
const Ready = `{"msg":"ready"}` + "\n"

// Command is a program that says on its standard error, in lines of JSON, where it listens ("listening", with provider and listen) and that it
// is "ready".
type Command struct {
	Name string // For messages.
	Path string
	Args []string
	Env  []string  // Added to this process's own.
	Log  io.Writer // Gets all that it says; nil: nobody does.
}

// Process is a running Command.
type Process struct {
	name    string
	cmd     *exec.Cmd
	log     textBuffer
	reading sync.WaitGroup

	mu    sync.Mutex
	addrs map[string]string
}

// Spawn starts the program; ready tells once when it serves, or why it does not.
func (c Command) Spawn(ctx context.Context) (x *Process, ready <-chan error, err error) {
	x = &Process{name: c.Name, cmd: exec.CommandContext(ctx, c.Path, c.Args...), addrs: map[string]string{}}
	x.cmd.Env = append(os.Environ(), c.Env...)
	log, err := x.cmd.StderrPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := x.cmd.Start(); err != nil {
		return nil, nil, err
	}
	told := make(chan error, 1)
	said := io.Reader(log)
	if c.Log != nil {
		said = io.TeeReader(log, c.Log)
	}
	x.reading.Go(func() { x.read(said, told) })
	return x, told, nil
}

// Start is Spawn and the wait for its readiness, at most a minute. A program that does not get ready is killed.
func (c Command) Start(ctx context.Context) (*Process, error) {
	x, ready, err := c.Spawn(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case err = <-ready:
	case <-time.After(patience):
		err = errLate
	}
	if err != nil {
		x.Kill()
		return nil, fmt.Errorf("start %s: %w\n%s", c.Name, err, x.Log())
	}
	return x, nil
}

// read takes the addresses out of the log and keeps some of it.
func (x *Process) read(log io.Reader, told chan<- error) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	isReady := false
	for lines.Scan() {
		x.log.line(lines.Bytes())
		if isReady {
			continue
		}
		var e struct{ Msg, Provider, Listen string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		switch e.Msg {
		case "listening":
			x.mu.Lock()
			x.addrs[e.Provider] = e.Listen
			x.mu.Unlock()
		case "ready":
			isReady = true
			told <- nil
		}
	}
	if !isReady {
		told <- errEnded
	}
	_, _ = io.Copy(io.Discard, log) // after a line that was too long
}

// Addr is where the process listens for that account.
func (x *Process) Addr(account string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.addrs[account]
}

// Log is the beginning of what the process has said; complete once it has ended.
func (x *Process) Log() string { return x.log.text() }

// PID is the number of the process.
func (x *Process) PID() int { return x.cmd.Process.Pid }

// State tells of a process that has ended.
func (x *Process) State() *os.ProcessState { return x.cmd.ProcessState }

// Signal sends the process a signal.
func (x *Process) Signal(s os.Signal) error { return x.cmd.Process.Signal(s) }

// Kill ends the process as kill -9 does, and waits until it is gone.
func (x *Process) Kill() {
	_ = x.cmd.Process.Kill()
	x.reading.Wait()
	_ = x.cmd.Wait()
}

// Stop asks the process to end and waits for it; after a minute it is killed. The error says that it did not end well.
func (x *Process) Stop() error { return x.StopBy(os.Interrupt) }

// StopBy is Stop with another signal.
func (x *Process) StopBy(s os.Signal) error {
	if err := x.cmd.Process.Signal(s); err != nil {
		x.Kill() // Where there is no such signal there is no such end.
		return nil
	}
	late := time.AfterFunc(patience, func() { _ = x.cmd.Process.Kill() })
	defer late.Stop()
	x.reading.Wait()
	if err := x.cmd.Wait(); err != nil {
		return fmt.Errorf("end of %s: %w\n%s", x.name, err, x.Log())
	}
	return nil
}

// textBuffer keeps the beginning of a text that one goroutine writes and others read.
type textBuffer struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

func (b *textBuffer) line(text []byte) {
	_, _ = b.Write(text)
	_, _ = b.Write([]byte{'\n'})
}

// Write never fails; what is beyond the limit is dropped.
func (b *textBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept.Len() < keptLog {
		b.kept.Write(p)
	}
	return len(p), nil
}

func (b *textBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept.String()
}
