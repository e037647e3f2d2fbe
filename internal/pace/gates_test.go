package pace

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestScopesAreSeparateAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGates("acct", []string{"submit", "poll", "submit", "other"}, settings())
		g.For("submit").Pause(time.Now().Add(2 * time.Second))
		g.For("made up").Pause(time.Now().Add(time.Second))
		require.Equal(t, map[string]time.Duration{"submit": 2 * time.Second, "poll": 0, "other": time.Second}, g.Remaining())
		require.Same(t, g.For("made up"), g.For("another"))
		require.Same(t, g.For("made up"), g.For("other"))

		g.Update(Settings{MaxPause: 3 * time.Second})
		g.For("poll").Pause(time.Now().Add(time.Hour))
		require.Equal(t, 3*time.Second, g.Remaining()["poll"])
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		m := NewMetrics(reg)
		g := NewGates("acct", []string{"submit"}, settings())
		m.Add(g)
		m.Add(NewGates("gone", []string{"submit"}, settings()))
		m.Remove("gone")
		require.Equal(t, map[string]float64{"submit acct": 0, "other acct": 0}, gather(t, reg))
		g.For("submit").Pause(time.Now().Add(2 * time.Second))
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, map[string]float64{"submit acct": 1.5, "other acct": 0}, gather(t, reg))
		time.Sleep(2 * time.Second)
		require.Equal(t, map[string]float64{"submit acct": 0, "other acct": 0}, gather(t, reg))
	})
}

// gather returns the pauses in seconds by operation and provider.
func gather(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Equal(t, "ocrproxy_throttle_pause_seconds", families[0].GetName())
	series := make(map[string]float64)
	for _, metric := range families[0].GetMetric() {
		labels := metric.GetLabel()
		require.Len(t, labels, 2)
		series[labels[0].GetValue()+" "+labels[1].GetValue()] = metric.GetGauge().GetValue()
	}
	return series
}
