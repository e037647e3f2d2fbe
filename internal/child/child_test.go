package child

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProcessFigures(t *testing.T) {
	kept, err := memoryIn("Name:\tx\nVmHWM:\t  20 kB\nVmRSS:\t    1234 kB\n", "VmRSS:")
	require.NoError(t, err)
	require.Equal(t, int64(1234<<10), kept)
	_, err = memoryIn("Name:\tx\n", "VmRSS:")
	require.Error(t, err)
	busy, err := processorIn("42 (ocr (x) y) S 1 2 3 4 5 6 7 8 9 10 150 50 7 8 20 0\n")
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, busy)
	_, err = processorIn("42 (x) S 1")
	require.Error(t, err)
}

func TestMetricsAreSummed(t *testing.T) {
	m := Metrics("# HELP a\na 1\nab 5\nb{x=\"1\"} 2\nb{x=\"2\"} 3 # {trace=\"t\"} 1 7\nc{x=\"1\"} nonsense\n")
	for name, want := range map[string]float64{"a": 1, "ab": 5, "b": 5, "b{x=\"2\"": 3} {
		got, ok := m.Sum(name)
		require.True(t, ok, name)
		require.InDelta(t, want, got, 0, name)
	}
	for _, name := range []string{"d", "c"} {
		_, ok := m.Sum(name)
		require.False(t, ok, name)
	}
}

func TestStartWaitsForReadiness(t *testing.T) {
	c := Command{Name: "shell", Path: "/bin/sh"}
	say := `echo '{"msg":"listening","provider":"ocr","listen":"there"}' >&2; `
	c.Args = []string{"-c", say + "exit 3"}
	_, err := c.Start(t.Context())
	require.ErrorIs(t, err, errEnded)
	require.ErrorContains(t, err, "there", "the log is told")

	c.Args = []string{"-c", say + `echo '{"msg":"ready"}' >&2; read x`}
	x, err := c.Start(t.Context())
	require.NoError(t, err)
	require.Equal(t, "there", x.Addr("ocr"))
	x.Kill()
	require.False(t, x.State().Success())
}
