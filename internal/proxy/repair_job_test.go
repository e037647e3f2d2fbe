package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// azureResult is a result of those pages.
func azureResult(pages ...string) step {
	var content string
	var all []string
	for _, page := range pages {
		all = append(all, fmt.Sprintf(`{"pageNumber":%s,"spans":[{"offset":%d,"length":2}]}`, page, len(content)))
		content += "p" + page + `\n`
	}
	content = strings.ReplaceAll(content, `\n`, " ")
	text := fmt.Sprintf(`{"status":"succeeded","analyzeResult":{"stringIndexType":"textElements","content":%q,"pages":[%s]}}`, content, strings.Join(all, ","))
	return step{header: asJSON, body: text}
}

var (
	azureAccepted = step{status: 202, header: "Operation-Location: " + resultURL}
	azureSecond   = step{status: 202, header: "Operation-Location: " + strings.Replace(resultURL, "r-1", "r-2", 1)}
	azureRunning  = step{header: asJSON + "|Retry-After: 3", body: `{"status":"running"}`}
	azurePages    = "pages=2; attempts=1"
)

// startedAzure is a lab with a job whose first result lacks page 2.
func startedAzure(t *testing.T, steps ...step) *journaling {
	t.Helper()
	j := newJournaling(t, repairingKind("azure"), append([]step{azureAccepted}, steps...)...)
	start := azureStart(azureKey + "|Ocr-Proxy-Document-Id: d")
	start.target += "&pages=1-3&locale=de"
	require.Equal(t, 202, j.send(t.Context(), start).status)
	return j
}

func ownPoll(id string) call {
	c := azurePoll(id)
	c.header = azureKey
	return c
}

func TestASecondJobReadsThePagesThatAResultLacks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := startedAzure(t, azureRunning, azureResult("1", "3"), azureSecond, azureRunning, step{status: 503}, azureResult("2"))
		require.Equal(t, `{"status":"running"}`, j.send(t.Context(), ownPoll("r-1")).body)
		r := j.send(t.Context(), ownPoll("r-1"))
		require.Equal(t, []string{azurePages, "success", "success", "2"}, []string{r.own("Repaired"), r.own("Outcome"), r.own("Class"), r.own("Attempts")})
		require.Contains(t, r.body, `"content":"p1 p3 \np2 "`)
		require.Contains(t, r.body, `{"pageNumber":1,"spans":[{"offset":0,"length":2}]},{"pageNumber":2,"spans":[{"offset":7,"length":2}]},{"pageNumber":3`)
		require.Equal(t, 5*time.Second, r.took, "when the provider says, and else every second")

		seen := j.upstream.attempts()
		require.Equal(t, []string{http.MethodPost, "/documentintelligence/documentModels/m:analyze?api-version=1&locale=de&pages=2", seen[0].body}, []string{seen[3].method, seen[3].target, seen[3].body})
		require.Equal(t, []string{"application/json", "key-of-a-worker"}, []string{seen[3].header.Get("Content-Type"), seen[3].header.Get("Ocp-Apim-Subscription-Key")})
		require.Equal(t, "/documentintelligence/documentModels/m/analyzeResults/r-2?api-version=1", seen[4].target)
		require.Empty(t, j.sink.letters)
		j.closing()
	})
}

// Whoever asks for the result again pays for nothing.
func TestAResultThatIsAskedForAgainIsRepairedByTheSameJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := startedAzure(t, azureResult("1", "3"), azureSecond, azureResult("2"))
		first := j.send(t.Context(), ownPoll("r-1"))
		require.Equal(t, azurePages, first.own("Repaired"))
		for range 2 {
			j.restart()
			j.upstream.script(azureResult("1", "3"), azureResult("2"))
			again := j.send(t.Context(), ownPoll("r-1"))
			require.Equal(t, []string{first.body, azurePages, "1"}, []string{again.body, again.own("Repaired"), again.own("Attempts")})
			synctest.Wait()
		}
		time.Sleep(24 * time.Hour)
		j.upstream.script(azureResult("1", "3"))
		require.Empty(t, j.send(t.Context(), ownPoll("r-1")).own("Repaired"), "nobody knows of it any more")
		j.closing()
	})
}

func TestAWorkerThatHangsUpOverTheSecondJobFindsItAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after time.Duration // of the hang-up
		steps []step
	}{
		"while it is started":   {time.Second, []step{{status: 202, after: 2 * time.Second, header: azureSecond.header}}},
		"while it is asked for": {2 * time.Second, []step{azureSecond, azureRunning}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				j := startedAzure(t, append([]step{azureResult("1", "3")}, c.steps...)...)
				ctx, cancel := context.WithTimeout(t.Context(), c.after)
				defer cancel()
				require.Error(t, j.send(ctx, ownPoll("r-1")).err)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				j.restart()
				j.upstream.script(azureResult("1", "3"), azureResult("2"))
				require.Equal(t, azurePages, j.send(t.Context(), ownPoll("r-1")).own("Repaired"))
				j.closing()
			})
		})
	}
}

