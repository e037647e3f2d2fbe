package proxy

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What may have been done at one of several attempts may have been done, whatever the provider said to the last of them.
func TestALetterIsBoundByAnyAttemptAndStaysBound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, travelling("textract"), "b")
		f.falls("b")
		f.at["acct"].script(step{lost: true}, step{status: 503})
		letter, body := f.fails(textractStart("Amz-Sdk-Invocation-Id: i-1"))
		require.True(t, letter.Ambiguous)
		f.restart()
		f.trip("acct")
		r := f.replay(letter, body)
		require.Nil(t, r.Answer)
		require.Equal(t, map[string]int{"acct": 2}, f.asked(), "b would start another job")

		f.heals("acct")
		f.at["acct"].script(step{status: 503}, step{status: 503})
		r = f.replay(letter, body)
		require.NotNil(t, r.Failure, r.Refused)
		letter.Replayed(r.Failure)
		require.True(t, letter.Ambiguous)
		f.at["acct"].script(step{header: amzJSON, body: `{"JobId":"j-1"}`})
		require.NotNil(t, f.replay(letter, body).Answer, "it is known still where it may have been done")
		require.Equal(t, map[string]int{"acct": 5}, f.asked())
	})
}

// A worker whose patience ends before the provider answers repeats its call, which may have started a job by then.
func TestAStartWhoseWorkerHungUpDoesNotMove(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, travelling("textract"), "b")
		f.account.Calls = nil // nothing is rescued
		f.falls("b")
		f.at["acct"].script(step{hang: true})
		f.hangUpAfter(3*time.Second, textractStart("Amz-Sdk-Invocation-Id: i-1"))
		synctest.Wait()
		f.trip("acct")
		r := f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		require.Equal(t, "circuit_open", r.own("Outcome"))
		require.Equal(t, map[string]int{"acct": 1}, f.asked())
	})
}

// A journal that cannot be written costs the memory of a restart, and not the job.
func TestAJobThatIsNotJournaledIsFollowedAllTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, remembering("textract"), "b")
		f.falls("b")
		f.trip("acct")
		require.NoError(t, os.RemoveAll(filepath.Join(f.dir, "jobs")))
		require.NoError(t, os.WriteFile(filepath.Join(f.dir, "jobs"), nil, 0o600))
		f.at["b"].script(step{header: amzJSON, body: `{"JobId":"j-1"}`}, step{header: amzJSON, body: `{"JobStatus":"SUCCEEDED"}`})
		require.Equal(t, http.StatusOK, f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1")).status)
		f.heals("acct")
		require.Contains(t, f.send(t.Context(), textractPoll("j-1")).body, "SUCCEEDED")
		require.Equal(t, map[string]int{"b": 2}, f.asked())
	})
}
