package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// buffered is how many bytes a direction holds before its writer waits for the reader.
const buffered = 64 << 10

// Conn is one end of a connection. Like a TCP connection it buffers, so that neither side has to wait for the other to read.
type Conn struct {
	in, out       *direction
	local, remote addr
}

// Pipe makes a connection between two addresses and returns its ends.
func Pipe(from, to string) (dialed, accepted *Conn) {
	there, back := newDirection(), newDirection()
	return &Conn{in: back, out: there, local: addr(from), remote: addr(to)},
		&Conn{in: there, out: back, local: addr(to), remote: addr(from)}
}

// Read takes what the other end has written, and waits while there is nothing. After the other end was closed it returns io.EOF.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.name("read", err)
}

// Write gives bytes to the other end, and waits while the buffer is full. When the other end is closed the error wraps syscall.EPIPE.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.name("write", err)
}

// Close ends both directions: the other end reads what was written before, then io.EOF.
func (c *Conn) Close() error {
	c.in.end(nil, net.ErrClosed)
	c.out.end(net.ErrClosed, io.EOF)
	return nil
}

// Reset tears the connection down: what was not read yet is lost, and the other end's reads fail with an error that wraps
// syscall.ECONNRESET.
func (c *Conn) Reset() {
	c.in.end(nil, net.ErrClosed)
	c.out.discard()
	c.out.end(net.ErrClosed, os.NewSyscallError("read", syscall.ECONNRESET))
}

// SetDeadline sets the time after which reads and writes fail with os.ErrDeadlineExceeded; the zero time sets none.
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.reads.set(c.in, t)
	c.out.writes.set(c.out, t)
	return nil
}

// SetReadDeadline is SetDeadline for reads alone.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.reads.set(c.in, t)
	return nil
}

// SetWriteDeadline is SetDeadline for writes alone.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.writes.set(c.out, t)
	return nil
}

// LocalAddr is this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the other end's address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// name gives errors the form that callers know from real connections; io.EOF stays bare.
func (c *Conn) name(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // readers compare with the bare value
		return err
	}
	return &net.OpError{Op: op, Net: networkName, Source: c.local, Addr: c.remote, Err: err}
}

// direction carries bytes one way. Whoever waits does so on the condition, which counts as durably blocked in a bubble.
type direction struct {
	mu            sync.Mutex
	changed       *sync.Cond
	data          []byte
	writeErr      error // why nothing can be written any more; nil: it can
	readErr       error // what a reader gets when there is no more data; nil: it waits
	reads, writes deadline
}

func newDirection() *direction {
	d := &direction{}
	d.changed = sync.NewCond(&d.mu)
	return d
}

func (d *direction) read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.readErr == net.ErrClosed: //nolint:errorlint // our own value: this end was closed, whatever lies in the buffer
			return 0, d.readErr
		case d.reads.over:
			return 0, os.ErrDeadlineExceeded
		case len(d.data) > 0:
			n := copy(p, d.data)
			d.data = d.data[n:]
			d.changed.Broadcast()
			return n, nil
		case d.readErr != nil:
			return 0, d.readErr
		case len(p) == 0:
			return 0, nil
		}
		d.changed.Wait()
	}
}

func (d *direction) write(p []byte) (n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.writeErr != nil:
			return n, d.writeErr
		case d.writes.over:
			return n, os.ErrDeadlineExceeded
		case n == len(p):
			return n, nil
		}
		if room := buffered - len(d.data); room > 0 {
			more := min(room, len(p)-n)
			d.data = append(d.data, p[n:n+more]...)
			n += more
			d.changed.Broadcast()
			continue
		}
		d.changed.Wait()
	}
}

// end closes the direction for its writer, its reader or both. A writer whose reader has gone gets a broken pipe. What came first stays,
// except that a closed end knows only that it is closed.
func (d *direction) end(writeErr, readErr error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.readErr == nil || readErr == net.ErrClosed { //nolint:errorlint // our own value
		d.readErr = readErr
	}
	if writeErr == nil {
		writeErr = os.NewSyscallError("write", syscall.EPIPE)
	}
	if d.writeErr == nil || writeErr == net.ErrClosed { //nolint:errorlint // our own value
		d.writeErr = writeErr
	}
	d.changed.Broadcast()
}

func (d *direction) discard() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.data = nil
}

// deadline is a time after which a direction's reads or writes fail. It is guarded by the direction's mutex.
type deadline struct {
	timer *time.Timer
	over  bool
}

func (l *deadline) set(d *direction, t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.over = !t.IsZero() && time.Until(t) <= 0
	d.changed.Broadcast()
	if t.IsZero() || l.over {
		return
	}
	var own *time.Timer
	own = time.AfterFunc(time.Until(t), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if l.timer == own {
			l.over = true
			d.changed.Broadcast()
		}
	})
	l.timer = own
}
