// Package memnet is a network in memory for tests: listeners, dialers and connections made of mutexes and condition variables, on which
// real HTTP clients and servers run inside testing/synctest bubbles. It is imported by tests only.
package memnet

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
)

// Network joins dialers with the listeners of the same address. The zero value is an empty network that is ready for use; it is safe for
// concurrent use.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	dials     int
}

// Listen opens a listener. The address, such as "provider:80", is any text that no open listener has; dialers spell it alike.
func (n *Network) Listen(address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[address] != nil {
		return nil, &net.OpError{Op: "listen", Net: networkName, Addr: addr(address), Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	l := &listener{network: n, address: addr(address), waiting: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[address] = l
	return l, nil
}

// DialContext connects to a listener and waits until it accepts. Without a listener of that address it fails as a machine does that refuses
// connections: the error wraps syscall.ECONNREFUSED. It fits http.Transport.DialContext; the network's name is not looked at.
func (n *Network) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: networkName, Addr: addr(address), Err: err}
	}
	n.mu.Lock()
	n.dials++
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	client, server := Pipe("dialer", address)
	select {
	case l.waiting <- server:
		return client, nil
	case <-l.closed:
		return fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	case <-ctx.Done():
		return fail(context.Cause(ctx))
	}
}

// Dials is how often somebody has dialled, refused connections included.
func (n *Network) Dials() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

type listener struct {
	network *Network
	address addr
	waiting chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.waiting:
		return conn, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: networkName, Addr: l.address, Err: net.ErrClosed}
	}
}

func (l *listener) Close() error {
	err := errors.New("memnet: the listener is closed already")
	l.once.Do(func() {
		err = nil
		l.network.mu.Lock()
		delete(l.network.listeners, string(l.address))
		l.network.mu.Unlock()
		close(l.closed)
	})
	return err
}

func (l *listener) Addr() net.Addr { return l.address }

const networkName = "mem"

type addr string

func (a addr) Network() string { return networkName }
func (a addr) String() string  { return string(a) }
