package dlq

import (
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARepairIsBegunOnceAndKnownAfterARestart(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s, err := Open(dir, o)
	require.NoError(t, err)
	putJob(t, s, started("j1", "call-1"), "the document")
	begun, err := s.BeginRepair(t.Context(), "acct", "j1", []int{3, 4})
	require.NoError(t, err)
	require.True(t, begun)
	require.NoError(t, s.Close())
	o = keeping()
	s, err = Open(dir, o)
	require.NoError(t, err)
	begun, err = s.BeginRepair(t.Context(), "acct", "j1", []int{5})
	require.NoError(t, err)
	require.False(t, begun, "whatever became of it")
	require.Equal(t, &JobRepair{Pages: []int{3, 4}}, s.FindJob("acct", "j1").Repair)
	require.InDelta(t, 0, jobMetric(t, o, "ocrproxy_jobs_open"), 0, "its end was seen")

	require.NoError(t, s.NoteRepair(t.Context(), "acct", "j1", "j2"))
	r := s.FindJob("acct", "j1")
	require.Equal(t, &JobRepair{Pages: []int{3, 4}, JobID: "j2"}, r.Repair)
	_, err = s.JobPayload(r)
	require.ErrorIs(t, err, fs.ErrNotExist, "nobody needs the document any more")
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)
	require.NotNil(t, s.FindCall(keyFor("call-1")), "the same start still gets the job")
	s.EndJob("acct", "j1")
	require.Nil(t, s.FindJob("acct", "j1"))
	require.NoError(t, s.Close())
}

func TestAJobThatIsUnknownOrFailedIsNotRepaired(t *testing.T) {
	s, err := Open(t.TempDir(), keeping())
	require.NoError(t, err)
	begun, err := s.BeginRepair(t.Context(), "acct", "j1", []int{3})
	require.NoError(t, err)
	require.False(t, begun)
	require.NoError(t, s.NoteRepair(t.Context(), "acct", "j1", "j2"))
	putJob(t, s, started("j1", "call-1"), "the document")
	require.NoError(t, s.NoteRepair(t.Context(), "acct", "j1", "j2"))
	require.Nil(t, s.FindJob("acct", "j1").Repair, "one that was not begun has no id")
	require.NoError(t, s.FailJob(t.Context(), "acct", "j1"))
	begun, err = s.BeginRepair(t.Context(), "acct", "j1", []int{3})
	require.NoError(t, err)
	require.False(t, begun)
	require.NoError(t, s.Close())
	_, err = s.BeginRepair(t.Context(), "acct", "j1", []int{3})
	require.Error(t, err, "what cannot be noted is not begun")
}

func TestOfManyHandsOneBeginsTheRepair(t *testing.T) {
	s, err := Open(t.TempDir(), keeping())
	require.NoError(t, err)
	putJob(t, s, started("j1", "call-1"), "the document")
	var first atomic.Int32
	var hands sync.WaitGroup
	for range 16 {
		hands.Go(func() {
			if begun, err := s.BeginRepair(t.Context(), "acct", "j1", []int{3}); err == nil && begun {
				first.Add(1)
			}
		})
	}
	hands.Wait()
	require.EqualValues(t, 1, first.Load())
	require.NoError(t, s.Close())
}
