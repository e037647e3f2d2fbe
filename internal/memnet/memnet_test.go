package memnet_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ocr-proxy/ocr-proxy/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

func TestHTTPRunsInABubble(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var network memnet.Network
		l, err := network.Listen("provider:80")
		require.NoError(t, err)
		server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			time.Sleep(time.Minute) // fake time: it passes at once
			_, _ = w.Write(body)
		})}
		done := make(chan error, 1)
		go func() { done <- server.Serve(l) }()
		transport := &http.Transport{DialContext: network.DialContext}
		client := &http.Client{Transport: transport}

		document := bytes.Repeat([]byte("page"), 1<<20) // far more than a connection buffers
		start := time.Now()
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://provider/ocr", bytes.NewReader(document))
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.True(t, bytes.Equal(document, got))
		}
		require.Equal(t, 2*time.Minute, time.Since(start))
		require.Equal(t, 1, network.Dials(), "the connection is kept")

		transport.CloseIdleConnections()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
}

func TestDialWithoutAListenerIsRefused(t *testing.T) {
	t.Parallel()
	var network memnet.Network
	_, err := network.DialContext(t.Context(), "tcp", "nobody:80")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	l, err := network.Listen("once:80")
	require.NoError(t, err)
	_, err = network.Listen("once:80")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NoError(t, l.Close())
	require.Error(t, l.Close())
	_, err = network.DialContext(t.Context(), "tcp", "once:80")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestDialEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var network memnet.Network
		_, err := network.Listen("busy:80")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = network.DialContext(ctx, "tcp", "busy:80")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestCloseIsSeenByTheOtherEnd(t *testing.T) {
	t.Parallel()
	a, b := memnet.Pipe("a", "b")
	_, err := a.Write([]byte("last words"))
	require.NoError(t, err)
	require.NoError(t, a.Close())
	got, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Equal(t, "last words", string(got))
	_, err = b.Write([]byte("too late"))
	require.ErrorIs(t, err, syscall.EPIPE)
	_, err = a.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = a.Write([]byte("x"))
	require.ErrorIs(t, err, net.ErrClosed)
	require.Equal(t, "a", b.RemoteAddr().String())
	require.Equal(t, "b", b.LocalAddr().String())
}

func TestResetLosesWhatWasNotRead(t *testing.T) {
	t.Parallel()
	a, b := memnet.Pipe("a", "b")
	_, err := a.Write([]byte("lost"))
	require.NoError(t, err)
	a.Reset()
	n, err := b.Read(make([]byte, 8))
	require.Zero(t, n)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestAWriterWaitsForItsReader(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := memnet.Pipe("a", "b")
		text := strings.Repeat("x", 1<<20)
		written := make(chan time.Time, 1)
		go func() {
			_, _ = a.Write([]byte(text))
			written <- time.Now()
			_ = a.Close()
		}()
		start := time.Now()
		time.Sleep(time.Hour)
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Len(t, got, len(text))
		require.Equal(t, time.Hour, (<-written).Sub(start))
	})
}

func TestDeadlines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := memnet.Pipe("a", "b")
		start := time.Now()
		require.NoError(t, a.SetReadDeadline(start.Add(time.Second)))
		_, err := a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())

		require.NoError(t, a.SetReadDeadline(start.Add(time.Minute)))
		require.NoError(t, a.SetReadDeadline(time.Time{}))
		_, err = b.Write([]byte("y"))
		require.NoError(t, err)
		_, err = a.Read(make([]byte, 1))
		require.NoError(t, err, "a deadline that was taken back does not bind")

		require.NoError(t, a.SetWriteDeadline(time.Now().Add(time.Second)))
		n, err := a.Write(make([]byte, 1<<20))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 64<<10, n)

		require.NoError(t, b.SetDeadline(time.Now().Add(-time.Second)))
		_, err = b.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "data that is there does not help after the deadline")

		woken := make(chan error, 1)
		require.NoError(t, a.SetReadDeadline(time.Time{}))
		go func() { _, err := a.Read(make([]byte, 1)); woken <- err }()
		synctest.Wait()
		require.NoError(t, a.SetReadDeadline(time.Now()))
		require.ErrorIs(t, <-woken, os.ErrDeadlineExceeded, "a deadline set now wakes a reader")
	})
}
