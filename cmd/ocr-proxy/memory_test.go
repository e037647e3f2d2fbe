package main

import (
	"net"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestBodiesGetAtMostHalfOfTheMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ configured, limit, budget int64 }{
		{256 << 20, 0, 256 << 20}, {256 << 20, 512 << 20, 256 << 20}, {256 << 20, 300 << 20, 150 << 20}, {0, 300 << 20, 0},
	} {
		core, logs := observer.New(zap.WarnLevel)
		require.Equal(t, c.budget, bodyBudget(c.configured, c.limit, zap.New(core)))
		require.Equal(t, c.budget != c.configured, logs.Len() == 1, "it is told")
	}
}

func TestTheRuntimesLimitIsTheOneThatWasGiven(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "64GiB") // the runtime reads it at the start of a process
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 30))
	require.EqualValues(t, 64<<30, boundMemory(zap.NewNop()))
}

func TestSystemdIsToldWhenTheProcessIsReadyAndWhenItEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer func() { _ = socket.Close() }()
	t.Setenv("NOTIFY_SOCKET", path)
	hears := func() string {
		require.NoError(t, socket.SetReadDeadline(time.Now().Add(10*time.Second)))
		buf := make([]byte, 256)
		n, err := socket.Read(buf)
		require.NoError(t, err)
		return string(buf[:n])
	}
	p := serving(t, provide(t, echo), "")
	require.Equal(t, "READY=1", hears())
	p.signal()
	require.Equal(t, "STOPPING=1", hears())
	require.Zero(t, p.end())
}
