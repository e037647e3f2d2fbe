package proxy

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
)

func TestMetricsAreWellFormedAndBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"))
		series := func() (n int) {
			families, err := l.registry.Gather()
			require.NoError(t, err)
			problems, err := promlint.NewWithMetricFamilies(families).Lint()
			require.NoError(t, err)
			require.Empty(t, problems)
			for _, family := range families {
				n += len(family.GetMetric())
			}
			return n
		}
		require.Equal(t, 0, l.ended("succeeded"), "present before the first request")
		l.upstream.script(step{body: "text"})
		l.send(t.Context(), call{target: "/poll/0", header: "Ocr-Proxy-Tenant: t0"})
		before := series()
		for i := range 20 {
			l.upstream.script(step{status: []int{200, 400, 401, 418}[i%4]})
			l.send(t.Context(), call{target: fmt.Sprintf("/poll/%d?id=%d", i, i), header: fmt.Sprintf("Ocr-Proxy-Tenant: t%d", i)})
		}
		require.Equal(t, before, series(), "labels come from fixed vocabularies")
		require.Equal(t, 21, l.figure("request_duration_seconds"))
		require.Equal(t, 21, l.figure("attempt_duration_seconds"))
		require.Equal(t, 21, l.figure("request_retries"))
		require.Equal(t, 21, l.figure("overhead_seconds"))
	})
}

// What the proxy itself took must not contain the worker's upload, the provider's work or the waits.
func TestOverheadIsTheProxysOwnTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 503, after: 2e9}, step{status: 429, header: "Retry-After: 3"}, step{body: "text", after: 1e9})
		l.send(t.Context(), call{body: "document"})
		families, err := l.registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() == "ocrproxy_overhead_seconds" {
				require.Zero(t, family.GetMetric()[0].GetHistogram().GetSampleSum())
				return
			}
		}
		t.Fatal("the metric is missing")
	})
}
