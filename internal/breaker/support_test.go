package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const reset = 10 * time.Second

// consecutive are settings that open after so many failures in a row.
func consecutive(threshold int) Settings {
	return Settings{FailureThreshold: threshold, ResetTimeout: reset, HalfOpenProbes: 1, EagerProbe: 2 * time.Second}
}

// acquire expects to pass, on behalf of a request of its own.
func acquire(t *testing.T, b *Breaker) *Permit {
	t.Helper()
	p, err := b.Acquire(&Caller{}, false)
	require.NoError(t, err)
	return p
}

// report makes one attempt for each result, each of a request of its own.
func report(t *testing.T, b *Breaker, results ...Result) {
	t.Helper()
	for _, r := range results {
		acquire(t, b).Done(r)
	}
}

// refused expects not to pass and returns why.
func refused(t *testing.T, b *Breaker, waiting bool) OpenError {
	t.Helper()
	p, err := b.Acquire(&Caller{}, waiting)
	require.Nil(t, p)
	var open *OpenError
	require.ErrorAs(t, err, &open)
	return *open
}

func isState(t *testing.T, b *Breaker, want State) {
	t.Helper()
	require.Equal(t, want.String(), b.Snapshot().State.String())
}

func times(n int, r Result) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i] = r
	}
	return results
}

// isClosed reports whether a channel of Changed has fired.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
