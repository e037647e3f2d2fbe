package child

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"
)

// ErrNoRedis says that there is no Redis server to start.
var ErrNoRedis = errors.New("redis-server is not on PATH")

// Redis is a Redis server that keeps nothing.
type Redis struct {
	command, dir string
	host, port   string
	cmd          *exec.Cmd
}

// StartRedis starts one on a free port and waits until it answers. The error wraps ErrNoRedis where there is none on PATH.
func StartRedis(ctx context.Context, dir string) (*Redis, error) {
	command, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrNoRedis
	}
	addr, err := FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	r := &Redis{command: command, dir: dir, host: host, port: port}
	return r, r.Start(ctx)
}

// URL is what state.url takes.
func (r *Redis) URL() string { return "redis://" + net.JoinHostPort(r.host, r.port) }

// Start starts it again, empty and on the same port, and waits until it answers.
func (r *Redis) Start(ctx context.Context) error {
	r.cmd = exec.CommandContext(ctx, r.command, "--bind", r.host, "--port", r.port, "--save", "", "--appendonly", "no", "--dir", r.dir)
	if err := r.cmd.Start(); err != nil {
		return err
	}
	began := time.Now()
	for {
		err := r.ping(ctx)
		if err == nil {
			return nil
		}
		if time.Since(began) > patience || ctx.Err() != nil {
			r.Kill()
			return fmt.Errorf("redis-server does not answer: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (r *Redis) ping(ctx context.Context) error {
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(r.host, r.port))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 64)
	n, err := c.Read(answer)
	if err == nil && !strings.HasPrefix(string(answer[:n]), "+PONG") {
		err = fmt.Errorf("it answers %q", answer[:n])
	}
	return err
}

// Kill ends the server as kill -9 does.
func (r *Redis) Kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}
