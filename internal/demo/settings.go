package demo

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// resetTimeout is how long the breaker stays open before it lets a probe through, in a story at its usual pace.
const resetTimeout = 2 * time.Second

// settings are the files and addresses of the proxy that the demo runs.
type settings struct {
	config, log, letters string
	admin                string            // host:port
	listen               map[string]string // host:port by account
}

// writeSettings picks free ports and writes the configuration into dir.
func writeSettings(ctx context.Context, dir string, upstreams map[string]string, pace float64) (settings, error) {
	s := settings{
		config: filepath.Join(dir, "ocr-proxy.yaml"), log: filepath.Join(dir, "proxy.log"), letters: filepath.Join(dir, "dead-letters"),
		listen: map[string]string{},
	}
	ports, err := freePorts(ctx, 1+len(accounts()))
	if err != nil {
		return s, err
	}
	s.admin = ports[0]
	var b strings.Builder
	fmt.Fprintf(&b, `# Written by "ocr-proxy demo": three accounts at simulated providers, impatient so that the story is short.
admin: {listen: %q}
shutdown: {drain_timeout: 5s}
dead_letters: {dir: %q}
retry: {max_attempts: 3, total_budget: 60s, attempt_timeout: 30s, base_delay: %s, cap_delay: 2s}
breaker: {failure_threshold: 4, reset_timeout: %s}
providers:
`, s.admin, s.letters, paced(250*time.Millisecond, pace), paced(resetTimeout, pace))
	for i, name := range accounts() {
		s.listen[name] = ports[1+i]
		fmt.Fprintf(&b, "  - name: %s\n    kind: %s\n    listen: %q\n    upstream: %q\n    auth: {type: none}\n", name, name, ports[1+i], "http://"+upstreams[name])
		if name == textract {
			b.WriteString("    retry: {max_attempts: 12} # throttling is waited out\n")
		}
	}
	if err := os.WriteFile(s.config, []byte(b.String()), 0o600); err != nil {
		return s, fmt.Errorf("write the configuration of the demo: %w", err)
	}
	return s, nil
}

// freePorts finds n addresses on the loopback interface that nobody listens on.
func freePorts(ctx context.Context, n int) ([]string, error) {
	addresses := make([]string, 0, n)
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port on 127.0.0.1: %w", err)
		}
		defer func() { _ = l.Close() }() // all at the end, so that no port comes twice
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}
