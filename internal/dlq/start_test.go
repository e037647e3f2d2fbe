package dlq

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPutWaitsForTheIndexButNotForLong(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, dir, keeping())
		id := put(t, s, letter("1"), "x")
		reading := func() {
			s.index.mu.Lock()
			s.index.table = table{waiting: s.waiting}
			s.index.mu.Unlock()
			s.index.known, s.index.enough, s.index.knownOnce = make(chan struct{}), make(chan struct{}), sync.Once{}
		}
		var wg sync.WaitGroup
		got := ""
		begin := func() {
			got = ""
			wg.Go(func() { got, _ = s.Put(t.Context(), letter("1"), strings.NewReader("x")) })
			synctest.Wait()
			require.Empty(t, got, "it waits")
		}
		reading()
		begin()
		_, _, _, err := s.index.load(t.Context())
		require.NoError(t, err)
		s.index.know()
		wg.Wait()
		require.Equal(t, id, got, "and raises what was found")

		reading()
		begin()
		close(s.index.enough)
		wg.Wait()
		require.NotEqual(t, id, got, "two letters are better than a worker that waits")

		reading()
		bare := letter("anonymous")
		bare.RequestFingerprint = ""
		put(t, s, bare, "x") // Never merged, so it need not wait.
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the worker went away")
		cancel(gone)
		_, err = s.Put(ctx, letter("1"), strings.NewReader("x"))
		require.ErrorIs(t, err, gone)
	})
}

func TestAnyLetterMayBeMeantWhileTheIndexIsRead(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, dir, keeping())
		e := letter("1")
		id := put(t, s, e, "x")
		letters := s.OpenLetters("acct")
		require.False(t, letters.May("ocr", 99))
		s.index.mu.Lock()
		s.index.table = table{waiting: newWaitingCalls()}
		s.index.mu.Unlock()
		s.index.known, s.index.enough, s.index.knownOnce = make(chan struct{}), make(chan struct{}), sync.Once{}
		require.True(t, letters.May("ocr", 99), "only later it is certain that none is")
		var resolved []string
		var wg sync.WaitGroup
		wg.Go(func() {
			ids, err := letters.Resolve(t.Context(), Done{RequestFingerprint: e.RequestFingerprint, DocumentID: e.DocumentID, IdempotencyKey: e.IdempotencyKey, Tenant: e.Tenant}, Resolution{})
			require.NoError(t, err)
			resolved = ids
		})
		synctest.Wait()
		require.Empty(t, resolved, "it waits")
		_, _, _, err := s.index.load(t.Context())
		require.NoError(t, err)
		s.index.know()
		wg.Wait()
		require.Equal(t, []string{id}, resolved)
	})
}

func TestErrands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newErrand()
		release := make(chan struct{})
		began := time.Now()
		require.False(t, e.run(time.Second, func(context.Context) { <-release }))
		require.Equal(t, time.Second, time.Since(began))
		require.False(t, e.run(time.Second, func(context.Context) { t.Error("two at a time") }))
		close(release)
		synctest.Wait()
		done := false
		require.True(t, e.run(time.Second, func(context.Context) { done = true }))
		require.True(t, done)
		ended := false
		e.run(0, func(ctx context.Context) {
			for ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			ended = true
		})
		e.close()
		require.True(t, ended, "close ends the work and waits for it")
		require.False(t, e.run(time.Second, func(context.Context) { t.Error("after the end") }))
	})
}

func TestGaugesAreAbsentWhileABigStoreIsCounted(t *testing.T) {
	o := keeping()
	s := newStore(t, t.TempDir(), o)
	put(t, s, letter("1"), "x")
	s.index.known, s.index.knownOnce = make(chan struct{}), sync.Once{}
	s.usage.told = false
	for _, name := range []string{"open", "oldest_open_seconds", "bytes"} {
		require.InDelta(t, -1, metric(t, o, name), 0, name)
	}
}

func TestSizeIsEstimatedUntilItIsMeasured(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	settle(t, s)
	put(t, s, letter("1"), "x")
	size := s.usage.bytes()
	require.NoError(t, s.Close())
	x := newIndex(dir, newWaitingCalls())
	told, segments, torn, err := x.load(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, segments)
	require.False(t, torn)
	require.Equal(t, size, told)
	u := &usage{dir: dir}
	u.grow(5) // Written since the start.
	u.estimate(told)
	require.Equal(t, size+5, u.bytes())
	require.True(t, u.measure(t.Context()))
	u.estimate(1)
	require.Equal(t, folderBytes(dir), u.bytes(), "what was measured stays")
}
