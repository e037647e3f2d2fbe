package dlq

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// rely lets the store trust its volume, whatever the disk under the test is, and sync it by that function.
func rely(t testing.TB, s *Store, sync func() error) {
	t.Helper()
	require.NoError(t, s.volume.close())
	root, err := os.Open(s.dir)
	require.NoError(t, err)
	s.volume.root = root
	s.volume.looks.Store(math.MaxInt64)
	s.volume.shared.sync = func(string) error { return s.volume.syncNow(func(*os.File) error { return sync() }) }
}

// crowded makes the store believe that many others write.
func crowded(t testing.TB, s *Store) {
	t.Helper()
	for range crowd {
		s.writers <- struct{}{}
	}
	t.Cleanup(func() {
		for range crowd {
			<-s.writers
		}
	})
}

func TestInACrowdTheVolumeIsSyncedInTheSameOrder(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	put(t, s, letter("before"), "x") // makes the payload's folder
	var order []string
	rely(t, s, func() error {
		order = append(order, fmt.Sprintf("%d in tmp, %d payloads, %d open", len(files(t, dir, "tmp")), len(files(t, dir, "payloads")), len(files(t, dir, "open"))))
		return nil
	})
	require.NoError(t, s.makeShard(s.path("payloads", hexSum("y")[:2])))
	s.folders.sync = func(folder string) error { return fmt.Errorf("%s was synced on its own", folder) }
	crowded(t, s)
	put(t, s, letter("1"), "y")
	require.Equal(t, []string{
		"2 in tmp, 1 payloads, 1 open", // the bytes of both
		"1 in tmp, 2 payloads, 1 open", // the payload's name
		"0 in tmp, 2 payloads, 2 open", // the letter's name
	}, order)
}

func TestAJobInACrowd(t *testing.T) {
	s := newStore(t, t.TempDir(), keeping())
	syncs := 0
	rely(t, s, func() error { syncs++; return nil })
	s.folders.sync = func(folder string) error { return fmt.Errorf("%s was synced on its own", folder) }
	crowded(t, s)
	putJob(t, s, started("j-1", "call"), "x")
	require.Equal(t, 4, syncs, "bytes and name of the payload, bytes and name of the record")
}

func TestTheWordsOfAResolutionAreDurableBeforeTheLetterMoves(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := put(t, s, letter("1"), "x")
	c, err := s.Claim(id)
	require.NoError(t, err)
	claimed := -1
	rely(t, s, func() error { claimed = len(files(t, dir, "claimed")); return nil })
	crowded(t, s)
	require.NoError(t, c.Discard(Resolution{By: "test"}))
	require.Equal(t, 1, claimed)
}

