package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatGrewIsNamed(t *testing.T) {
	before := holdings{goroutines: 100, files: 30, resident: 1 << 20}
	require.Empty(t, before.compare(holdings{goroutines: 100 + goroutinesMore, files: 30 + filesMore, resident: 1 << 30}))
	for _, c := range []struct {
		after holdings
		says  string
	}{
		{holdings{goroutines: 101 + goroutinesMore}, "goroutines: 100 after"},
		{holdings{files: 31 + filesMore}, "descriptors: 30 after"},
		{holdings{bodies: 1}, "temporary files"},
		{holdings{spilled: 1}, "bytes of bodies in files"},
		{holdings{inFlight: 1}, "requests in flight"},
	} {
		grown := before.compare(c.after)
		require.Len(t, grown, 1)
		require.Contains(t, grown[0], c.says)
	}
}

func TestMemoryThatGrows(t *testing.T) {
	line := func(from, to int64) []sample {
		var all []sample
		for i := range int64(1200) {
			all = append(all, sample{time.Duration(i) * 3 * time.Second, from + (to-from)*i/1200})
		}
		return all
	}
	_, _, flat := grewTo(line(90<<20, 95<<20))
	require.True(t, flat)
	second, last, flat := grewTo(line(90<<20, 300<<20))
	require.False(t, flat)
	require.Greater(t, last, second)
	_, _, flat = grewTo(line(90<<20, 300<<20)[:fewSamples-1])
	require.True(t, flat, "too few to say anything")
	require.InDelta(t, 100<<20, slope(line(0, 100<<20)), 1<<20, "one hour")
	require.Zero(t, slope(nil))
}
