package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
)

// drain ends the proxy: readiness goes first, and while anything is in progress new requests are still taken, because in a pod the worker may
// outlive the signal. When nothing is in progress, or the time is over, the listeners close. What is in progress when the time is over is told
// so and buried; what does not end even then is cut off.
func (s *server) drain() error {
	s.ready.Store(false)
	s.notify(daemon.SdNotifyStopping)
	cfg, servers := s.settle()
	s.replays.Stop()
	timeout := cfg.Shutdown.DrainTimeout
	s.log.Info("draining", zap.Duration("drain_timeout", timeout), zap.Int64("in_progress", s.inProgress()))
	end := time.Now().Add(timeout)
	s.drained = end
	s.idleUntil(end)
	// What was accepted in the last moment has the rest of the time.
	over := time.AfterFunc(time.Until(end), func() { s.end(proxy.ErrShutdown) })
	defer over.Stop()
	ctx, cancel := context.WithDeadline(context.Background(), later(end, time.Now()).Add(grace))
	defer cancel()
	var stopping sync.WaitGroup
	for _, b := range servers {
		stopping.Go(func() { _ = b.Shutdown(ctx) }) // a failure shows in what is still in progress
	}
	stopped := make(chan struct{})
	go func() { stopping.Wait(); close(stopped) }()
	select {
	case <-stopped:
	case <-s.quietAfter(ctx, idleGrace):
	}
	n := s.inProgress()
	for _, b := range servers {
		_ = b.Close()
	}
	<-stopped
	adminCtx, adminCancel := context.WithTimeout(context.Background(), idleGrace)
	defer adminCancel()
	if s.admin.Shutdown(adminCtx) != nil {
		_ = s.admin.Close() // a scraper's open connection holds nobody up
	}
	if n > 0 {
		return fmt.Errorf("cut off %d in progress after the drain_timeout of %s", n, timeout)
	}
	s.log.Info("ended")
	return nil
}

// quietAfter is closed when nothing has been in progress for d, or the context ends: a connection that a client keeps open, with or without a
// word on it, is not worth waiting for longer.
func (s *server) quietAfter(ctx context.Context, d time.Duration) <-chan struct{} {
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		for since := time.Now(); time.Since(since) < d && ctx.Err() == nil; time.Sleep(idlePoll) {
			if s.inProgress() > 0 {
				since = time.Now()
			}
		}
	}()
	return quiet
}

// idleUntil waits until nothing is in progress, or until the end.
func (s *server) idleUntil(end time.Time) {
	for s.inProgress() > 0 && time.Now().Before(end) {
		time.Sleep(idlePoll)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *server) inProgress() (n int64) {
	for _, st := range s.parts.standing { // those of accounts that were taken out, too
		n += st.purse.InProgress()
	}
	return n
}
