package admin

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatThePageSaysOfQueues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		queue Queue
		want  []queueLine
	}{
		"nothing":                              {Queue{}, nil},
		"calls that run":                       {Queue{InFlight: 7}, nil},
		"a pause, which has its own place":     {Queue{PausedSeconds: 9}, nil},
		"an open circuit that nobody waits at": {Queue{Held: true}, nil},
		"a configured rate with room":          {Queue{Rate: 5, InFlight: 2}, nil},
		"a learned rate with room":             {Queue{Rate: 21.7, Learned: true}, []queueLine{{"op", "", "", []string{"21.7/s learned"}}}},
		"one that has just come":               {Queue{Waiting: Waiting{Normal: 1}, OldestWaitSeconds: 0.4}, []queueLine{{"op", "1 waiting", "", nil}}},
		"a configured rate that binds":         {Queue{Waiting: Waiting{Normal: 2}, Rate: 0.5, OldestWaitSeconds: 2}, []queueLine{{"op", "2 waiting", "", []string{"oldest 2s", "0.5/s"}}}},
		"all of it": {
			Queue{Waiting: Waiting{High: 3, Normal: 9, Low: 1200}, InFlight: 1, Rate: 1222.2, Learned: true, Held: true, OldestWaitSeconds: 95},
			[]queueLine{{"op", "1,212 waiting", "3 high, 1,200 low", []string{"oldest 1m35s", "1,222/s learned", "held: circuit open"}}},
		},
	} {
		require.Equal(t, c.want, queueLines(map[string]Queue{"op": c.queue}), name)
	}
	waiting := Queue{Waiting: Waiting{Low: 1}}
	require.Equal(t, []queueLine{{"a", "1 waiting", "1 low", nil}, {"b", "1 waiting", "1 low", nil}}, queueLines(map[string]Queue{"b": waiting, "c": {}, "a": waiting}))
}

func TestWhatThePageSaysOfJobs(t *testing.T) {
	t.Parallel()
	for want, j := range map[string]Jobs{"": {Limit: 8}, "1 job open": {Open: 1}, "12 jobs open": {Open: 12}, "4 of 8 jobs open": {Open: 4, Limit: 8}} {
		require.Equal(t, want, jobsText(j))
	}
}

func TestTheFirstPageShowsQueuesWhereThereIsSomethingToSay(t *testing.T) {
	t.Parallel()
	o := options(t)
	text := look(t, o, "/", http.StatusOK)
	require.Contains(t, text, `<li><code>op</code> <strong>12 waiting</strong> <span>(3 high, 1 low)</span> · <span>oldest 4s</span> · <span>21.7/s learned</span> · <span>held: circuit open</span></li>`)
	require.Contains(t, text, "<li>4 of 8 jobs open</li>")

	for name, a := range map[string]Account{"a queue alone": {Queue: map[string]Queue{"op": {Waiting: Waiting{High: 1}}}}, "jobs alone": {Jobs: Jobs{Open: 1}}} {
		o.Accounts = func() []Account { return []Account{a} }
		require.Contains(t, look(t, o, "/", http.StatusOK), `<ul class="queue"`, name)
	}
	o.Accounts = func() []Account {
		return []Account{{Queue: map[string]Queue{"op": {InFlight: 1}}, Jobs: Jobs{Limit: 8}}}
	}
	require.NotContains(t, look(t, o, "/", http.StatusOK), `class="queue"`)
}

func TestAQueueWithoutALimitIsAsDescribed(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Accounts = func() []Account {
		return []Account{{Breaker: Breaker{State: "closed"}, Paused: map[string]float64{}, Queue: map[string]Queue{"op": {InFlight: 1}}, LastHour: Hour{Attempts: map[string]int{}}}}
	}
	w := ask(t, o, http.MethodGet, "/api/v1/providers", "")
	newSchemas(t).check(t, []string{"paths", "/api/v1/providers", "get", "responses", "200"}, "application/json", w.Body.String())
	var got struct{ Providers []map[string]any }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.NotContains(t, got.Providers[0]["queue"].(map[string]any)["op"], "rate")
	require.Equal(t, map[string]any{"open": 0.0}, got.Providers[0]["jobs"])
}
