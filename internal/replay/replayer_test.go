package replay

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func good(int, string) (int, string) { return http.StatusOK, `{"text":"read"}` }
func down(int, string) (int, string) { return http.StatusInternalServerError, `{}` }

func TestReplayResolvesWithItsResult(t *testing.T) {
	t.Parallel()
	l := newLab(t, good)
	id := l.letter("one", nil)
	result, err := l.replayer.Replay(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, dlq.StatusResolved, result.Status)
	require.Equal(t, 200, *result.HTTPStatus)
	letter := l.get(id)
	require.Equal(t, dlq.StatusResolved, letter.Status)
	require.Equal(t, "replay", letter.Resolution.By)
	kept, err := os.ReadFile(filepath.Join(l.dir, "results", id))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(kept), "HTTP/1.1 200 OK\r\n"))
	require.True(t, strings.HasSuffix(string(kept), "\r\n\r\n"+`{"text":"read"}`))
	_, err = l.replayer.Replay(t.Context(), id)
	require.ErrorIs(t, err, ErrNotOpen)
	_, err = l.replayer.Replay(t.Context(), "../../etc/passwd")
	require.ErrorIs(t, err, ErrNotOpen)
	require.Equal(t, 1, l.vendor.called())
	require.Equal(t, 1, l.counted(succeeded))
}

func TestReplayThatFailsLengthensTheLetter(t *testing.T) {
	t.Parallel()
	l := newLab(t, down)
	id := l.letter("one", nil)
	for n := range 2 {
		result, err := l.replayer.Replay(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, dlq.StatusOpen, result.Status)
		require.Equal(t, "transient", result.ErrorClass)
		letter := l.get(id)
		require.Equal(t, dlq.StatusOpen, letter.Status)
		require.Len(t, letter.Replays, n+1)
		require.Equal(t, 500, *letter.Replays[n].HTTPStatus)
	}
	files, err := filepath.Glob(filepath.Join(l.dir, "open", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1, "one failure, one letter")
	require.Equal(t, 2, l.counted(failed))
}

func TestOneLetterManyReplayersOneCall(t *testing.T) {
	t.Parallel()
	l := newLab(t, good)
	id := l.letter("one", nil)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := l.replayer.Replay(t.Context(), id); err != nil && !errors.Is(err, ErrClaimed) && !errors.Is(err, ErrNotOpen) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, l.vendor.called())
}

func TestLettersThatAreNotSent(t *testing.T) {
	t.Parallel()
	l := newLab(t, good)
	soon := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		change func(e *dlq.Envelope)
		status int
		says   string
	}{
		"early":       {func(e *dlq.Envelope) { e.RetryNotBefore = &soon }, http.StatusTooEarly, "no sense before"},
		"credentials": {func(e *dlq.Envelope) { e.Request.Credentials = []string{"header:X-Api-Key"} }, http.StatusUnprocessableEntity, "replay_auth"},
		"account":     {func(e *dlq.Envelope) { e.Provider = "gone" }, http.StatusUnprocessableEntity, "no provider account"},
	} {
		id := l.letter(name, c.change)
		w := post(l, id, "")
		require.Equal(t, c.status, w.Code, name)
		require.Contains(t, w.Body.String(), c.says, name)
		require.Equal(t, c.status == http.StatusTooEarly, w.Header().Get("Retry-After") != "", name)
		letter := l.get(id)
		require.Equal(t, dlq.StatusOpen, letter.Status, name)
		require.Empty(t, letter.Replays, name)
	}
	require.Equal(t, http.StatusNotFound, post(l, "019e0000-0000-7000-8000-000000000001", "").Code)
	claimed := l.letter("claimed", nil)
	c, err := l.store.Claim(claimed)
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, post(l, claimed, "").Code)
	require.NoError(t, c.Release(nil))
	gone := l.letter("payload", nil)
	path, _, err := l.letters.PayloadPath(l.get(gone).Envelope)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	require.Equal(t, http.StatusUnprocessableEntity, post(l, gone, "").Code)
	require.Equal(t, dlq.StatusOpen, l.get(gone).Status)
	require.Zero(t, l.vendor.called())
	require.Contains(t, post(l, claimed, "?dry_run=true").Body.String(), `"calls":1`)
	require.Zero(t, l.vendor.called())
	l.replayer.Stop()
	require.Equal(t, http.StatusServiceUnavailable, post(l, claimed, "").Code, "while the proxy ends")
}

func post(l *lab, id, query string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/"+query, http.NoBody)
	r.SetPathValue("id", id)
	l.replayer.ServeHTTP(w, r)
	return w
}

