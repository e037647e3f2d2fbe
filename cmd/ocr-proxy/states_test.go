package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/admin"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
)

func TestHowAQueueIsShown(t *testing.T) {
	t.Parallel()
	q, shown := queueState(pace.Snapshot{
		Waiting: map[pace.Priority]int{pace.High: 1, pace.Normal: 2, pace.Low: 3}, InFlight: 4, Rate: 2.5, Paused: 1500 * time.Millisecond, Held: true, Oldest: 7 * time.Second,
	}, true)
	require.True(t, shown)
	require.Equal(t, admin.Queue{
		Waiting: admin.Waiting{High: 1, Normal: 2, Low: 3}, InFlight: 4, Rate: 2.5, Learned: true, PausedSeconds: 1.5, Held: true, OldestWaitSeconds: 7,
	}, q)

	for name, c := range map[string]struct {
		of      pace.Snapshot
		learned bool
		want    bool
	}{
		"nothing":                           {pace.Snapshot{Waiting: map[pace.Priority]int{pace.Low: 0}}, true, false},
		"an open circuit, told elsewhere":   {pace.Snapshot{Held: true}, true, false},
		"a configured rate, used by nobody": {pace.Snapshot{Rate: 5}, false, false},
		"a configured rate in use":          {pace.Snapshot{Rate: 5, InFlight: 1}, false, true},
		"a learned rate":                    {pace.Snapshot{Rate: 5}, true, true},
		"a pause":                           {pace.Snapshot{Paused: time.Second}, false, true},
		"somebody waits":                    {pace.Snapshot{Waiting: map[pace.Priority]int{pace.Low: 1}}, false, true},
	} {
		_, shown := queueState(c.of, c.learned)
		require.Equal(t, c.want, shown, name)
	}
}
