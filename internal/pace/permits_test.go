package pace

import (
	"strconv"
	"sync"
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

// Refusals and acceptances of a crowd come in any order. However few jobs are known at a refusal, the calls that are on their way may have started theirs.
func TestTheNumberOfJobsIsLearnedFromACrowd(t *testing.T) {
	for name, order := range map[string][]bool{
		"the refusals come first": {false, false, true, true, true}, "they come last": {true, true, true, false, false}, "between": {true, false, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, permits := newJobs(t, 0)
				var turns []*Turn
				for range order {
					turns = append(turns, b.enter(Request{Job: true}))
				}
				for i, accepted := range order {
					if accepted {
						permits.Started(strconv.Itoa(i))
						turns[i].Done(Accepted)
					} else {
						permits.Refused()
						turns[i].Done(Other)
						turns[i] = b.enter(Request{Job: true, Again: true})
						require.False(t, b.has(turns[i]))
					}
				}
				open, limit := permits.Open()
				require.Equal(t, []int{3, 3}, []int{open, limit})
			})
		})
	}
}

// table is the places of several processes, in one.
type table struct {
	taken, ready int
	full, away   bool
	mu           sync.Mutex
	asked        []int // limits
}

// last is the limit under which a place was last asked for.
func (p *table) last() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[len(p.asked)-1]
}

func (p *table) Open() (n int, together bool) { return p.taken, !p.away }

func (p *table) Ready(limit int) (ok, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready == 0 {
		p.asked = append(p.asked, limit)
	}
	return p.ready > 0, p.full
}

func (p *table) Take() bool {
	p.ready--
	return true
}

func (p *table) Return(int)                { p.ready++ }
func (p *table) Started(string, time.Time) {}
func (p *table) Ended(string)              {}

func TestOtherProcessesHaveJobsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, permits := newJobs(t, 3)
		shared := &table{taken: 2}
		permits.Share(func(func(), func() []Job) Places { return shared })
		turn := b.enter(Request{Job: true})
		require.False(t, b.has(turn), "there may be room, but a place has to be asked for")
		require.Equal(t, 3, shared.last())
		open, limit := permits.Open()
		require.Equal(t, []int{2, 3}, []int{open, limit}, "what is shown is what starts wait for")
		shared.ready = 1
		permits.tell()
		require.True(t, b.has(turn))
		require.Zero(t, shared.ready)
		turn.Leave()
		require.Equal(t, 1, shared.ready)

		shared.away = true
		require.True(t, b.has(b.enter(Request{Job: true})), "alone it is counted here")
	})
}

func TestALimitLearnedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, permits := newJobs(t, 0)
		shared := &table{taken: 7, full: true}
		permits.Share(func(func(), func() []Job) Places { return shared })
		turn := b.enter(Request{Job: true})
		require.True(t, b.has(turn), "no limit is known")
		permits.Refused()
		turn.Done(Other)
		shared.ready = 0
		next := b.enter(Request{Job: true})
		require.False(t, b.has(next))
		require.Equal(t, 6, shared.last(), "as many as all have open, but for the one that was refused")
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		require.False(t, b.has(next))
		require.Equal(t, 7, shared.last(), "one more is tried")
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
