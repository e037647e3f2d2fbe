package proxy

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/pace"
)

// job is the provider's answer to a start, done and running those to a poll.
func job(id string) step { return step{header: amzJSON, body: `{"JobId":"` + id + `"}`} }

var (
	jobDone    = step{header: amzJSON, body: `{"JobStatus":"SUCCEEDED"}`}
	jobRunning = step{header: amzJSON, body: `{"JobStatus":"IN_PROGRESS"}`}
	tooMany    = step{status: 400, header: amzJSON, body: `{"__type":"LimitExceededException","message":"Open jobs exceed maximum concurrent job limit"}`}
)

// bounded is a lab that may have so many open jobs.
func bounded(t *testing.T, jobs int, steps ...step) *journaling {
	t.Helper()
	s := remembering("textract")
	s.openJobs = jobs
	return newJournaling(t, s, steps...)
}

// waits starts a job that has to wait, and gives its answer later.
func (j *journaling) waits(id string) <-chan reply {
	j.t.Helper()
	before := len(j.upstream.attempts())
	start := j.later(j.t.Context(), textractStart("Amz-Sdk-Invocation-Id: "+id))
	synctest.Wait()
	time.Sleep(5 * time.Second)
	require.Len(j.t, j.upstream.attempts(), before, "it waits for its permit")
	return start
}

func TestAJobStartWaitsUntilAnotherJobEnds(t *testing.T) {
	gone := step{status: 400, header: amzJSON, body: `{"__type":"InvalidJobIdException"}`}
	for name, end := range map[string]step{
		"done": jobDone, "failed": {header: amzJSON, body: `{"JobStatus":"FAILED"}`}, "gone": gone,
		"done, and its worker hangs up over the news": {header: amzJSON, body: jobDone.body, after: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				j := bounded(t, 1, job("j-1"), jobRunning, end, job("j-2"))
				require.Equal(t, 200, j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1")).status)
				open, limit := j.account.Permits.Open()
				require.Equal(t, []int{1, 1}, []int{open, limit})
				second := j.waits("i-2")
				require.Contains(t, j.send(t.Context(), textractPoll("j-1")).body, "IN_PROGRESS", "a poll needs no permit")
				j.account.Permits.Ended("j-0") // of nobody
				if end.after > 0 {
					j.send(leaveAfter(t, time.Second), textractPoll("j-1"))
				} else {
					j.send(t.Context(), textractPoll("j-1"))
				}
				r := <-second
				require.Equal(t, "success", r.own("Outcome"))
				require.Contains(t, r.body, "j-2")
				require.Equal(t, 1, j.figure("retry_delay_seconds", "source", fromQueue))
			})
		})
	}
}

// The alert on jobs must not fire for what nobody collects: such a job stands in the journal for longer than it holds a permit.
func TestTheGaugeOfPermitsFollowsPermitsAndNotTheJournal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := bounded(t, 2, job("j-1"), job("j-2"), jobDone, job("j-3"))
		for i, taken := range []int{1, 2} {
			require.Equal(t, 200, j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: "+strings.Repeat("i", i+1))).status)
			require.Equal(t, taken, j.figure("job_permits_taken", "provider", "acct"))
		}
		require.Equal(t, 2, j.figure("jobs_limit", "provider", "acct"))
		j.send(t.Context(), textractPoll("j-1"))
		require.Equal(t, 1, j.figure("job_permits_taken"), "the end of a job has been seen")
		require.Len(t, j.records(), 1)
		time.Sleep(time.Hour)
		require.Len(t, j.records(), 1, "the journal still knows the other one")
		require.Zero(t, j.figure("job_permits_taken"), "its permit is free again")
		require.Equal(t, 200, j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: later")).status)
		require.Equal(t, 1, j.figure("job_permits_taken"))
	})
}

// Between the answer to a start and the record of its job nobody may take the place.
func TestAStartThatWaitsForAnotherStartWaitsForItsJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		accepted := job("j-1")
		accepted.after = time.Second
		j := bounded(t, 1, accepted, jobDone, job("j-2"))
		first := j.later(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		synctest.Wait()
		second := j.later(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-2"))
		require.Equal(t, "success", (<-first).own("Outcome"))
		time.Sleep(time.Second)
		require.Len(t, j.upstream.attempts(), 1)
		j.send(t.Context(), textractPoll("j-1"))
		require.Equal(t, "success", (<-second).own("Outcome"))
	})
}

