package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/admin"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
)

func TestHowAQueueIsShown(t *testing.T) {
	t.Parallel()
	q, shown := queueState(pace.Snapshot{
		Waiting: map[pace.Priority]int{pace.High: 1, pace.Normal: 2, pace.Low: 3}, InFlight: 4, Rate: 2.5, Learned: true, Paused: 1500 * time.Millisecond, Held: true, Oldest: 7 * time.Second,
	})
	require.True(t, shown)
	require.Equal(t, admin.Queue{
		Waiting: admin.Waiting{High: 1, Normal: 2, Low: 3}, InFlight: 4, Rate: 2.5, Learned: true, PausedSeconds: 1.5, Held: true, OldestWaitSeconds: 7,
	}, q)

	for name, c := range map[string]struct {
		of   pace.Snapshot
		want bool
	}{
		"nothing":                         {pace.Snapshot{Waiting: map[pace.Priority]int{pace.Low: 0}}, false},
		"an open circuit, told elsewhere": {pace.Snapshot{Held: true}, false},
		"a rate that is not learned, used by nobody": {pace.Snapshot{Rate: 5}, false},
		"a rate that is not learned, in use":         {pace.Snapshot{Rate: 5, InFlight: 1}, true},
		"a learned rate":                             {pace.Snapshot{Rate: 5, Learned: true}, true},
		"a pause":                                    {pace.Snapshot{Paused: time.Second}, true},
		"somebody waits":                             {pace.Snapshot{Waiting: map[pace.Priority]int{pace.Low: 1}}, true},
	} {
		_, shown := queueState(c.of)
		require.Equal(t, c.want, shown, name)
	}
}

func TestTheAdminListenerIsToldWhoWaits(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Providers = []config.Provider{{Name: "a", Kind: "azure", Listen: "127.0.0.1:0", Upstream: "http://up.example", Auth: config.Auth{Type: "none"}, Retry: cfg.Retry, Breaker: cfg.Breaker, Pacing: cfg.Pacing}}
	cfg.Providers[0].Pacing.MaxInFlight, cfg.Providers[0].Pacing.OpenJobs = 1, 3
	accounts := wired(t, cfg, nil)
	s := new(server)
	s.accounts.Store(&accounts)
	require.Empty(t, s.states()[0].Queue)
	require.NotNil(t, s.states()[0].Queue, "an object, also without members")

	queue := accounts[0].Queues.For("other")
	var first, second pace.Turn
	require.NoError(t, queue.Enter(&first, pace.Request{}))
	require.NoError(t, queue.Enter(&second, pace.Request{Priority: pace.High}))
	accounts[0].Permits.Started("job")
	queue.Pause(time.Now().Add(time.Minute))
	state := s.states()[0]
	require.Len(t, state.Queue, 1)
	require.Equal(t, admin.Waiting{High: 1}, state.Queue["other"].Waiting)
	require.Equal(t, 1, state.Queue["other"].InFlight)
	require.Positive(t, state.Queue["other"].PausedSeconds)
	require.Equal(t, map[string]float64{"other": state.Queue["other"].PausedSeconds}, state.Paused, "the older place says the same")
	require.Equal(t, admin.Jobs{Open: 1, Limit: 3}, state.Jobs)
	second.Leave()
	first.Done(pace.Accepted)
}
