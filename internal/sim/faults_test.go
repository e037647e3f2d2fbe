package sim

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFaultsValidateNamesEveryProblem(t *testing.T) {
	err := Faults{
		ErrorRate: 1.5, LoseRate: math.NaN(), Throttle: -1, Burst: -1, RetryAfter: -2, Latency: -time.Second,
		Outages: []Window{{From: 2 * time.Second, To: time.Second}}, OutageMode: "sulk", Script: []Step{{Status: 99}},
	}.Validate()
	for _, want := range []string{"error rate", "lose rate", "throttle", "burst", "retry-after", "latency", "outage 2s-1s", "sulk", "script step 1"} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, Faults{ErrorRate: 1, LoseRate: 1, Throttle: 0.5, OutageMode: OutageHang}.Validate())
}

func TestParseWindows(t *testing.T) {
	got, err := ParseWindows(" 10s-20s, 40s-1m5s ,2m- ")
	require.NoError(t, err)
	require.Equal(t, []Window{
		{From: 10 * time.Second, To: 20 * time.Second}, {From: 40 * time.Second, To: 65 * time.Second}, {From: 2 * time.Minute},
	}, got)
	for _, bad := range []string{"10s", "10-20", "20s-10s", "x-5s", "5s-y", "5s-0s"} {
		_, err := ParseWindows(bad)
		require.ErrorContains(t, err, bad)
	}
}

func TestFaultsStringIsForPeople(t *testing.T) {
	require.Equal(t, "none", Faults{JobTime: time.Second}.String())
	require.Equal(t, "errors 5 %; at most 2 calls per second and operation, burst 2; Retry-After 3 s; outage at 1s-2s, 5s- (503)",
		Faults{ErrorRate: 0.05, Throttle: 2, RetryAfter: 3, Outages: []Window{{From: time.Second, To: 2 * time.Second}, {From: 5 * time.Second}}}.String())
}

// fates plays 200 requests and returns what the plans say.
func fates(seed uint64, f Faults) []string {
	c := newChaos(seed, f)
	var out []string
	for range 200 {
		p := c.next("op")
		out = append(out, fmt.Sprint(p.action, p.status, p.delay, p.seed))
	}
	return out
}

func TestSameSeedSameFate(t *testing.T) {
	f := Faults{ErrorRate: 0.3, LoseRate: 0.2, LatencyJitter: time.Second}
	first, again := fates(7, f), fates(7, f)
	require.Equal(t, first, again)
	require.NotEqual(t, first, fates(8, f))
}

func TestLuckDoesNotDependOnOtherFaults(t *testing.T) {
	calm, spell := newChaos(3, Faults{ErrorRate: 0.5}), newChaos(3, Faults{ErrorRate: 0.5})
	for i := range 100 {
		if i == 20 {
			spell.set(Faults{Down: true})
		}
		if i == 40 {
			spell.set(Faults{ErrorRate: 0.5})
		}
		a, b := calm.next("op"), spell.next("op")
		if i >= 40 {
			require.Equal(t, a, b, "request %d", i)
		}
	}
}

func TestRatesHoldOverManyRequests(t *testing.T) {
	c := newChaos(1, Faults{ErrorRate: 0.2, LoseRate: 0.25})
	count := map[action]int{}
	statuses := map[int]int{}
	const n = 20_000
	for range n {
		p := c.next("op")
		count[p.action]++
		statuses[p.status]++
	}
	require.InDelta(t, 0.2, float64(count[actFail])/n, 0.01)
	require.InDelta(t, 0.8*0.25, float64(count[actLose])/n, 0.01)
	require.InDelta(t, 0.1, float64(statuses[http.StatusInternalServerError])/n, 0.01)
	require.InDelta(t, 0.1, float64(statuses[http.StatusServiceUnavailable])/n, 0.01)
}

func TestThrottleLetsTheRateThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChaos(1, Faults{Throttle: 10, Burst: 3})
		accepted := 0
		for range 1000 { // 100 requests per second for 10 s.
			if c.next("op").action == actAnswer {
				accepted++
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.InDelta(t, 3+10*10, accepted, 1)
		require.Equal(t, actAnswer, c.next("another").action, "operations are metered apart")
	})
}

func TestThrottleSavesNoMoreThanTheBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChaos(1, Faults{Throttle: 5, Burst: 2})
		time.Sleep(time.Hour)
		var got []action
		for range 4 {
			got = append(got, c.next("op").action)
		}
		require.Equal(t, []action{actAnswer, actAnswer, actThrottle, actThrottle}, got)
	})
}

func TestOutageWindowsCountFromStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{Kind: KindMistral, Faults: Faults{
			Outages: []Window{{From: 10 * time.Second, To: 20 * time.Second}, {From: 40 * time.Second}},
		}})
		require.NoError(t, err)
		time.Sleep(15 * time.Second)
		require.Equal(t, actFail, s.chaos.next("op").action)
		s.Start()
		for _, step := range []struct {
			wait time.Duration
			want action
		}{
			{0, actAnswer},
			{9999 * time.Millisecond, actAnswer},
			{time.Millisecond, actFail},
			{9 * time.Second, actFail},
			{time.Second, actAnswer},
			{20 * time.Second, actFail},
			{time.Hour, actFail},
		} {
			time.Sleep(step.wait)
			require.Equal(t, step.want, s.chaos.next("op").action)
		}
		require.NoError(t, s.SetFaults(Faults{}))
		require.Equal(t, actAnswer, s.chaos.next("op").action)
		require.Error(t, s.SetFaults(Faults{ErrorRate: 2}))
		require.Equal(t, actAnswer, s.chaos.next("op").action, "faults that do not validate change nothing")
	})
}

func TestLatencyStaysInItsRange(t *testing.T) {
	c := newChaos(1, Faults{Latency: 100 * time.Millisecond, LatencyJitter: 50 * time.Millisecond})
	low, high := time.Hour, time.Duration(0)
	for range 1000 {
		d := c.next("op").delay
		low, high = min(low, d), max(high, d)
	}
	require.GreaterOrEqual(t, low, 100*time.Millisecond)
	require.Less(t, low, 105*time.Millisecond)
	require.Greater(t, high, 145*time.Millisecond)
	require.Less(t, high, 150*time.Millisecond)
}
