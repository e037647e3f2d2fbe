package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"
)

// redisServer is one that keeps nothing and ends with its scenario.
type redisServer struct {
	command, dir string
	host, port   string
	cmd          *exec.Cmd
}

var errNoRedis = errors.New("redis-server is not on PATH")

func (p place) redis(ctx context.Context) (*redisServer, error) {
	command, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}
	addr, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	r := &redisServer{command: command, dir: p.dir, host: host, port: port}
	return r, r.start(ctx)
}

func (r *redisServer) url() string { return "redis://" + net.JoinHostPort(r.host, r.port) }

// start runs the server, on the same port each time, and waits until it answers.
func (r *redisServer) start(ctx context.Context) error {
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
			r.kill()
			return fmt.Errorf("redis-server does not answer: %w", err)
		}
		pause(ctx, 20*time.Millisecond)
	}
}

func (r *redisServer) ping(ctx context.Context) error {
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

// kill ends the server as kill -9 does.
func (r *redisServer) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}
