package dlq

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestPayloadIsDurableBeforeItsLetterIsOpen(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	var order []string
	s.folders.sync = func(folder string) error {
		rel, err := filepath.Rel(dir, folder)
		require.NoError(t, err)
		order = append(order, fmt.Sprintf("%s with %d payloads, %d open", filepath.ToSlash(rel), len(files(t, dir, "payloads")), len(files(t, dir, "open"))))
		return syncFolder(folder)
	}
	put(t, s, letter("1"), "x")
	require.Equal(t, []string{
		"payloads with 0 payloads, 0 open",
		"payloads/" + hexSum("x")[:2] + " with 1 payloads, 0 open",
		"open with 1 payloads, 1 open",
	}, order)
}

func TestFailedSyncKeepsNoLetter(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	id := put(t, s, letter("old"), "x")
	bad := errors.New("input/output error")
	s.folders.sync = func(folder string) error {
		if filepath.Base(folder) == StatusOpen {
			return bad
		}
		return nil
	}
	_, err := s.Put(t.Context(), letter("new"), strings.NewReader("x"))
	require.ErrorIs(t, err, bad)
	_, err = s.Put(t.Context(), letter("old"), strings.NewReader("x"))
	require.ErrorIs(t, err, bad)
	require.Equal(t, []string{"open/" + id + ".json"}, files(t, dir, "open"))
	require.Empty(t, files(t, dir, "tmp"))
	require.InDelta(t, 2, metric(t, o, "write_errors_total"), 0)
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)

	s.folders.sync = syncFolder
	put(t, s, letter("new"), "x")
}

func TestGroupCommitWaitsForASyncThatBeganAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		started := 0
		g := newGroupCommit(func(string) error {
			started++
			<-release
			return nil
		})
		var wg sync.WaitGroup
		var done atomic.Int32
		call := func() {
			wg.Go(func() {
				require.NoError(t, g.commit("f"))
				done.Add(1)
			})
			synctest.Wait()
		}
		call() // Syncs.
		for range 10 {
			call() // These may have been missed by the sync under way.
		}
		require.Equal(t, 1, started)
		release <- struct{}{}
		synctest.Wait()
		require.EqualValues(t, 1, done.Load(), "the first sync answers only who was there before it")
		require.Equal(t, 2, started, "one sync serves all others")
		call()
		release <- struct{}{}
		synctest.Wait()
		require.EqualValues(t, 11, done.Load())
		require.Equal(t, 3, started)
		release <- struct{}{}
		wg.Wait()
		require.EqualValues(t, 12, done.Load())
	})
}

func TestGroupCommitTellsEveryoneOfAFailure(t *testing.T) {
	var n atomic.Int32
	g := newGroupCommit(func(folder string) error { return fmt.Errorf("%s %d", folder, n.Add(1)) })
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if g.commit(strconv.Itoa(i%2)) == nil {
				t.Error("a failed sync was reported as good")
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, n.Load(), int32(50))
	for _, f := range g.folders {
		require.Nil(t, f.running)
		require.Nil(t, f.waiting)
	}
}

func TestGroupCommitMissesNothing(t *testing.T) {
	var mu sync.Mutex
	written, durable := map[int]bool{}, map[int]bool{}
	g := newGroupCommit(func(string) error {
		mu.Lock()
		seen := make([]int, 0, len(written))
		for i := range written {
			seen = append(seen, i)
		}
		mu.Unlock()
		mu.Lock()
		defer mu.Unlock()
		for _, i := range seen {
			durable[i] = true
		}
		return nil
	})
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			mu.Lock()
			written[i] = true
			mu.Unlock()
			if err := g.commit("f"); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !durable[i] {
				t.Errorf("write %d was acknowledged before it was durable", i)
			}
		})
	}
	wg.Wait()
}

func TestSyncFolderNamesTheMissing(t *testing.T) {
	require.ErrorIs(t, syncFolder(filepath.Join(t.TempDir(), "none")), os.ErrNotExist)
}
