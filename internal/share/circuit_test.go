package share

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
)

// sharing opens a store with a breaker that acts together with others.
func sharing(t *testing.T, address string, reset time.Duration) (*Store, *breaker.Breaker) {
	t.Helper()
	s := join(t, address)
	b := breaker.New(breaker.Settings{FailureThreshold: 3, ResetTimeout: reset, HalfOpenProbes: 1}, breaker.Observer{})
	account(s).Circuit(b, nil)
	eventually(t, "the connection", s.Connected)
	return s, b
}

func fail(t *testing.T, b *breaker.Breaker) {
	t.Helper()
	for range 3 {
		pass, err := b.Acquire(nil, false)
		require.NoError(t, err)
		pass.Done(breaker.Failure)
	}
}

// probes asks until one of the breakers lets a probe through.
func probes(t *testing.T, all ...*breaker.Breaker) (pass *breaker.Permit) {
	t.Helper()
	eventually(t, "a probe", func() bool {
		for _, b := range all {
			p, err := b.Acquire(nil, false)
			if err == nil {
				pass = p
				return true
			}
		}
		return false
	})
	require.True(t, pass.Probe())
	return pass
}

func is(t *testing.T, state breaker.State, all ...*breaker.Breaker) {
	t.Helper()
	for _, b := range all {
		eventually(t, state.String(), func() bool { return b.Snapshot().State == state })
	}
}

func TestBreakersActTogether(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, address string) {
		const reset = 300 * time.Millisecond
		_, a := sharing(t, address, reset)
		_, b := sharing(t, address, reset)
		_, c := sharing(t, address, reset)
		for _, result := range []breaker.Result{breaker.Failure, breaker.Success} {
			if result == breaker.Failure {
				fail(t, b)
			}
			is(t, breaker.Open, a, b, c)
			probe := probes(t, a, b, c)
			for end := time.Now().Add(2 * reset); time.Now().Before(end); time.Sleep(time.Millisecond) {
				for _, other := range []*breaker.Breaker{a, b, c} {
					_, err := other.Acquire(nil, true)
					require.Error(t, err, "a second probe")
				}
			}
			probe.Done(result)
		}
		is(t, breaker.Closed, a, b, c)
	})
}

// While the server is away everybody goes on by himself; afterwards what one has found is true for all.
func TestBreakersWithoutTheServer(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	const reset = 50 * time.Millisecond
	sa, a := sharing(t, server.address(), reset)
	sb, b := sharing(t, server.address(), reset)
	server.kill()
	for _, s := range []*Store{sa, sb} {
		eventually(t, "the loss", func() bool { return !s.Connected() })
	}
	fail(t, a)
	require.Equal(t, breaker.Closed, b.Snapshot().State)
	probes(t, a).Done(breaker.Failure)
	server.start(t)
	is(t, breaker.Open, a, b)
	probes(t, b).Done(breaker.Success)
	is(t, breaker.Closed, a, b)
}

func TestGranted(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	s := connected(t, server.address())
	b := breaker.New(breaker.Settings{FailureThreshold: 3, HalfOpenProbes: 1}, breaker.Observer{})
	granted := make(chan struct{}, 100)
	account(s).Circuit(b, func() { granted <- struct{}{} })
	fail(t, b)
	eventually(t, "the word", func() bool { b.Wait(); return len(granted) > 0 })
	require.Zero(t, b.Wait())
}
