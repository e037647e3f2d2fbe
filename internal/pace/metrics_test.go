package pace

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestQueueMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		m := NewMetrics(reg)
		qs := NewQueues("acct", []string{"submit"}, Settings{Rate: 10}, nil, NewPermits(7, time.Hour, time.Second))
		m.Add(qs)
		m.Add(NewQueues("gone", []string{"submit"}, Settings{}, nil, nil))
		m.Remove("gone")
		b := &bench{t, qs.For("submit"), qs, time.Now()}
		b.enter(Request{})
		b.enter(Request{Priority: Low})
		b.enter(Request{Priority: Low})
		qs.For("other").Pause(time.Now().Add(2 * time.Second))
		time.Sleep(150 * time.Millisecond)
		require.Equal(t, map[string]float64{
			"ocrproxy_queue_depth high acct": 0, "ocrproxy_queue_depth normal acct": 0, "ocrproxy_queue_depth low acct": 1,
			"ocrproxy_queue_wait_seconds high acct": 0, "ocrproxy_queue_wait_seconds normal acct": 1, "ocrproxy_queue_wait_seconds low acct": 1,
			"ocrproxy_queue_wait_seconds sum high acct": 0, "ocrproxy_queue_wait_seconds sum normal acct": 0, "ocrproxy_queue_wait_seconds sum low acct": 0.1,
			"ocrproxy_queue_oldest_seconds acct":            0.15,
			"ocrproxy_job_permits_taken acct":               0,
			"ocrproxy_jobs_limit acct":                      7,
			"ocrproxy_throttle_pause_seconds submit acct":   0,
			"ocrproxy_throttle_pause_seconds other acct":    1.85,
			"ocrproxy_pacing_rate submit acct":              10,
			"ocrproxy_pacing_rate other acct":               10,
			"ocrproxy_queue_wait_seconds within 0.1 low":    0,
			"ocrproxy_queue_wait_seconds within 0.25 low":   1,
			"ocrproxy_queue_wait_seconds within 0.001 low":  0,
			"ocrproxy_queue_wait_seconds within 600 normal": 1,
		}, gatherQueues(t, reg))
	})
}

// Each of the processes that share an account tells of the permits of all, and while it is alone of its own.
func TestPermitsOfAllProcessesAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		b, permits := newJobs(t, 9)
		NewMetrics(reg).Add(b.qs)
		permits.Started("of this process")
		shared := &table{taken: 7}
		permits.Share(func(func(), func() []Job) Places { return shared })
		require.InDelta(t, 7, gatherQueues(t, reg)["ocrproxy_job_permits_taken acct"], 0)
		shared.away = true
		require.InDelta(t, 1, gatherQueues(t, reg)["ocrproxy_job_permits_taken acct"], 0)
	})
}

// gatherQueues returns all values by name and labels; of the histograms the count, the sum and a few buckets.
func gatherQueues(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	series := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var b strings.Builder
			for _, l := range metric.GetLabel() {
				b.WriteString(" " + l.GetValue())
			}
			labels := b.String()
			h := metric.GetHistogram()
			if h == nil {
				series[family.GetName()+labels] = metric.GetGauge().GetValue()
				continue
			}
			series[family.GetName()+labels] = float64(h.GetSampleCount())
			series[family.GetName()+" sum"+labels] = float64(int(h.GetSampleSum()*1000)) / 1000
			priority := metric.GetLabel()[0].GetValue()
			for _, bucket := range h.GetBucket() {
				switch {
				case priority == "low" && bucket.GetUpperBound() < 0.3 && bucket.GetUpperBound() != 0.01 && bucket.GetUpperBound() != 0.05:
					series[family.GetName()+" within "+strconv.FormatFloat(bucket.GetUpperBound(), 'g', -1, 64)+" low"] = float64(bucket.GetCumulativeCount())
				case priority == "normal" && bucket.GetUpperBound() == 600:
					series[family.GetName()+" within 600 normal"] = float64(bucket.GetCumulativeCount())
				}
			}
		}
	}
	return series
}
