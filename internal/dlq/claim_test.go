package dlq

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEightClaimantsOneWinner(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	for range 20 {
		id := put(t, s, letter("1"), "x")
		var won atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				c, err := s.Claim(id)
				if err == nil {
					won.Add(1)
					err = c.Discard(Resolution{})
				} else if errors.Is(err, fs.ErrNotExist) {
					err = nil
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, won.Load())
	}
	require.Len(t, files(t, dir, "discarded"), 20)
}

func TestResolve(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	o.MaxBytes = 4096
	s := newStore(t, dir, o)
	id := put(t, s, letter("1"), "the body")
	c, err := s.Claim(id)
	require.NoError(t, err)
	require.Equal(t, []string{"claimed/" + id + ".json"}, files(t, dir, "claimed"))
	require.Empty(t, files(t, dir, "open"))
	require.InDelta(t, 0, metric(t, o, "open"), 0)
	require.Equal(t, "1", c.Envelope().DocumentID)
	payload, err := c.Payload()
	require.NoError(t, err)
	body, err := io.ReadAll(payload)
	require.NoError(t, errors.Join(err, payload.Close()))
	require.Equal(t, "the body", string(body))

	broken := errors.New("connection reset")
	require.ErrorIs(t, c.Resolve(iotest.ErrReader(broken), Resolution{}), broken)
	require.Len(t, files(t, dir, "claimed"), 1, "a failed Resolve leaves the letter claimed")
	require.Empty(t, files(t, dir, "results"))

	result := strings.Repeat("r", 5000) // Beyond the limit, but paid for.
	require.NoError(t, c.Resolve(strings.NewReader(result), Resolution{By: "replay", Label: "fixed", Note: "n"}))
	require.Equal(t, result, read(t, dir, "results", id))
	require.Empty(t, files(t, dir, "claimed"))
	got := listed(t, dir, Filter{Status: StatusResolved})
	require.Len(t, got, 1)
	require.Equal(t, "replay", got[0].Resolution.By)
	require.WithinDuration(t, time.Now(), got[0].Resolution.At, time.Minute)
	require.Empty(t, files(t, dir, "tmp"))
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)
	for _, err := range []error{c.Resolve(nil, Resolution{}), c.Discard(Resolution{}), c.Release(nil)} {
		require.ErrorIs(t, err, ErrSettled)
	}
	_, err = s.Claim(id)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestReleaseAndRaise(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	id := put(t, s, letter("1"), "x")
	c, err := s.Claim(id)
	require.NoError(t, err)
	other := put(t, s, letter("1"), "x")
	require.NotEqual(t, id, other, "a claimed letter is not raised")

	require.NoError(t, c.Release(func(e *Envelope) {
		e.ID = other // Must not take effect.
		e.Replays = append(e.Replays, Replay{At: time.Now(), Outcome: "exhausted"})
	}))
	r, err := View(dir)
	require.NoError(t, err)
	l, err := r.Get(id)
	require.NoError(t, err)
	require.Equal(t, StatusOpen, l.Status)
	require.Len(t, l.Replays, 1)
	require.InDelta(t, 2, metric(t, o, "open"), 0)
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)

	c, err = s.Claim(other)
	require.NoError(t, err)
	require.NoError(t, c.Discard(Resolution{}))
	require.Equal(t, id, put(t, s, letter("1"), "x"), "the released letter is found again")
	c, err = s.Claim(id)
	require.NoError(t, err)
	require.NoError(t, c.Release(nil))
	require.Equal(t, id, put(t, s, letter("1"), "x"))
}

func TestFailedReleaseCanBeTriedAgain(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := put(t, s, letter("1"), "x")
	c, err := s.Claim(id)
	require.NoError(t, err)
	require.ErrorContains(t, c.Release(func(e *Envelope) { e.Outcome = "" }), "outcome")
	require.NoError(t, c.Release(nil))
	require.Equal(t, id, listed(t, dir, Filter{})[0].ID)
}

func TestRaisingAndClaimingDoNotDouble(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 60 {
			if _, err := s.Put(t.Context(), letter("1"), strings.NewReader("x")); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		for range 200 {
			for _, id := range openIDs(s) {
				c, err := s.Claim(id)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err == nil {
					err = c.Discard(Resolution{})
				}
				if err != nil {
					t.Error(err)
				}
			}
		}
	})
	wg.Wait()
	total := 0
	seen := map[string]bool{}
	for _, status := range statuses() {
		for _, l := range listed(t, dir, Filter{Status: status}) {
			require.False(t, seen[l.ID], "%s lies in two folders", l.ID)
			seen[l.ID] = true
			total += l.Occurrences
		}
	}
	require.Equal(t, 60, total, "every failure is counted exactly once")
}

func TestClaimWaitsForALetterThatIsBeingRaised(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, dir, keeping())
		e := letter("1")
		id := put(t, s, e, "x")
		raised, err := s.requests.lock(t.Context(), keyOf(e)) // As Put does between reading and replacing the letter.
		require.NoError(t, err)
		var wg sync.WaitGroup
		wg.Go(func() {
			c, err := s.Claim(id)
			if err == nil {
				err = c.Release(nil)
			}
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		require.Empty(t, files(t, dir, "claimed"), "replacing it now would make a second one in open")
		require.Len(t, files(t, dir, "open"), 1)
		raised()
		wg.Wait()
	})
}

func TestClaimOfWhatCannotBeClaimed(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, Options{})
	_, err := s.Claim("../../etc/passwd")
	require.ErrorIs(t, err, ErrInvalidID)
	_, err = s.Claim(someID)
	require.ErrorIs(t, err, fs.ErrNotExist)
	write(t, "{", dir, "open", someID+".json")
	_, err = s.Claim(someID)
	require.ErrorIs(t, err, ErrUnreadable)
	require.Equal(t, []string{"quarantine/" + someID + ".json"}, files(t, dir, "quarantine"))

	c, err := s.Claim(put(t, s, letter("hash only"), "x"))
	require.NoError(t, err)
	_, err = c.Payload()
	require.ErrorIs(t, err, fs.ErrNotExist)
	c.envelope.RawPayloadRef = "../../../etc/passwd"
	_, err = c.Payload()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, StatusDiscarded)))
	require.NoError(t, c.Discard(Resolution{}), "a missing folder is made again")
}
