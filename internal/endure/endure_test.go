package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// aPlace builds the program once for each test; its figures go to the test's log.
func aPlace(t *testing.T) place {
	t.Helper()
	p, err := newPlace(t.Context(), t.TempDir(), t.Output())
	require.NoError(t, err)
	return p
}

// The rates are the machine's affair here: what counts is that nothing that was answered is missing.
func TestStorm(t *testing.T) {
	p := aPlace(t)
	s := storm{size: 20 << 10, length: time.Second, share: 0.2, clients: 64, rounds: 1, block: 200 * time.Millisecond}
	require.NoError(t, s.run(t.Context(), p))
}

func TestCrash(t *testing.T) {
	p := aPlace(t)
	c := crash{rounds: 5, workers: 16, perDir: 3, longest: 400 * time.Millisecond, seed: uint64(time.Now().UnixNano())}
	require.NoError(t, c.run(context.WithoutCancel(t.Context()), p))
}
