package share

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/pace"
)

// slowWay is the address of a server that is reached over a way that takes so long in one direction.
func slowWay(t *testing.T, server string, takes time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			conns.Go(func() {
				defer far.Close()
				for chunk := range chunks(near, takes) {
					time.Sleep(time.Until(chunk.due))
					_, _ = far.Write(chunk.text)
				}
			})
			conns.Go(func() {
				defer near.Close()
				_, _ = io.Copy(near, far)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); conns.Wait() })
	return "redis://" + l.Addr().String()
}

type chunk struct {
	text []byte
	due  time.Time
}

// chunks are what is read from a connection, each with when it arrives at the other end.
func chunks(from net.Conn, takes time.Duration) <-chan chunk {
	all := make(chan chunk, 1000)
	go func() {
		defer close(all)
		for {
			text := make([]byte, 4<<10)
			n, err := from.Read(text)
			if err != nil {
				return
			}
			all <- chunk{text[:n], time.Now().Add(takes)}
		}
	}()
	return all
}

// A server that is far away does not make the rate slower than it is.
func TestASlowServerDoesNotSlowTheRate(t *testing.T) {
	t.Parallel()
	server := startServer(t).address()[len("redis://"):]
	s := settings()
	s.Rate = 100
	all := newSidecars(t, 2, slowWay(t, server, 150*time.Millisecond), s)
	var total atomic.Int64
	call := func() pace.Result {
		total.Add(1)
		time.Sleep(20 * time.Millisecond)
		return pace.Accepted
	}
	before := int64(0)
	run(t, all, 20, call, 2*time.Second, func(int64, int64) bool {
		n := total.Load()
		together := n - before
		before = n
		t.Logf("%d calls in 2s", together)
		return together >= 170 && together <= 230
	})
}
