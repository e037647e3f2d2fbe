package demo

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/sim"
)

// The three accounts of the demo. Their names are also those of the simulated providers.
const (
	textract = "textract"
	azure    = "azure"
	mistral  = "mistral"
)

func accounts() []string { return []string{textract, azure, mistral} }

// simulators are the providers, on ports of their own.
type simulators struct {
	servers   map[string]*sim.Server
	addresses map[string]string // host:port
	usual     sim.Faults        // a good day
	stop      context.CancelFunc
	serving   sync.WaitGroup
}

// startSimulators serves until stop is called or the context ends.
func startSimulators(ctx context.Context, seed uint64, pace float64) (*simulators, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &simulators{
		servers: map[string]*sim.Server{}, addresses: map[string]string{}, stop: cancel,
		usual: sim.Faults{Latency: paced(250*time.Millisecond, pace), LatencyJitter: paced(250*time.Millisecond, pace), JobTime: paced(600*time.Millisecond, pace)},
	}
	for _, name := range accounts() {
		server, err := sim.New(sim.Options{Kind: sim.Kind(name), Faults: s.usual, Seed: seed})
		var listener net.Listener
		if err == nil {
			listener, err = server.Listen(ctx, "127.0.0.1:0")
		}
		if err != nil {
			s.close()
			return nil, fmt.Errorf("start the simulated %s: %w", name, err)
		}
		s.servers[name], s.addresses[name] = server, listener.Addr().String()
		s.serving.Go(func() { _ = server.Serve(ctx, listener) }) // a provider that ends early shows in the ledger
	}
	return s, nil
}

func (s *simulators) close() {
	s.stop()
	s.serving.Wait()
}

// set changes what goes wrong at one provider, on top of a usual day.
func (s *simulators) set(name string, change func(*sim.Faults)) error {
	faults := s.usual
	change(&faults)
	if err := s.servers[name].SetFaults(faults); err != nil {
		return fmt.Errorf("change the faults of %s: %w", name, err)
	}
	return nil
}

func (s *simulators) stats() map[string]sim.Stats {
	all := map[string]sim.Stats{}
	for name, server := range s.servers {
		all[name] = server.Stats()
	}
	return all
}

// paced stretches or shortens a time of the story.
func paced(d time.Duration, pace float64) time.Duration { return time.Duration(float64(d) * pace) }
