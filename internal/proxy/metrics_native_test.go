package proxy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/provider"
)

// Whatever thousands of answers bring, series are the configured types and AnyType times the configured fields.
func TestScoresThatAreToldAreBoundedByTheConfiguration(t *testing.T) {
	t.Parallel()
	r := Scrutiny{
		Fields:   map[string]map[string]float64{"invoice": {"total": 0.9, "items.amount": 0.5}, AnyType: {"date": 0.5}},
		Required: map[string][]string{"receipt": {"merchant"}},
	}
	random := rand.New(rand.NewPCG(1, 2))
	series := map[[2]string]bool{}
	for i := range 5000 {
		kind := [...]string{"invoice", "receipt", fmt.Sprint("kind-", i)}[random.IntN(3)]
		fields := map[string]provider.Field{}
		for name := range r.wanted() {
			fields[name] = provider.Field{Present: true, Scored: true, Least: random.Float64()}
		}
		for _, s := range r.scores(nil, kind, fields) {
			series[[2]string{s.kind, s.name}] = true
		}
	}
	require.Len(t, series, 3*4)
}

// A series of a histogram is small however long it is used and however wide its values lie.
func TestASeriesOfAHistogramIsSmall(t *testing.T) {
	const series, most = 200, 12 << 10
	m := NewMetrics(prometheus.NewRegistry())
	random := rand.New(rand.NewPCG(1, 2))
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before := heap()
	for i := range series {
		h := m.requestTime.WithLabelValues("a", fmt.Sprint("operation-", i))
		for range 5000 {
			h.Observe(math.Exp(random.Float64()*18 - 7)) // from a millisecond to half a day
		}
	}
	each := (heap() - before) / series
	runtime.KeepAlive(m)
	t.Logf("%d bytes for each series", each)
	require.Less(t, each, int64(most))
}
