package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
	"github.com/ocr-proxy/ocr-proxy/internal/sim"
)

// mischief is something that is done to the proxy or to what it depends on. It lasts for about d and leaves everything as it was.
type mischief struct {
	name string
	do   func(ctx context.Context, d time.Duration) error
}

func (s *soak) mischiefs() []mischief {
	all := []mischief{
		{"outage, 503", func(ctx context.Context, d time.Duration) error { return s.outage(ctx, d, sim.OutageUnavailable) }},
		{"replay of letters", s.replay},
		{"reload by SIGHUP", s.reload},
		{"providers killed and started", s.killProviders},
		{"throttles with Retry-After", s.throttle},
		{"disk full and back", s.fillDisk},
		{"Redis killed and restarted empty", s.killRedis},
		{"broken configuration, then a good one", s.breakConfig},
		{"outage, connections refused", func(ctx context.Context, d time.Duration) error { return s.outage(ctx, d, sim.OutageRefuse) }},
		{"replay of letters", s.replay},
		{"outage, no answers", func(ctx context.Context, d time.Duration) error { return s.outage(ctx, d, sim.OutageHang) }},
		{"configuration replaced", s.replaceConfig},
	}
	if s.redis != nil {
		return all
	}
	without := all[:0]
	for _, m := range all {
		if m.name != "Redis killed and restarted empty" {
			without = append(without, m)
		}
	}
	return without
}

func (s *soak) outage(ctx context.Context, d time.Duration, mode sim.OutageMode) error {
	o := daily()
	o.Faults.Down, o.Faults.OutageMode = true, mode
	return s.meanwhile(ctx, d, o)
}

func (s *soak) throttle(ctx context.Context, d time.Duration) error {
	o := daily()
	o.Faults.Throttle, o.Faults.RetryAfter = 8, 1
	return s.meanwhile(ctx, d, o)
}

// meanwhile gives the providers other orders for a time.
func (s *soak) meanwhile(ctx context.Context, d time.Duration, o orders) error {
	if err := s.tell(ctx, o); err != nil {
		return err
	}
	sleep(ctx, d)
	return s.tell(context.WithoutCancel(ctx), daily())
}

func (s *soak) killProviders(ctx context.Context, d time.Duration) error {
	s.providers.Kill()
	sleep(ctx, min(d, 3*time.Second))
	return s.startProviders(ctx)
}

func (s *soak) killRedis(ctx context.Context, d time.Duration) error {
	s.redis.Kill()
	sleep(ctx, min(d, 5*time.Second))
	return s.redis.Start(ctx)
}

// fillDisk takes all room away for a time. What fails meanwhile may have no letter; a worker is told that.
func (s *soak) fillDisk(ctx context.Context, d time.Duration) error {
	w := window{from: time.Now()}
	full, roomy := s.volume.fill, func() error { return s.volume.small(false) }
	if s.volume.small == nil {
		full, roomy = func() error { return s.limit("1") }, func() error { return s.limit("100GiB") }
	}
	if err := full(); err != nil {
		return err
	}
	sleep(ctx, min(d, 6*time.Second))
	if err := roomy(); err != nil {
		return err
	}
	w.to = time.Now().Add(time.Second) // Those that were being answered.
	s.fulls = append(s.fulls, w)
	return nil
}

func (s *soak) limit(maxBytes string) error {
	s.maxBytes = maxBytes
	if err := s.configure(s.text()); err != nil {
		return err
	}
	return s.proxy.Signal(syscall.SIGHUP)
}

func (s *soak) reload(ctx context.Context, d time.Duration) error {
	s.variant++
	if err := s.configure(s.text()); err != nil {
		return err
	}
	if err := s.proxy.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	return errors.Join(s.reloaded(ctx, 1), idle(ctx, d/2))
}

// breakConfig gives the proxy a file that it must refuse, while it goes on as before.
func (s *soak) breakConfig(ctx context.Context, d time.Duration) error {
	if err := s.configure("providers: [{name: nothing, kind: no-such-kind}]\n"); err != nil {
		return err
	}
	if err := s.proxy.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	err := s.reloaded(ctx, 0)
	sleep(ctx, d/2)
	return errors.Join(err, s.reload(ctx, d/2))
}

// replaceConfig gives it a good one and no signal: it looks by itself.
func (s *soak) replaceConfig(ctx context.Context, d time.Duration) error {
	s.variant++
	if err := s.configure(s.text()); err != nil {
		return err
	}
	return idle(ctx, d)
}

// reloaded waits until the proxy says whether it has taken its configuration.
func (s *soak) reloaded(ctx context.Context, want float64) error {
	until := time.Now().Add(10 * time.Second)
	for time.Now().Before(until) && ctx.Err() == nil {
		m, err := child.Scrape(ctx, s.admin)
		if err != nil {
			return err
		}
		if v, ok := m.Sum("ocrproxy_config_last_reload_successful"); ok && v == want {
			return nil
		}
		pause(50 * time.Millisecond)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("ocrproxy_config_last_reload_successful does not become %v", want)
}

// replay has the command send letters again for a time, and stops it in the middle if it is not done. Batches are left out, because a batch is sent
// again as a whole, and so is the account that may repeat nothing.
func (s *soak) replay(ctx context.Context, d time.Duration) error {
	for _, account := range []string{"mistral", "documentai", "textract", "azure"} {
		ctx, cancel := context.WithTimeout(ctx, max(d/4, time.Second))
		cmd := exec.CommandContext(ctx, s.product, "dlq", "replay", "--config", s.config(), "--provider", account, "--output", "json")
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 10 * time.Second
		text, err := cmd.Output()
		stopped := ctx.Err() != nil
		cancel()
		var counts struct{ Resolved int }
		if json.Unmarshal(text, &counts) == nil {
			s.resolved += counts.Resolved
		}
		var exit *exec.ExitError
		if err != nil && !stopped && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			return fmt.Errorf("dlq replay: %w", err)
		}
		s.replays++
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func idle(ctx context.Context, d time.Duration) error {
	sleep(ctx, d)
	return nil
}
