package dlq

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALetterIsBroughtToItsEndByHand(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	first, second := put(t, s, letter("1"), "x"), put(t, s, letter("2"), "y")

	l, err := s.Resolve(first, Resolution{By: "ann", Note: "typed in by hand", Label: "handwriting"})
	require.NoError(t, err)
	require.Equal(t, StatusResolved, l.Status)
	require.Equal(t, first, l.ID)
	require.Equal(t, "ann", l.Resolution.By)
	require.Equal(t, "handwriting", l.Resolution.Label)
	require.WithinDuration(t, time.Now(), l.Resolution.At, time.Minute)

	_, err = s.Discard(second, Resolution{Note: " \n"})
	require.ErrorIs(t, err, ErrNoReason)
	require.Equal(t, []string{"open/" + second + ".json"}, files(t, dir, "open"))
	short := second[:len(second)-2] // the two were written in the same moment
	l, err = s.Discard(short, Resolution{Note: "a blank page"})
	require.NoError(t, err, "the beginning of an id will do")
	require.Equal(t, StatusDiscarded, l.Status)
	require.Equal(t, "a blank page", l.Resolution.Note)
	require.InDelta(t, 0, metric(t, o, "open"), 0)
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)
}

func TestOnlyOpenLettersAreBroughtToAnEnd(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := put(t, s, letter("1"), "x")
	c, err := s.Claim(id)
	require.NoError(t, err)
	_, err = s.Resolve(id, Resolution{})
	require.ErrorIs(t, err, ErrNotOpen)
	require.ErrorContains(t, err, "claimed")
	require.NoError(t, c.Discard(Resolution{}))
	_, err = s.Resolve(id, Resolution{})
	require.ErrorContains(t, err, "is not open but discarded")

	_, err = s.Resolve(someID, Resolution{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = s.Resolve("../../etc/passwd", Resolution{})
	require.ErrorIs(t, err, ErrInvalidID)
	write(t, "{", dir, "open", someID+".json")
	_, err = s.Resolve(someID, Resolution{})
	require.ErrorIs(t, err, ErrUnreadable)
}

func TestALetterHasOneEnd(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := put(t, s, letter("1"), "x")
	var ended atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := s.Resolve(id, Resolution{})
			switch {
			case err == nil:
				ended.Add(1)
			case !errors.Is(err, ErrNotOpen) && !errors.Is(err, fs.ErrNotExist):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, ended.Load())
}

func TestALetterThatCannotBeEndedIsOpenAgain(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := put(t, s, letter("1"), "x")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, StatusResolved)))
	write(t, "", dir, StatusResolved) // a file in the folder's place
	_, err := s.Resolve(id, Resolution{})
	require.Error(t, err)
	require.Equal(t, []string{"open/" + id + ".json"}, files(t, dir, "open"))
	require.NoError(t, os.Remove(filepath.Join(dir, StatusResolved)))
	_, err = s.Resolve(id, Resolution{})
	require.NoError(t, err)
}
