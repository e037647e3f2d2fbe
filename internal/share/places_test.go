package share

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/pace"
)

// employer is a process that starts jobs.
type employer struct {
	store   *Store
	permits *pace.Permits
	places  *Places
	queue   *pace.Queue
}

func newEmployer(t *testing.T, address string, limit int) *employer {
	t.Helper()
	e := &employer{store: join(t, address), permits: pace.NewPermits(limit, time.Hour, time.Hour)}
	a := account(e.store)
	e.queue = pace.NewQueues("invoices", nil, pace.Settings{}, nil, e.permits).For("")
	e.permits.Share(func(wake func(), jobs func() []pace.Job) pace.Places {
		e.places = a.Places(wake, jobs)
		return e.places
	})
	eventually(t, "the others", e.together)
	return e
}

func (e *employer) together() bool {
	_, together := e.places.Open()
	return together
}

func (e *employer) open() int {
	n, _ := e.places.Open()
	return n
}

// start waits for a permit and starts a job.
func (e *employer) start(t *testing.T, id string, call func()) {
	t.Helper()
	var turn pace.Turn
	if err := e.queue.Enter(&turn, pace.Request{Job: true}); err != nil {
		t.Error(err)
		return
	}
	if ready := turn.Ready(); ready != nil {
		select {
		case <-ready:
		case <-time.After(long):
			t.Error("no permit")
			return
		}
	}
	call()
	e.permits.Started(id)
	turn.Done(pace.Accepted)
}

func TestOpenJobsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, address string) {
		const limit, each = 4, 12
		var open, most, started atomic.Int64
		var running sync.WaitGroup
		all := []*employer{newEmployer(t, address, limit), newEmployer(t, address, limit), newEmployer(t, address, limit)}
		for i, e := range all {
			for n := range each {
				running.Go(func() {
					id := strconv.Itoa(i) + " " + strconv.Itoa(n)
					e.start(t, id, func() {
						now := open.Add(1)
						for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
						}
						started.Add(1)
					})
					time.Sleep(5 * time.Millisecond)
					open.Add(-1)
					all[(i+1)%len(all)].permits.Ended(id) // its end is seen by another process
					e.permits.Ended(id)
				})
			}
		}
		running.Wait()
		require.Equal(t, int64(len(all)*each), started.Load())
		require.LessOrEqual(t, most.Load(), int64(limit))
		require.Greater(t, most.Load(), int64(1))
		for _, e := range all {
			eventually(t, "an end to all jobs and places", func() bool { return e.open() == 0 })
		}
	})
}

func TestPlacesOfAKilledProcess(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.SetTime(time.Now())
	address := "redis://" + server.Addr()
	first, second := newEmployer(t, address, 1), newEmployer(t, address, 1)
	var turn pace.Turn
	require.NoError(t, first.queue.Enter(&turn, pace.Request{Job: true}))
	<-turn.Ready()
	first.store.end() // as if it had been killed
	eventually(t, "its place elsewhere", func() bool { return second.open() == 1 })
	server.SetTime(time.Now().Add(placeLease + time.Second))
	second.start(t, "x", func() {})
}

// What is open here is told again to a server that has lost it; while it is away, each process counts its own.
func TestPlacesWithoutTheServer(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	a, b := newEmployer(t, server.address(), 2), newEmployer(t, server.address(), 2)
	a.start(t, "1", func() {})
	eventually(t, "the job elsewhere", func() bool { return b.open() == 1 })
	server.kill()
	for _, e := range []*employer{a, b} {
		eventually(t, "the loss", func() bool { return !e.together() })
	}
	b.start(t, "2", func() {})
	server.start(t)
	for _, e := range []*employer{a, b} {
		eventually(t, "both jobs", func() bool { return e.together() && e.open() == 2 })
	}
	var turn pace.Turn
	require.NoError(t, a.queue.Enter(&turn, pace.Request{Job: true}))
	b.permits.Ended("2")
	<-turn.Ready()
	require.NoError(t, turn.Err())
	turn.Done(pace.Other)
}

// The end of a call whose job has its place leaves the places of the other calls alone.
func TestEachCallHasAPlaceOfItsOwn(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, address string) {
		e := newEmployer(t, address, 2)
		var slow pace.Turn
		require.NoError(t, e.queue.Enter(&slow, pace.Request{Job: true}))
		<-slow.Ready()
		e.start(t, "quick", func() {})
		var third pace.Turn
		require.NoError(t, e.queue.Enter(&third, pace.Request{Job: true}))
		select {
		case <-third.Ready():
			require.Fail(t, "a job and two calls have two permits")
		case <-time.After(2 * refreshEvery):
		}
		slow.Done(pace.Other)
		<-third.Ready()
		require.NoError(t, third.Err())
		third.Done(pace.Other)
		eventually(t, "the job's place alone", func() bool { return e.open() == 1 })
	})
}

// A server that has been emptied without having been away is told all that is open again, by everybody.
func TestPlacesThatTheServerForgets(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	a, b := newEmployer(t, server.address(), 9), newEmployer(t, server.address(), 9)
	a.start(t, "1", func() {})
	b.start(t, "2", func() {})
	b.start(t, "3", func() {})
	var slow pace.Turn
	require.NoError(t, a.queue.Enter(&slow, pace.Request{Job: true}))
	<-slow.Ready()
	for range 3 {
		for _, e := range []*employer{a, b} {
			eventually(t, "three jobs and a call", func() bool { return e.open() == 4 })
		}
		require.NoError(t, a.store.client.FlushAll(t.Context()).Err())
		eventually(t, "that all is told anew", func() bool { return a.store.client.ZCard(t.Context(), a.places.key).Val() == 4 })
	}
	slow.Done(pace.Other)
}
