package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
	"github.com/ocr-proxy/ocr-proxy/internal/sim"
)

// kinds are the simulated providers, by the names under which sim knows them.
func kinds() []string { return []string{"mistral", "textract", "azure", "vision", "documentai"} }

// accounts are the proxy's listeners with the provider that each leads to and its own settings.
func accounts() [][3]string {
	return [][3]string{
		{"mistral", "mistral", ""},
		{"strict", "mistral", ", retry: {ambiguous: never}"},
		{"textract", "textract", ", breaker: {on_open: wait}"},
		{"azure", "azure", ""},
		{"vision", "vision", ""},
		{"documentai", "documentai", ""},
	}
}

// attemptTimeout is how long the proxy waits for one answer; answers that come too late come well after it.
const attemptTimeout = 2 * time.Second

// daily is what goes wrong all the time.
func daily() orders {
	return orders{
		Faults: sim.Faults{
			ErrorRate: 0.04, LoseRate: 0.015, ItemErrorRate: 0.05, Latency: 5 * time.Millisecond, LatencyJitter: 120 * time.Millisecond, JobTime: 300 * time.Millisecond,
		},
		Whims: whims{Reset: 0.01, Break: 0.005, Slow: 0.003, Late: 2 * attemptTimeout},
	}
}

// stage is where the soak happens: the processes and their files.
type stage struct {
	dir, product, self string
	volume             volume
	admin, control     string
	listen, upstream   map[string]string // Addresses, by account and by kind.
	proxy, providers   *child.Process
	redis              *child.Redis
	log                *os.File // Of all processes of the proxy.
	drain              time.Duration

	mu       sync.Mutex
	runs     int
	orders   orders
	variant  int // Of the configuration.
	maxBytes string
}

func (s *stage) letters() string { return filepath.Join(s.volume.dir, "letters") }
func (s *stage) bodies() string  { return filepath.Join(s.volume.dir, "bodies") }
func (s *stage) config() string  { return filepath.Join(s.dir, "ocr-proxy.yaml") }
func (s *stage) journal() string { return filepath.Join(s.dir, "provider.journal") }

// prepare chooses addresses and writes the first configuration.
func (s *stage) prepare(ctx context.Context) error {
	for _, dir := range []string{s.letters(), s.bodies()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	free, err := child.FreeAddresses(ctx, 2+len(accounts())+len(kinds()))
	if err != nil {
		return err
	}
	s.listen, s.upstream = map[string]string{}, map[string]string{}
	s.admin, s.control, free = free[0], free[1], free[2:]
	for i, a := range accounts() {
		s.listen[a[0]] = free[i]
	}
	for i, k := range kinds() {
		s.upstream[k] = free[len(accounts())+i]
	}
	s.orders, s.maxBytes = daily(), "100GiB"
	return s.configure(s.text())
}

// text is the configuration. Its variants differ in what can be changed while the proxy runs.
func (s *stage) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# variant %d\nadmin: {listen: %q}\nbody: {dir: %q, memory_total: 64MiB}\n", s.variant, s.admin, s.bodies())
	fmt.Fprintf(&b, "dead_letters: {dir: %q, max_bytes: %s}\n", s.letters(), s.maxBytes)
	if s.redis != nil {
		fmt.Fprintf(&b, "state: {url: %q}\n", s.redis.URL())
	}
	fmt.Fprintf(&b, "shutdown: {drain_timeout: %s}\nrescue: {max_bytes: 64MiB}\n", s.drain)
	fmt.Fprintf(&b, "retry: {max_attempts: %d, total_budget: 15s, attempt_timeout: %s, base_delay: 50ms, cap_delay: 500ms, budget: {floor: 20}}\n", 4+s.variant%2, attemptTimeout)
	fmt.Fprintf(&b, "breaker: {failure_threshold: %d, reset_timeout: 1s}\npacing: {start_rate: 20, recovery: 3s}\nproviders:\n", 5+s.variant%3)
	for _, a := range accounts() {
		fmt.Fprintf(&b, "  - {name: %s, kind: %s, listen: %q, upstream: %q, auth: {type: none}%s}\n", a[0], a[1], s.listen[a[0]], "http://"+s.upstream[a[1]], a[2])
	}
	return b.String()
}

// configure replaces the file of the configuration, as an editor or a deployment does.
func (s *stage) configure(text string) error {
	if err := os.WriteFile(s.config()+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(s.config()+".new", s.config())
}

// startProviders starts the simulated providers in a process of their own.
func (s *stage) startProviders(ctx context.Context) error {
	s.mu.Lock()
	s.runs++
	spec := providerSpec{Run: strconv.Itoa(s.runs), Seed: uint64(s.runs), Journal: s.journal(), Control: s.control, Listen: s.upstream, Orders: s.orders}
	s.mu.Unlock()
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	x, err := child.Command{Name: "the providers", Path: s.self, Args: []string{"-provider", string(text)}}.Start(ctx)
	if err == nil {
		s.providers = x
	}
	return err
}

// tell gives the providers their orders.
func (s *stage) tell(ctx context.Context, o orders) error {
	s.mu.Lock()
	s.orders = o
	s.mu.Unlock()
	return order(ctx, s.control, o)
}

func (s *stage) startProxy(ctx context.Context) error {
	x, err := child.Command{Name: "ocr-proxy", Path: s.product, Args: []string{"serve", "--config", s.config()}, Log: s.log}.Start(ctx)
	if err == nil {
		s.proxy = x
	}
	return err
}

// stopProxy asks the proxy to end as an orchestrator does. It must end by itself and well.
func (s *stage) stopProxy() error { return s.proxy.StopBy(syscall.SIGTERM) }

// close ends what still runs.
func (s *stage) close() {
	for _, x := range []*child.Process{s.proxy, s.providers} {
		if x != nil && x.State() == nil {
			x.Kill()
		}
	}
	if s.redis != nil {
		s.redis.Kill()
	}
	if s.log != nil {
		_ = s.log.Close()
	}
	s.volume.unmount()
}
