package spool

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

const kib, mib = 1 << 10, 1 << 20

// roomy has space for whatever a test does.
func roomy() Limits {
	return Limits{MaxBytes: 64 * mib, MemoryPerBody: mib, MemoryTotal: 32 * mib}
}

// newPool returns a pool in an empty folder; at the end of the test everything must
// have been given back and no file may be left.
func newPool(tb testing.TB, l Limits) *Pool {
	tb.Helper()
	l.Dir = tb.TempDir()
	p, err := New(l, prometheus.NewRegistry())
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.Zero(tb, p.memory.inUse(), "memory not given back")
		require.Zero(tb, p.memory.buffers, "copy buffers not given back")
		require.Zero(tb, p.spilled.Load(), "spilled bytes not given back")
		files, err := os.ReadDir(l.Dir)
		require.NoError(tb, err)
		require.Empty(tb, files)
	})
	return p
}

// noise is n bytes that repeat nowhere in the reach of a mix-up of chunks.
func noise(n int64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%032d", n))))
	_, _ = r.Read(b)
	return b
}

func drain(tb testing.TB, b *Body) []byte {
	tb.Helper()
	r := b.Open()
	got, err := io.ReadAll(r)
	require.NoError(tb, err)
	require.NoError(tb, r.Close())
	return got
}

func TestNewMakesTheFolderForItsUserOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	l := roomy()
	l.Dir = dir
	_, err := New(l, prometheus.NewRegistry())
	require.NoError(t, err)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files, "the proof file is left")
}

func TestNewTakesTheSystemFolder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	p, err := New(roomy(), prometheus.NewRegistry())
	require.NoError(t, err)
	require.Equal(t, dir, p.limits.Dir)
}

func TestNewRefuses(t *testing.T) {
	notAFolder := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(notAFolder, nil, 0o600))
	for name, l := range map[string]Limits{
		notAFolder:             {MaxBytes: 1, MemoryPerBody: 1, MemoryTotal: 1, Dir: notAFolder},
		"largest body 0":       {MemoryPerBody: 1, MemoryTotal: 1},
		"memory for each -1":   {MaxBytes: 1, MemoryPerBody: -1, MemoryTotal: 1},
		"memory in total 0":    {MaxBytes: 1, MemoryPerBody: 1},
		"greater than zero":    {},
		notAFolder + " cannot": {MaxBytes: 1, MemoryPerBody: 1, MemoryTotal: 1, Dir: notAFolder},
	} {
		_, err := New(l, prometheus.NewRegistry())
		require.ErrorContains(t, err, name)
	}
}

func TestNewReportsGaugesThatAreTaken(t *testing.T) {
	reg := prometheus.NewRegistry()
	l := roomy()
	l.Dir = t.TempDir()
	_, err := New(l, reg)
	require.NoError(t, err)
	_, err = New(l, reg)
	require.ErrorAs(t, err, &prometheus.AlreadyRegisteredError{})
}

func TestGaugesFollowTheBodies(t *testing.T) {
	reg := prometheus.NewRegistry()
	l := roomy()
	l.Dir = t.TempDir()
	p, err := New(l, reg)
	require.NoError(t, err)
	gauges := func() map[string]float64 {
		families, err := reg.Gather()
		require.NoError(t, err)
		m := map[string]float64{}
		for _, f := range families {
			m[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
		}
		return m
	}
	want := func(memory, spilled float64) {
		t.Helper()
		require.Equal(t, map[string]float64{
			"ocrproxy_body_memory_bytes": memory, "ocrproxy_body_memory_limit_bytes": float64(l.MemoryTotal), "ocrproxy_body_spilled_bytes": spilled,
		}, gauges())
	}

	want(0, 0)
	small, chunked, large := filled(t, p, noise(1000), true), filled(t, p, noise(200*kib), true), filled(t, p, noise(3*mib), true)
	want(1000+2*chunkSize, 3*mib)
	small.Release()
	chunked.Release()
	large.Release()
	want(0, 0)
}