func TestOpenCircuitPostpones(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, down)
		var ids []string
		for _, d := range []string{"a", "b", "c", "d"} {
			ids = append(ids, l.letter(d, nil))
		}
		for _, id := range ids[:3] {
			_, err := l.replayer.Replay(t.Context(), id)
			require.NoError(t, err)
		}
		l.account.HoldOpen = true // a worker would be held
		began := time.Now()
		_, err := l.replayer.Replay(t.Context(), ids[3])
		require.Zero(t, time.Since(began), "nothing waits while it holds a letter")
		later, ok := errors.AsType[*LaterError](err)
		require.True(t, ok, err)
		require.False(t, later.Own)
		require.WithinDuration(t, time.Now().Add(time.Minute), later.At, time.Second)
		require.Empty(t, l.get(ids[3]).Replays)
		require.Equal(t, "60", post(l, ids[3], "").Header().Get("Retry-After"))
		require.Equal(t, 3, l.vendor.called())
		require.Equal(t, 2, l.counted(postponed))
	})
}

func TestResultThatCannotBeKeptLeavesAnAmbiguousLetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, good)
		id := l.letter("one", nil)
		results := filepath.Join(l.dir, "results")
		require.NoError(t, os.Remove(results))
		require.NoError(t, os.WriteFile(results, nil, 0o600)) // no folder can be made in its place
		_, err := l.replayer.Replay(t.Context(), id)
		require.Error(t, err)
		letter := l.get(id)
		require.Equal(t, dlq.StatusOpen, letter.Status)
		require.True(t, letter.Ambiguous)
		require.Equal(t, dlq.ReplayNotKept, letter.Replays[0].Outcome)
		require.Equal(t, 1, l.counted(lost))
		require.NoError(t, os.Remove(results))
	})
}

func TestAutoReplay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var outage sync.Mutex
		broken := true
		l := newLab(t, func(_ int, body string) (int, string) {
			outage.Lock()
			defer outage.Unlock()
			if broken || body == "bad" {
				return http.StatusInternalServerError, `{}`
			}
			return http.StatusOK, `{}`
		})
		bad := l.letter("bad", nil)
		var ids []string
		for _, d := range []string{"a", "b", "c", "d"} {
			ids = append(ids, l.letter(d, nil))
		}
		permanent := l.letter("permanent", func(e *dlq.Envelope) { e.Outcome = "permanent" })
		old := l.letter("old", func(e *dlq.Envelope) { e.FirstAttemptAt = time.Now().Add(-25 * time.Hour) })
		at := time.Now().Add(3 * time.Hour)
		early := l.letter("early", func(e *dlq.Envelope) { e.RetryNotBefore = &at })

		done := make(chan struct{})
		running, stop := context.WithCancel(t.Context())
		go func() {
			defer close(done)
			l.replayer.Auto(running, Auto{Account: "acct", MaxAge: 24 * time.Hour, Rate: 2, Recovered: l.recovered})
		}()
		time.Sleep(time.Minute)
		require.Equal(t, 3, l.vendor.called(), "it stops when the circuit opens")
		time.Sleep(time.Hour)
		require.Equal(t, 3, l.vendor.called(), "and stays away until it has closed")
		require.Equal(t, 1, l.counted(postponed))

		outage.Lock()
		broken = false
		outage.Unlock()
		_, err := l.replayer.Replay(t.Context(), ids[0]) // somebody's call closes the circuit
		require.NoError(t, err)
		time.Sleep(time.Second / 4)
		require.LessOrEqual(t, l.vendor.called(), 5, "at its rate")
		time.Sleep(time.Minute)
		for _, id := range ids {
			require.Equal(t, dlq.StatusResolved, l.get(id).Status)
		}
		require.Equal(t, dlq.StatusOpen, l.get(bad).Status)
		require.Len(t, l.get(bad).Replays, 2, "once a round")
		require.Equal(t, dlq.StatusOpen, l.get(permanent).Status)
		require.Equal(t, dlq.StatusOpen, l.get(old).Status)
		require.Equal(t, dlq.StatusOpen, l.get(early).Status)
		time.Sleep(2 * time.Hour)
		require.Equal(t, dlq.StatusResolved, l.get(early).Status, "when its own time has come")
		require.Len(t, l.get(bad).Replays, 2)
		stop()
		<-done
	})
}

func TestReplayResolvesTheOtherLetterAboutTheRequest(t *testing.T) {
	t.Parallel()
	l := newLab(t, good)
	first := l.letter("one", nil)
	c, err := l.store.Claim(first)
	require.NoError(t, err)
	second := l.letter("one", nil) // the worker's own repetition failed meanwhile
	require.NoError(t, c.Release(nil))
	_, err = l.replayer.Replay(t.Context(), second)
	require.NoError(t, err)
	require.Equal(t, dlq.StatusResolved, l.get(first).Status, "it must not be paid for twice")
	_, err = l.replayer.Replay(t.Context(), first)
	require.ErrorIs(t, err, ErrNotOpen)
	require.Equal(t, 1, l.vendor.called())
}
