package listen

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// patience bounds what should take no time at all.
const patience = 10 * time.Second

// entrance is a door on a real socket, and the connections that came through.
type entrance struct {
	*Door
	t    *testing.T
	in   chan net.Conn
	end  chan error
	logs *observer.ObservedLogs
}

func openDoor(t *testing.T, limit int) *entrance {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	core, logs := observer.New(zap.InfoLevel)
	e := &entrance{Door: NewDoor(l, limit, zap.New(core)), t: t, in: make(chan net.Conn, 64), end: make(chan error, 1), logs: logs}
	go func() {
		for {
			conn, err := e.Accept()
			if err != nil {
				e.end <- err
				return
			}
			e.in <- conn
		}
	}()
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func (e *entrance) knock() net.Conn {
	e.t.Helper()
	conn, err := new(net.Dialer).DialContext(e.t.Context(), "tcp", e.Addr().String())
	require.NoError(e.t, err, "whoever waits is connected already, by the kernel")
	e.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (e *entrance) comes() net.Conn {
	e.t.Helper()
	select {
	case conn := <-e.in:
		return conn
	case <-time.After(patience):
		require.Fail(e.t, "nobody comes in")
		return nil
	}
}

// full waits until the door is known to be.
func (e *entrance) full(times int64) {
	e.t.Helper()
	require.Eventually(e.t, func() bool {
		open, limit, reached := e.state()
		return open >= limit && reached == times
	}, patience, time.Millisecond)
	require.Empty(e.t, e.in)
}

func TestWhoeverComesToAFullDoorWaitsUntilOneLeaves(t *testing.T) {
	t.Parallel()
	e := openDoor(t, 2)
	for range 4 {
		e.knock()
	}
	first, second := e.comes(), e.comes()
	e.full(1)
	require.NoError(t, first.Close())
	_ = first.Close() // a second time, which gives no second place
	third := e.comes()
	e.full(2)
	require.Equal(t, 1, e.logs.Len(), "it is told once")
	require.Equal(t, int64(2), e.logs.All()[0].ContextMap()["limit"])

	e.Limit(3)
	fourth := e.comes()
	e.Limit(1)
	for _, c := range []net.Conn{second, third} {
		require.NoError(t, c.Close())
	}
	e.knock()
	require.Eventually(t, func() bool { open, limit, _ := e.state(); return open == 1 && limit == 1 }, patience, time.Millisecond)
	require.Empty(t, e.in, "under a smaller limit nobody comes in, and nobody is put out")
	_, err := fourth.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, fourth.Close())
	e.comes()

	require.NoError(t, e.Close(), "also while it is full")
	require.ErrorIs(t, <-e.end, net.ErrClosed)
	_ = e.Close()
}

// What a server does with TCP connections it can do with these.
func TestAConnectionThroughADoorIsStillTCP(t *testing.T) {
	t.Parallel()
	e := openDoor(t, 1)
	out := e.knock()
	in := e.comes()
	_, ok := in.(io.ReaderFrom)
	require.True(t, ok, "files leave by the kernel")
	half, ok := in.(interface{ CloseWrite() error })
	require.True(t, ok)
	require.NoError(t, half.CloseWrite())
	_, err := io.ReadAll(out)
	require.NoError(t, err, "the end is an orderly one")
}

// A listener whose Accept fails loses no place over it.
type failing struct{ net.Listener }

func (failing) Accept() (net.Conn, error) { return nil, errors.New("too many open files") }

func TestAFailedAcceptGivesThePlaceBack(t *testing.T) {
	t.Parallel()
	d := NewDoor(failing{}, 1, zap.NewNop())
	for range 5 {
		_, err := d.Accept()
		require.ErrorContains(t, err, "too many open files")
	}
	open, _, reached := d.state()
	require.Equal(t, []any{0, int64(0)}, []any{open, reached})
}
