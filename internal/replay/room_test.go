package replay

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func TestNothingIsPaidForWhileAnswersCannotBeKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, good)
		first, second := l.letter("one", nil), l.letter("two", nil)
		results := filepath.Join(l.dir, "results")
		require.NoError(t, os.Remove(results))
		require.NoError(t, os.WriteFile(results, nil, 0o600)) // no folder can be made in its place
		_, err := l.replayer.Replay(t.Context(), first)
		require.Error(t, err)
		require.Equal(t, 1, l.vendor.called())

		for range 3 {
			response := post(l, second, "")
			require.Equal(t, http.StatusServiceUnavailable, response.Code, "the account has to wait, not the letter")
			require.Contains(t, response.Body.String(), "could not be kept")
			time.Sleep(time.Minute)
		}
		require.Equal(t, 1, l.vendor.called(), "an answer that cannot be kept is not bought")
		require.Empty(t, l.get(second).Replays)

		require.NoError(t, os.Remove(results))
		_, err = l.replayer.Replay(t.Context(), second)
		require.NoError(t, err)
		require.Equal(t, dlq.StatusResolved, l.get(second).Status)
		left, err := os.ReadDir(results)
		require.NoError(t, err)
		require.Len(t, left, 1, "the try leaves nothing behind")
	})
}

func TestALetterThatCannotSayThatItWasPaidForStaysClaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, good)
		id := l.letter("one", nil)
		tmp := filepath.Join(l.dir, "tmp")
		require.NoError(t, os.Remove(tmp))
		require.NoError(t, os.WriteFile(tmp, nil, 0o600)) // nothing can be written any more
		_, err := l.replayer.Replay(t.Context(), id)
		require.Error(t, err)
		require.Equal(t, dlq.StatusClaimed, l.get(id).Status, "open, it would be sent as if it had never been")
		require.NoError(t, os.Remove(tmp))
	})
}
