package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// outageTick is how soon a listener notices that an outage began or ended.
const outageTick = 25 * time.Millisecond

// Listen opens addr for Serve. During an outage of the mode OutageRefuse the port is really closed, so that new connections
// are refused by the system; connections that stand already are reset when they bring a request. The port goes to nobody
// else on this machine unless somebody takes it while it is closed, which ends Serve with an error.
func (s *Server) Listen(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	inner, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", addr, err)
	}
	return &flickering{addr: inner.Addr(), config: &config, shut: s.chaos.refusing, inner: inner, closed: make(chan struct{})}, nil
}

// flickering is a listener that is not there while shut says so.
type flickering struct {
	addr   net.Addr
	config *net.ListenConfig
	shut   func() bool
	once   sync.Once
	closed chan struct{} // Closed by Close.

	mu    sync.Mutex
	inner net.Listener
}

// Accept waits for a connection; it is called by one goroutine only.
func (f *flickering) Accept() (net.Conn, error) {
	for {
		if f.shut() {
			if err := f.away(); err != nil {
				return nil, err
			}
		}
		inner := f.current()
		// The deadline wakes Accept so that the beginning of an outage is seen.
		if tcp, ok := inner.(*net.TCPListener); ok {
			_ = tcp.SetDeadline(time.Now().Add(outageTick))
		}
		conn, err := inner.Accept()
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			continue
		}
		return conn, err
	}
}

func (f *flickering) current() net.Listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inner
}

// away closes the port until the outage is over.
func (f *flickering) away() error {
	_ = f.current().Close()
	ticker := time.NewTicker(outageTick)
	defer ticker.Stop()
	for f.shut() {
		select {
		case <-ticker.C:
		case <-f.closed:
			return net.ErrClosed
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.closed:
		return net.ErrClosed
	default:
	}
	inner, err := f.config.Listen(context.Background(), "tcp", f.addr.String())
	if err != nil {
		return fmt.Errorf("listening again after the outage: %w", err)
	}
	f.inner = inner
	return nil
}

// Close ends Accept for good.
func (f *flickering) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.once.Do(func() { close(f.closed) })
	return f.inner.Close()
}

// Addr is the address that was opened first.
func (f *flickering) Addr() net.Addr { return f.addr }