func TestADeletedJobHoldsNoPermit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := remembering("azure")
		s.openJobs = 1
		j := newJournaling(t, s, azureAccepted, step{status: 204}, azureSecond)
		require.Equal(t, 202, j.send(t.Context(), azureStart(azureKey+"|X-Ms-Client-Request-Id: 1")).status)
		drop := azurePoll("r-1")
		drop.method, drop.header = "DELETE", azureKey
		require.Equal(t, 204, j.send(t.Context(), drop).status)
		require.Zero(t, j.send(t.Context(), azureStart(azureKey+"|X-Ms-Client-Request-Id: 2")).took)
	})
}

func TestAStartThatBroughtNoJobGivesItsPermitBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := bounded(t, 1, step{status: 400, header: amzJSON, body: `{"__type":"BadDocumentException"}`}, step{header: amzJSON, body: `{}`}, job("j-1"))
		for i, want := range []string{"permanent", "success", "success"} {
			r := j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: "+strings.Repeat("i", i+1)))
			require.Equal(t, want, r.own("Outcome"))
			require.Zero(t, r.took)
		}
		open, _ := j.account.Permits.Open()
		require.Equal(t, 1, open)
	})
}

// No throttle and no hint keeps such a start, so that its worker must not be told of one.
func TestAStartThatFindsNoPermitInItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := remembering("textract")
		s.openJobs, s.queue.MaxWaiting = 1, 1
		j := newJournaling(t, s, job("j-1"))
		j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		late := j.waits("i-2")
		full := j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-3"))
		require.Equal(t, "rejected queue_full", full.own("Outcome")+" "+full.own("Reason"))
		require.Equal(t, "1", full.header.Get("Retry-After"))
		r := <-late
		require.Equal(t, "exhausted queue_too_long", r.own("Outcome")+" "+r.own("Reason"))
		require.Contains(t, r.body, "turn")
	})
}

// A worker that starts a job and never asks for it must not hold its place for as long as the result can be fetched.
func TestAJobOfWhichNobodyHearsIsTakenToBeOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := bounded(t, 1, job("j-1"), job("j-2"))
		j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		time.Sleep(time.Hour - 30*time.Second)
		r := j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-2"))
		require.Equal(t, "success", r.own("Outcome"))
		require.Equal(t, 30*time.Second, r.took.Round(time.Second))
	})
}

func TestOpenJobsAreKnownAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := bounded(t, 1, job("j-1"), jobDone, job("j-2"))
		j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		time.Sleep(time.Minute)
		j.restart()
		require.Equal(t, []string{"j-1"}, j.store.RunningJobs("acct", time.Now().Add(-time.Hour)))
		require.Empty(t, j.store.RunningJobs("acct", time.Now().Add(-time.Second)), "it is older")
		require.Empty(t, j.store.RunningJobs("other", time.Now().Add(-time.Hour)))
		j.account.Permits = pace.NewPermits(1, time.Hour, time.Minute)
		j.account.Permits.Started("j-1")
		j.account.Queues = pace.NewQueues("acct", j.account.Provider.Operations, pace.Settings{MaxWaiting: 10}, CircuitOf(j.account.Breakers, false), j.account.Permits)
		second := j.waits("i-2")
		j.send(t.Context(), textractPoll("j-1"))
		require.Equal(t, "success", (<-second).own("Outcome"))
		require.Equal(t, []string{"j-2"}, j.store.RunningJobs("acct", time.Now().Add(-time.Hour)))
	})
}

