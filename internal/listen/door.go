// Package listen is what stands between the network and a server: how many connections it has at once, and the certificates that it shows and asks
// for. It knows neither HTTP's requests nor accounts.
package listen

import (
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
)

// tellEvery is how long a door that is full again is not told of again.
const tellEvery = 10 * time.Minute

// Door is a listener that lets so many connections in at once. Those beyond wait where the kernel keeps them, in the listener's backlog, until one
// ends; nobody is turned away. It is safe for concurrent use.
type Door struct {
	net.Listener
	log *zap.Logger

	mu      sync.Mutex
	limit   int
	open    int           // those that are there, and the one that is waited for
	coming  int           // of those, the ones that are waited for
	reached int64         // times that the limit was
	changed chan struct{} // closed at each change that lets somebody in, and then another
	closed  bool
	told    time.Time // when it was last told that it is full
}

// NewDoor lets so many connections in at once, at least one.
func NewDoor(l net.Listener, limit int, log *zap.Logger) *Door {
	return &Door{Listener: l, log: log, limit: limit, changed: make(chan struct{})}
}

// Accept waits until there is room, and then for the next connection.
func (d *Door) Accept() (net.Conn, error) {
	for first := true; ; first = false {
		turn, err := d.enter(first)
		if err != nil {
			return nil, err
		}
		if turn == nil {
			break
		}
		<-turn
	}
	conn, err := d.Listener.Accept()
	d.came()
	if err != nil {
		d.leave()
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &tcpConn{TCPConn: tcp, door: d}, nil
	}
	return &plainConn{Conn: conn, door: d}, nil
}

// enter takes a place or, where there is none, gives what is closed when it is worth while to try again.
func (d *Door) enter(first bool) (turn <-chan struct{}, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, net.ErrClosed
	case d.open < d.limit:
		d.open++
		d.coming++
		return nil, nil //nolint:nilnil // there is nothing to wait for
	case first:
		d.reached++
		if now := time.Now(); d.told.IsZero() || now.Sub(d.told) > tellEvery {
			d.told = now
			d.log.Warn("a listener has as many connections as it may; further ones wait until one ends", zap.Stringer("listen", d.Addr()), zap.Int("limit", d.limit))
		}
	}
	return d.changed, nil
}

func (d *Door) came() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.coming--
}

func (d *Door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	d.wake()
}

// wake lets those try again who wait; mu is held.
func (d *Door) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Limit changes how many connections there may be. Those above a smaller limit stay.
func (d *Door) Limit(limit int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if limit != d.limit {
		d.limit, d.told = limit, time.Time{}
		d.wake()
	}
}

// Close ends the listener, not its connections.
func (d *Door) Close() error {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		d.wake()
	}
	d.mu.Unlock()
	return d.Listener.Close()
}

// state is how many connections there are and may be, and how often there were so many.
func (d *Door) state() (open, limit int, reached int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open - d.coming, d.limit, d.reached
}

// tcpConn is a connection that gives its place back. It keeps what else a TCP connection can do: files leave by the kernel, and one direction is
// closed before the other.
type tcpConn struct {
	*net.TCPConn
	door *Door
	once sync.Once
}

func (c *tcpConn) Close() error {
	err := c.TCPConn.Close()
	c.once.Do(c.door.leave)
	return err
}

// plainConn is one of another kind of network.
type plainConn struct {
	net.Conn
	door *Door
	once sync.Once
}

func (c *plainConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.door.leave)
	return err
}
