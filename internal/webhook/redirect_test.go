package webhook

import (
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func elsewhere(t *testing.T, o Options, path string) Options {
	t.Helper()
	var err error
	o.URL, err = url.Parse("http://hooks.example" + path)
	require.NoError(t, err)
	return o
}

// What waits for a receiver that does not answer goes to the next one, in its order.
func TestWhatWaitsGoesToTheReceiverAsItIsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/new" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		b := openBox(t, t.TempDir(), h, nil)
		b.emit(t, LetterCreated, 1)
		b.emit(t, LetterCreated, 2)
		settle(time.Second / 2)
		require.True(t, b.Redirect(elsewhere(t, b.options, "/new")))
		settle(time.Minute)
		require.Zero(t, b.Backlog())
		got := h.deliveries()
		require.Equal(t, []string{"/new", "/new"}, []string{got[len(got)-2].path, got[len(got)-1].path})
		require.Equal(t, "1", string(got[len(got)-2].event(t).Data))
	})
}

func TestAReceiverThatHasGoneIsNotRedirected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, statuses(http.StatusGone, http.StatusOK))
		dir := t.TempDir()
		b := openBox(t, dir, h, nil)
		b.emit(t, LetterCreated, 1)
		settle(time.Second)
		require.False(t, b.Redirect(elsewhere(t, b.options, "/new")))
		require.EqualValues(t, 1, b.Backlog(), "it is kept")
	})
}

// Another receiver that was named while the old one said that it is gone has nothing to do with that.
func TestThatOneReceiverHasGoneDoesNotStopTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := receive(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				time.Sleep(time.Second)
				w.WriteHeader(http.StatusGone)
			}
		})
		b := openBox(t, t.TempDir(), h, nil)
		b.emit(t, LetterCreated, 1)
		settle(time.Second / 2)
		require.True(t, b.Redirect(elsewhere(t, b.options, "/new")))
		settle(time.Minute)
		require.Zero(t, b.Backlog())
		require.Equal(t, "/new", h.deliveries()[1].path)
	})
}
