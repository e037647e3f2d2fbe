package pace

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func newJobs(t *testing.T, limit int) (*bench, *Permits) {
	permits := NewPermits(limit, time.Hour, 10*time.Second)
	qs := NewQueues("acct", []string{"submit"}, Settings{}, nil, permits)
	return &bench{t, qs.For("submit"), qs, time.Now()}, permits
}

func TestAJobStartWaitsForAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, permits := newJobs(t, 2)
		permits.Started("of before the start")
		first, second := b.enter(Request{Job: true}), b.enter(Request{Job: true})
		require.True(t, b.has(first))
		require.False(t, b.has(second), "a call that may start a job holds a permit")
		require.True(t, b.has(b.enter(Request{})), "a poll needs none")

		permits.Started("first")
		permits.Started("first")
		first.Done(Accepted)
		require.False(t, b.has(second), "the job holds it now")
		open, limit := permits.Open()
		require.Equal(t, []int{2, 2}, []int{open, limit})
		permits.Ended("unknown")
		require.False(t, b.has(second))
		permits.Ended("first")
		require.True(t, b.has(second))

		third := b.enter(Request{Job: true})
		second.Done(Other)
		require.True(t, b.has(third), "no job came of it")
	})
}

func TestAPermitWakesTheOtherQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newJobs(t, 1)
		first := b.enter(Request{Job: true})
		elsewhere := &bench{t, b.qs.For("other"), b.qs, b.start}
		second := elsewhere.enter(Request{Job: true})
		require.False(t, b.has(second))
		first.Leave()
		require.True(t, b.has(second))
	})
}

func TestAJobThatNobodyHearsOfIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, permits := newJobs(t, 1)
		permits.Started("lost")
		turn := b.enter(Request{Job: true})
		time.Sleep(time.Hour - time.Millisecond)
		require.False(t, b.has(turn))
		time.Sleep(2 * time.Millisecond)
		require.True(t, b.has(turn))
	})
}

func TestTheNumberOfJobsIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, permits := newJobs(t, 0)
		for i := range 3 {
			permits.Started(strconv.Itoa(i))
		}
		turn := b.enter(Request{Job: true})
		require.True(t, b.has(turn), "no limit is known")
		permits.Refused()
		turn.Done(Other)
		_, limit := permits.Open()
		require.Equal(t, 3, limit)
		turn = b.enter(Request{Job: true})
		next := b.enter(Request{Job: true})
		time.Sleep(9999 * time.Millisecond)
		require.False(t, b.has(turn))
		time.Sleep(2 * time.Millisecond)
		require.True(t, b.has(turn), "one more is tried")
		require.False(t, b.has(next))
		permits.Ended("0")
		require.True(t, b.has(next))
		time.Sleep(time.Hour)
		_, limit = permits.Open()
		require.Equal(t, 4, limit, "it does not grow while nobody waits")
	})
}

func TestOtherProcessesHaveJobsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, permits := newJobs(t, 3)
		permits.Elsewhere(3)
		turn := b.enter(Request{Job: true})
		require.False(t, b.has(turn))
		permits.Elsewhere(2)
		require.True(t, b.has(turn))
		b.enter(Request{Job: true})
		permits.Update(4)
	})
}

func TestJobsKnownByNameAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, permits := newJobs(t, 1)
		for i := range maxJobs + 10 {
			permits.Started(strconv.Itoa(i))
		}
		open, _ := permits.Open()
		require.Equal(t, maxJobs, open)
		permits.Ended("0")
		permits.Ended(strconv.Itoa(maxJobs))
		open, _ = permits.Open()
		require.Equal(t, maxJobs-1, open, "the oldest have been forgotten")
		for i := range maxJobs + 10 {
			permits.Ended(strconv.Itoa(i))
		}
		require.LessOrEqual(t, len(permits.order), 16)
	})
}