// Whatever becomes of the second start, there is no third, and the worker has its answer.
func TestASecondJobIsStartedOnce(t *testing.T) {
	t.Parallel()
	for name, second := range map[string][]step{
		"lost":          {{lost: true}},
		"hangs":         {{hang: true}},
		"refused":       {{status: 400, header: asJSON, body: `{"error":{"code":"InvalidArgument"}}`}},
		"throttled":     {{status: 429, header: "Retry-After: 30"}},
		"out of order":  {{status: 503}},
		"without a job": {{status: 202}},
		"failed":        {azureSecond, {header: asJSON, body: `{"status":"failed","error":{"code":"InternalServerError"}}`}},
		"forgotten":     {azureSecond, {status: 404}},
		"other pages":   {azureSecond, azureResult("1")},
		"no pages":      {azureSecond, azureResult()},
		"no result":     {azureSecond, {header: asJSON, body: `{"status":"succeeded"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				j := startedAzure(t, append([]step{azureResult("1", "3")}, second...)...)
				text := azureResult("1", "3").body
				r := j.send(t.Context(), ownPoll("r-1"))
				require.Equal(t, []string{text, "success", "success", ""}, []string{r.body, r.own("Outcome"), r.own("Class"), r.own("Repaired")})
				require.Empty(t, j.sink.letters)
				synctest.Wait()
				j.restart()
				j.upstream.script(append([]step{azureResult("1", "3")}, second[1:]...)...) // asking is free, starting is not
				again := j.send(t.Context(), ownPoll("r-1"))
				require.Equal(t, []string{text, ""}, []string{again.body, again.own("Repaired")})
				j.closing()
			})
		})
	}
}

// The journal still knows the job, since its worker was not told of the end.
func TestAStartWithoutAnAnswerIsNotMadeAgainForAWorkerThatHungUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := startedAzure(t, azureResult("1", "3"), step{hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, j.send(ctx, ownPoll("r-1")).err)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		require.Len(t, j.records(), 1)
		for range 2 {
			j.restart()
			j.upstream.script(azureResult("1", "3"))
			require.Empty(t, j.send(t.Context(), ownPoll("r-1")).own("Repaired"))
			synctest.Wait()
		}
		j.closing()
	})
}

func TestTwoWhoAskAtOnceStartOneSecondJob(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]time.Duration{"at the same instant": 0, "while it is started": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				lacking := azureResult("1", "3")
				lacking.after = time.Second
				steps := []step{lacking, lacking, {status: 202, after: 4 * time.Second, header: azureSecond.header}, azureResult("2")}
				if later > 0 {
					steps[1], steps[2] = steps[2], steps[1]
				}
				j := startedAzure(t, steps...)
				one := j.later(t.Context(), ownPoll("r-1"))
				time.Sleep(later)
				two := j.later(t.Context(), ownPoll("r-1"))
				repaired := []string{(<-one).own("Repaired"), (<-two).own("Repaired")}
				require.ElementsMatch(t, []string{azurePages, ""}, repaired, "the other gets it as it came")
				j.closing()
			})
		})
	}
}

func TestWhatCannotBeStartedAgainIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := startedAzure(t)
		asItCame := func(why string, c call) {
			t.Helper()
			j.upstream.script(azureResult("1", "3"))
			require.Empty(t, j.send(t.Context(), c).own("Repaired"), why)
		}
		j.account.RepairPages = false
		j.account.Jobs = nil
		asItCame("not asked for", ownPoll("r-1"))
		j.account.RepairPages = true
		asItCame("without a journal", ownPoll("r-1"))
		j.account.Jobs = j.store
		asItCame("another's job", ownPoll("r-9"))
		require.NoError(t, j.store.Close())
		asItCame("a mark that cannot be written", ownPoll("r-1"))
		j.closing()
	})
}

func TestOnlyTheOwnerOfAJobPaysForItsPages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := startedAzure(t, azureResult("1", "3"))
		theirs := azurePoll("r-1")
		theirs.header = "Ocp-Apim-Subscription-Key: another"
		require.Empty(t, j.send(t.Context(), theirs).own("Repaired"))
		j.closing()
	})
}

func TestAKeyThatWasCutOutOfAStartIsMissed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, repairingKind("azure"), azureAccepted, azureResult("1", "3"))
		start := azureStart("Ocr-Proxy-Document-Id: d")
		start.target += "&subscription-key=mine"
		require.Equal(t, 202, j.send(t.Context(), start).status)
		poll := azurePoll("r-1")
		poll.target += "&subscription-key=mine"
		require.Empty(t, j.send(t.Context(), poll).own("Repaired"))
		j.closing()
	})
}

func TestASecondJobThatTakesTooLongIsThereNextTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		running := azureRunning
		running.header = asJSON + "|Retry-After: 40"
		j := startedAzure(t, azureResult("1", "3"), azureSecond, running, running, running)
		r := j.send(t.Context(), ownPoll("r-1"))
		require.Equal(t, []string{azureResult("1", "3").body, "success", ""}, []string{r.body, r.own("Outcome"), r.own("Repaired")})
		require.Less(t, r.took, 90*time.Second)
		synctest.Wait()
		j.upstream.script(azureResult("1", "3"), azureResult("2"))
		require.Equal(t, azurePages, j.send(t.Context(), ownPoll("r-1")).own("Repaired"))
		j.closing()
	})
}
