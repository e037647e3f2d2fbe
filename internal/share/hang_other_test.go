//go:build !unix

package share

import "testing"

// hang needs a signal that is not everywhere.
func hang(t *testing.T, _ *realServer) { t.Skip("a process cannot be stopped here") }