func TestTheProviderTeachesHowManyJobsMayBeOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := learning("textract")
		j := newJournaling(t, s, job("j-1"), job("j-2"), tooMany, jobDone, job("j-3"))
		for _, id := range []string{"i-1", "i-2"} {
			require.Zero(t, j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: "+id)).took)
		}
		third := j.later(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-3"))
		synctest.Wait()
		open, limit := j.account.Permits.Open()
		require.Equal(t, []int{2, 2}, []int{open, limit})
		time.Sleep(5 * time.Second)
		require.Len(t, j.upstream.attempts(), 3, "it waits for a job's end, not for a backoff")
		j.send(t.Context(), textractPoll("j-1"))
		r := <-third
		require.Equal(t, []string{"success", "2"}, []string{r.own("Outcome"), r.own("Attempts")})
		require.Equal(t, 5*time.Second, r.took)
		require.Zero(t, j.account.Queues.For("StartDocumentAnalysis").Snapshot().Rate, "that says nothing about the rate")
	})
}

// Where nothing is learned, the code is a throttle like others.
func TestTooManyJobsWithoutLearning(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := bounded(t, 0, tooMany, job("j-1"))
		r := j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		require.Equal(t, []string{"success", "2"}, []string{r.own("Outcome"), r.own("Attempts")})
		require.Equal(t, time.Second, r.took, "a backoff")
		_, limit := j.account.Permits.Open()
		require.Zero(t, limit)
	})
}

// The second job for missing pages has the place of the first, which has come to its end.
func TestARepairHasThePlaceOfItsJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := repairingKind("azure")
		s.openJobs = 1
		j := newJournaling(t, s, azureAccepted, azureResult("1", "3"), azureSecond, azureResult("2"), azureAccepted)
		start := azureStart(azureKey + "|Ocr-Proxy-Document-Id: d")
		start.target += "&pages=1-3&locale=de"
		require.Equal(t, 202, j.send(t.Context(), start).status)
		r := j.send(t.Context(), ownPoll("r-1"))
		require.Equal(t, azurePages, r.own("Repaired"))
		require.LessOrEqual(t, r.took, 2*time.Second)
		open, _ := j.account.Permits.Open()
		require.Zero(t, open)
		require.Zero(t, j.send(t.Context(), azureStart(azureKey+"|Ocr-Proxy-Document-Id: another")).took)
	})
}

// It has it although others have waited for one: who asks for the result is not to wait for their jobs.
func TestARepairDoesNotLoseThePlaceOfItsJobToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := repairingKind("azure")
		s.openJobs = 1
		third := azureSecond
		third.header = strings.ReplaceAll(third.header, "r-2", "r-3")
		j := newJournaling(t, s, azureAccepted, azureResult("1", "3"), azureSecond, azureResult("2"), third)
		start := azureStart(azureKey + "|Ocr-Proxy-Document-Id: d")
		start.target += "&pages=1-3&locale=de"
		require.Equal(t, 202, j.send(t.Context(), start).status)
		other := j.later(t.Context(), azureStart(azureKey+"|Ocr-Proxy-Document-Id: another"))
		synctest.Wait()
		r := j.send(t.Context(), ownPoll("r-1"))
		require.Equal(t, azurePages, r.own("Repaired"))
		require.LessOrEqual(t, r.took, 2*time.Second)
		require.Equal(t, 202, (<-other).status)
		open, _ := j.account.Permits.Open()
		require.Equal(t, 1, open)
	})
}

// A job that could not be journaled, or was started through another process, is known by its id alone.
func TestAJobThatIsNotInTheJournalGivesItsPermitBack(t *testing.T) {
	gone := step{status: 400, header: amzJSON, body: `{"__type":"InvalidJobIdException"}`}
	for name, tt := range map[string]struct {
		end  step
		open int
	}{"it is through": {end: jobDone}, "it failed": {end: step{header: amzJSON, body: `{"JobStatus":"FAILED"}`}}, "it runs": {jobRunning, 1}, "whoever asks does not know it": {gone, 1}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				j := bounded(t, 1, job("j-1"), tt.end)
				require.NoError(t, j.store.Close())
				require.Equal(t, 200, j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1")).status)
				open, _ := j.account.Permits.Open()
				require.Equal(t, 1, open)
				require.Empty(t, j.records())
				j.send(t.Context(), textractPoll("j-1"))
				open, _ = j.account.Permits.Open()
				require.Equal(t, tt.open, open)
				j.open()
			})
		})
	}
}
