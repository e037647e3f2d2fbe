package breaker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// gather returns all series as name{values of the labels in order}.
func gather(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	series := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			series[fmt.Sprint(family.GetName(), labels)] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return series
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		m := NewMetrics(reg)
		require.Empty(t, gather(t, reg))
		told := 0
		g := NewGroup("acct", consecutive(1), 4, Observer{Transition: func(State, State, Reason, time.Time) { told++ }})
		m.Add(g)
		want := map[string]float64{
			"ocrproxy_breaker_state[provider=acct state=closed]":                         1,
			"ocrproxy_breaker_state[provider=acct state=half_open]":                      0,
			"ocrproxy_breaker_state[provider=acct state=open]":                           0,
			"ocrproxy_breaker_open_seconds[provider=acct]":                               0,
			"ocrproxy_breaker_rejected_total[provider=acct]":                             0,
			"ocrproxy_breaker_transitions_total[from=closed provider=acct to=open]":      0,
			"ocrproxy_breaker_transitions_total[from=open provider=acct to=half_open]":   0,
			"ocrproxy_breaker_transitions_total[from=half_open provider=acct to=open]":   0,
			"ocrproxy_breaker_transitions_total[from=half_open provider=acct to=closed]": 0,
		}
		require.Equal(t, want, gather(t, reg), "all there from the start")

		report(t, g.For("key"), Failure)
		g.Rejected()
		time.Sleep(reset)
		report(t, g.For("key"), Failure)
		want["ocrproxy_breaker_state[provider=acct state=closed]"] = 0
		want["ocrproxy_breaker_state[provider=acct state=open]"] = 1
		want["ocrproxy_breaker_open_seconds[provider=acct]"] = reset.Seconds()
		want["ocrproxy_breaker_rejected_total[provider=acct]"] = 1
		want["ocrproxy_breaker_transitions_total[from=closed provider=acct to=open]"] = 1
		want["ocrproxy_breaker_transitions_total[from=open provider=acct to=half_open]"] = 1
		want["ocrproxy_breaker_transitions_total[from=half_open provider=acct to=open]"] = 1
		require.Equal(t, want, gather(t, reg), "ten thousand credentials are one series")
		require.Equal(t, 3, told, "the group's own counting does not replace the observer")

		m.Add(NewGroup("other", consecutive(1), 4, Observer{}))
		require.Len(t, gather(t, reg), 2*len(want))
		m.Add(NewGroup("acct", consecutive(1), 4, Observer{}))
		require.Len(t, gather(t, reg), 2*len(want), "one group an account")
		m.Remove("acct")
		m.Remove("other")
		require.Empty(t, gather(t, reg))
	})
}

func TestStatesAreNamed(t *testing.T) {
	for _, s := range States() {
		text, err := s.MarshalText()
		require.NoError(t, err)
		require.Equal(t, s.String(), string(text))
		require.NotContains(t, s.String(), "state")
	}
	require.Equal(t, "state 9", State(9).String())
}
