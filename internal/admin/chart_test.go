package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/watch"
)

// minute is one minute's attempts, as pairs of a class and a number.
func minute(at int, pairs ...int) watch.Minute {
	m := watch.Minute{Start: time.Date(2026, 1, 31, 12, at, 0, 0, time.UTC)}
	for i := 0; i < len(pairs); i += 2 {
		m.Attempts[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestChart(t *testing.T) {
	t.Parallel()
	const good, soft, throttle, transient = int(classify.Success), int(classify.Soft), int(classify.Throttle), int(classify.Transient)
	const permanent, auth, quota, unknown = int(classify.Permanent), int(classify.Auth), int(classify.Quota), int(classify.Unknown)
	open, half := minute(2), minute(3, good, 5)
	open.Circuit, open.DeadLettered = watch.Open, 4
	half.Circuit = watch.HalfOpen
	for name, c := range map[string]struct {
		minutes []watch.Minute
		want    chart
	}{
		"nothing is known": {nil, chart{}},
		"nothing happened": {[]watch.Minute{minute(0), minute(59)}, chart{From: "12:00Z", To: "12:59Z", Bars: []bar{{Title: "12:00Z"}, {X: 10, Title: "12:59Z"}}}},
		"the busiest fills": {[]watch.Minute{minute(0, good, 10), minute(1, good, 5)}, chart{Peak: 10, From: "12:00Z", To: "12:01Z", Bars: []bar{
			{Title: "12:00Z, 10 good", Parts: []part{{"good", 0, 60}}},
			{X: 10, Title: "12:01Z, 5 good", Parts: []part{{"good", 30, 30}}},
		}}},
		"from the good to the bad": {[]watch.Minute{minute(0, good, 2, soft, 1, throttle, 1, transient, 2, permanent, 1, auth, 2, quota, 2, unknown, 1)}, chart{Peak: 12, From: "12:00Z", To: "12:00Z", Bars: []bar{
			{Title: "12:00Z, 3 good, 1 throttled, 2 faltered, 6 refused", Parts: []part{{"good", 45, 15}, {"throttled", 40, 5}, {"faltered", 30, 10}, {"refused", 0, 30}}},
		}}},
		"the circuit": {[]watch.Minute{open, half}, chart{Peak: 5, From: "12:02Z", To: "12:03Z", Bars: []bar{
			{Title: "12:02Z, 4 dead-lettered, circuit open", Circuit: "open"},
			{X: 10, Title: "12:03Z, 5 good, circuit half-open", Circuit: "half-open", Parts: []part{{"good", 0, 60}}},
		}}},
	} {
		c.want.Width, c.want.Height = 600, 60
		for i := range c.want.Bars {
			c.want.Bars[i].Width = 9
		}
		require.Equal(t, c.want, newChart(c.minutes), name)
	}
}

func TestEveryClassHasItsPlaceInTheChart(t *testing.T) {
	t.Parallel()
	for _, class := range classify.Classes() {
		bars := newChart([]watch.Minute{minute(0, int(class), 1)}).Bars
		require.Len(t, bars[0].Parts, 1, class)
		require.InDelta(t, 60, bars[0].Parts[0].Height, 0, class)
	}
}
