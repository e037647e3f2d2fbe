//go:build unix

package share

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// hang stops a server until it is killed.
func hang(t *testing.T, s *realServer) {
	t.Helper()
	require.NoError(t, s.process.Process.Signal(syscall.SIGSTOP))
}