func TestDurableAsksTheVolumeOnlyWhenItCanBeBelieved(t *testing.T) {
	bad := errors.New("input/output error")
	for name, c := range map[string]struct {
		alone   bool
		prepare func(t *testing.T, s *Store)
		err     error // of the volume's sync
		synced  bool
		own     bool
	}{
		"in a crowd":           {synced: true},
		"with few others":      {alone: true, own: true},
		"after an error of it": {err: bad, synced: true, own: true},
		"when a fault since the writer began was told to others": {prepare: func(_ *testing.T, s *Store) { s.volume.faults.Add(1) }, synced: true, own: true},
		"while much of others is unwritten":                      {prepare: func(_ *testing.T, s *Store) { s.volume.rests.Store(math.MaxInt64) }, own: true},
		"where it is not to be trusted": {prepare: func(t *testing.T, s *Store) {
			require.NoError(t, s.volume.close())
			s.volume.root = nil
		}, own: true},
		"when the folder has moved": {prepare: func(_ *testing.T, s *Store) { s.volume.tmp = "/proc" }, own: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, t.TempDir(), keeping())
			synced, own := false, false
			rely(t, s, func() error { synced = true; return c.err })
			since := s.volume.faults.Load()
			if c.prepare != nil {
				c.prepare(t, s)
			}
			if !c.alone {
				crowded(t, s)
			}
			err := s.durable(since, func() error { own = true; return bad })
			require.Equal(t, c.synced, synced)
			require.Equal(t, c.own, own)
			if own {
				require.ErrorIs(t, err, bad, "the writer's own error is never swallowed")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// slowBody lets others act while its letter is being written.
type slowBody struct{ while func() }

func (b *slowBody) Read(p []byte) (int, error) {
	if b.while != nil {
		b.while()
		b.while = nil
		return copy(p, "x"), nil
	}
	return 0, io.EOF
}

func TestAFaultToldToOthersMakesAWriterLookForItself(t *testing.T) {
	s := newStore(t, t.TempDir(), keeping())
	faulty := true
	rely(t, s, func() error {
		if faulty {
			return errors.New("input/output error")
		}
		return nil
	})
	var own []string
	s.folders.sync = func(folder string) error { own = append(own, folder); return nil }
	crowded(t, s)
	_, err := s.Put(t.Context(), letter("1"), &slowBody{while: func() {
		require.Error(t, s.volume.sync()) // somebody else is told
		faulty = false
	}})
	require.NoError(t, err)
	require.Contains(t, own, s.path("payloads", hexSum("x")[:2]), "its payload was written before the fault")
	require.NotContains(t, own, s.path(StatusOpen), "its letter was not")
}

func TestOfSeveralFilesTheOldestTellsWhichFaultsCount(t *testing.T) {
	s := newStore(t, t.TempDir(), keeping())
	rely(t, s, func() error { return nil })
	crowded(t, s)
	stage := func() *staged {
		f, err := s.stageEnvelope([]byte("x"), 0, true)
		require.NoError(t, err)
		t.Cleanup(f.discard)
		return f
	}
	before := stage()
	s.volume.faults.Add(1)
	after := stage()
	pipe, end, err := os.Pipe()
	require.NoError(t, err)
	defer end.Close()
	require.NoError(t, before.file.Close())
	before.file = pipe // It cannot be synced, so that it shows whether it is.
	require.ErrorIs(t, s.harden(before, after), syscall.EINVAL)
}

func TestAFailedSyncInACrowdKeepsNoLetterOfThoseItConcerns(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	bad := errors.New("input/output error")
	rely(t, s, func() error { return bad })
	s.folders.sync = func(string) error { return bad }
	var wg sync.WaitGroup
	var failed atomic.Int32
	for i := range 4 * crowd {
		wg.Go(func() {
			if _, err := s.Put(t.Context(), letter(strconv.Itoa(i)), strings.NewReader(strconv.Itoa(i))); errors.Is(err, bad) {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 4*crowd, failed.Load())
	require.Empty(t, files(t, dir, "open"))
	require.Empty(t, files(t, dir, "tmp"))
	require.InDelta(t, 4*crowd, metric(t, o, "write_errors_total"), 0)
	require.Zero(t, s.usage.reserved)
}

func TestTheVolumeRestsAfterASlowSync(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, dir, keeping())
		takes := slowSync + time.Millisecond
		rely(t, s, func() error { time.Sleep(takes); return nil })
		require.NoError(t, s.volume.sync())
		require.ErrorIs(t, s.volume.sync(), errNoVolume)
		time.Sleep(rest + time.Millisecond)
		takes = slowSync / 2
		require.NoError(t, s.volume.sync())
		require.NoError(t, s.volume.sync())
		require.NoError(t, s.Close())
	})
}

func TestTheVolumeRestsWhileOthersHaveMuchToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := int64(math.MinInt64 / 2) // all that the machine has unwritten, and far more, is of others
		v := &volume{own: func() int64 { return own }}
		require.True(t, v.resting())
		own = math.MaxInt64 / 2
		require.True(t, v.resting(), "for a while")
		time.Sleep(rest + time.Millisecond)
		require.False(t, v.resting())
	})
}

func TestOldKernelsSwallowErrors(t *testing.T) {
	for release, want := range map[string]bool{
		"6.18.44-fc-v669": true, "5.17.0": true, "5.17": true, "10.0-rc1": true,
		"5.16.20-1": false, "5.8.0": false, "4.4.0": false, "": false, "x.y": false, "6": false, "6.": false,
	} {
		require.Equal(t, want, tellsErrors(release), release)
	}
}

func TestCrowdOnTheDiskAsItIs(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	s.volume.looks.Store(math.MaxInt64) // whatever others do to the machine
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if _, err := s.Put(t.Context(), letter(strconv.Itoa(i)), strings.NewReader(strconv.Itoa(i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Zero(t, s.volume.faults.Load())
	report, err := Verify(dir, nil)
	require.NoError(t, err)
	require.True(t, report.OK(), report)
	require.Equal(t, 100, report.Payloads)
	require.Empty(t, files(t, dir, "tmp"))
}
