package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASpreadSharesCallsAndRepeatsOfAStartMeetTheSameAccount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("textract"), "b", "c")
		f.spreads(map[string]int{"b": 3, "c": 1})
		for name, n := range map[string]int{"b": 6, "c": 2} {
			for range n {
				f.at[name].script(step{header: amzJSON, body: `{"Blocks":[]}`})
			}
		}
		for range 8 {
			r := f.send(t.Context(), call{target: "/", header: amzJSON + "|X-Amz-Target: Textract.DetectDocumentText", body: `{"Document":{"Bytes":"QQ=="}}`})
			require.Equal(t, "success", r.own("Outcome"))
		}
		require.Equal(t, map[string]int{"b": 6, "c": 2}, f.asked(), "in proportion, and nothing at the listener's own account, which is not named")

		// A start that is refused for now, and comes again as another call: not from the journal, and at the same account.
		for i := range 6 {
			var met []string
			for round := range 3 {
				before := f.asked()
				for _, name := range []string{"b", "c"} {
					f.at[name].steps = []step{{status: 400, header: amzJSON, body: `{"__type":"LimitExceededException"}`}}
				}
				start := textractStart(fmt.Sprintf("Amz-Sdk-Invocation-Id: i-%d-%d", i, round))
				start.body = strings.Replace(s3Start, `"n"`, fmt.Sprintf(`"n%d"`, i), 1)
				f.account.Group.spread[0].turn = -100 * (round % 2) // whoever would be asked in turn
				r := f.send(t.Context(), start)
				require.Equal(t, "2", r.own("Attempts"), "the other member is asked when the first has failed")
				after := f.asked()
				require.Equal(t, []int{before["b"] + 1, before["c"] + 1}, []int{after["b"], after["c"]})
				met = append(met, f.sink.letters[len(f.sink.letters)-1].Attempts[0].Account)
			}
			require.Equal(t, []string{met[0], met[0], met[0]}, met)
		}
	})
}

func TestASpreadPassesOverWhoCannotServe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("mistral"), "b", "c")
		f.spreads(map[string]int{"acct": 1, "b": 1})
		f.trip("acct")
		for range 3 {
			f.at["b"].script(step{body: `{"pages":[]}`})
			require.Equal(t, "1", f.send(t.Context(), analysis(doc)).own("Attempts"))
		}
		require.Equal(t, map[string]int{"b": 3}, f.asked())
		require.Zero(t, f.figure("breaker_rejected_total"), "passed over, not refused there")
		f.spreads(map[string]int{"acct": 1, "b": 1}, "c")
		f.at["b"].script(step{status: 500})
		f.at["c"].script(step{body: `{"pages":[]}`})
		require.Equal(t, "success", f.send(t.Context(), analysis("Qg==")).own("Outcome"), "then the other members, then the fallback")
		require.Equal(t, map[string]int{"b": 4, "c": 1}, f.asked())
	})
}

func TestAJobStaysWithTheAccountThatAcceptedItAlsoAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, remembering("textract"), "b")
		f.falls("b")
		f.trip("acct")
		f.at["b"].script(step{header: amzJSON, body: `{"JobId":"j-1"}`})
		first := f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		require.Equal(t, "success", first.own("Outcome"))

		f.heals("acct") // and would be asked first
		f.restart()
		again := f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		require.Equal(t, []string{"journaled", "0"}, []string{again.own("Reason"), again.own("Attempts")}, "a repeat is answered over the whole group")
		require.Equal(t, first.body, again.body)

		f.at["b"].script(step{header: amzJSON, body: `{"JobStatus":"IN_PROGRESS"}`}, step{status: 503}, step{header: amzJSON, body: `{"JobStatus":"SUCCEEDED"}`})
		require.Contains(t, f.send(t.Context(), textractPoll("j-1")).body, "IN_PROGRESS")
		r := f.send(t.Context(), textractPoll("j-1"))
		require.Contains(t, r.body, "SUCCEEDED")
		require.Equal(t, "2", r.own("Attempts"), "nobody else is asked")
		require.Empty(t, f.records(), "its end is noted")
		require.Equal(t, map[string]int{"b": 4}, f.asked())

		f.at["acct"].script(step{status: 400, header: amzJSON, body: `{"__type":"InvalidJobIdException"}`})
		f.send(t.Context(), textractPoll("j-1"))
		require.Equal(t, 1, f.asked()["acct"], "what the journal does not know is the listener's own")
	})
}

func TestAPollIsNotMadeElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("textract"), "b")
		f.falls("b")
		f.trip("acct")
		f.at["b"].script(step{header: amzJSON, body: `{"JobId":"j-1"}`}, step{status: 503})
		f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		require.Equal(t, "exhausted", f.send(t.Context(), textractPoll("j-1")).own("Outcome"))
		require.Equal(t, "circuit_open", f.send(t.Context(), textractPoll("j-of-acct")).own("Outcome"), "b would not know it")
		require.Equal(t, map[string]int{"b": 2}, f.asked())
	})
}

func TestJobsOfAccountsBeyondTheGroupAreNotLookedAt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("textract"), "b", "other")
		f.account.Group, f.accounts["b"].Group = nil, nil
		f.falls("other")
		f.trip("acct")
		f.at["other"].script(step{header: amzJSON, body: `{"JobId":"j-1"}`})
		f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		f.falls("b")
		f.heals("acct")
		f.at["acct"].script(step{status: 400, header: amzJSON, body: `{"__type":"InvalidJobIdException"}`}, step{header: amzJSON, body: `{"JobId":"j-2"}`})
		f.send(t.Context(), textractPoll("j-1"))
		require.Equal(t, map[string]int{"acct": 1, "other": 1}, f.asked())
		r := f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		require.Contains(t, r.body, "j-2", "nor is their journal")
		require.Len(t, f.records(), 2)
	})
}

func TestAzureJobsAreFollowedUnderTheListenersAddress(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := once("azure")
		s.base = "/base"
		f := newFleet(t, s, "b")
		f.falls("b")
		f.trip("acct")
		location := "http://b/base/documentintelligence/documentModels/m/analyzeResults/r-1?api-version=1"
		f.at["b"].script(step{status: 202, header: "Operation-Location: " + location})
		start := azureStart("X-Ms-Client-Request-Id: c-1")
		start.host = "worker.sees:9"
		r := f.send(t.Context(), start)
		require.Equal(t, "http://worker.sees:9/documentintelligence/documentModels/m/analyzeResults/r-1?api-version=1", r.header.Get("Operation-Location"))
		f.heals("acct")
		f.restart()
		again := f.send(t.Context(), start)
		require.Equal(t, []string{"journaled", r.header.Get("Operation-Location")}, []string{again.own("Reason"), again.header.Get("Operation-Location")})

		f.at["b"].script(step{header: asJSON, body: `{"status":"running"}`}, step{body: "%PDF"}, step{body: "PNG"}, step{header: asJSON, body: `{"status":"succeeded"}`})
		f.send(t.Context(), azurePoll("r-1"))
		for _, part := range []string{"/pdf", "/figures/1.1"} {
			f.send(t.Context(), call{method: http.MethodGet, target: "/documentintelligence/documentModels/m/analyzeResults/r-1" + part + "?api-version=1"})
		}
		f.send(t.Context(), azurePoll("r-1"))
		require.Empty(t, f.records())
		require.Equal(t, map[string]int{"b": 5}, f.asked())
	})
}

func TestAzureDeletesGoWhereTheJobIs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("azure"), "b")
		f.falls("b")
		f.trip("acct")
		f.at["b"].script(step{status: 202, header: "Operation-Location: http://b/documentintelligence/documentModels/m/analyzeResults/r-1"}, step{status: 204})
		f.send(t.Context(), azureStart(""))
		require.Len(t, f.records(), 1)
		gone := azurePoll("r-1")
		gone.method = http.MethodDelete
		require.Equal(t, 204, f.send(t.Context(), gone).status)
		require.Empty(t, f.records())
	})
}

// The address of a job that joined calls are given is that of the account that has it.
func TestJoinedCallsAreGivenTheListenersAddress(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := remembering("azure")
		s.policy.MaxAttempts = 1
		s.base = "/base"
		f := newFleet(t, s, "b")
		f.falls("b")
		f.trip("acct")
		f.at["b"].script(step{after: 5e9, status: 202, header: "Operation-Location: http://b/base/documentintelligence/documentModels/m/analyzeResults/r-1"})
		start := azureStart("Ocr-Proxy-Join: true|X-Ms-Client-Request-Id: c-1")
		one, two := f.later(t.Context(), start), f.later(t.Context(), start)
		for _, r := range []reply{<-one, <-two} {
			require.Equal(t, "http://proxy/documentintelligence/documentModels/m/analyzeResults/r-1", r.header.Get("Operation-Location"))
		}
		require.Equal(t, map[string]int{"b": 1}, f.asked())
	})
}

func TestGRPCJobsStayWithTheirAccount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("documentai"), "b")
		f.speakRPC()
		f.falls("b")
		f.trip("acct")
		f.at["b"].script(good(running(theJob, nil)))
		r := f.send(t.Context(), rpcStart(aDocument))
		require.Equal(t, "success", r.own("Outcome"))
		f.heals("acct")
		f.restart()
		f.at["b"].script(good(running(theJob, nil)), good(nil))
		f.send(t.Context(), asking("GetOperation", theJob))
		f.send(t.Context(), asking("CancelOperation", theJob))
		require.Equal(t, map[string]int{"b": 3}, f.asked())
	})
}

func TestALetterGoesOnlyWhereItsCallMayHaveBeenDone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("textract"), "b")
		f.falls("b")
		f.trip("acct")
		f.at["b"].script(step{lost: true})
		letter, body := f.fails(textractStart("Amz-Sdk-Invocation-Id: i-1"))
		require.True(t, letter.Ambiguous)
		require.Equal(t, []any{"acct", "b"}, []any{letter.Provider, letter.Attempts[0].Account})
		f.heals("acct")
		f.restart()
		f.at["b"].script(step{header: amzJSON, body: `{"JobId":"j-1"}`})
		r := f.replay(letter, body)
		require.NotNil(t, r.Answer, r.Refused)
		require.Equal(t, map[string]int{"b": 2}, f.asked())
		require.Equal(t, tokenOf(t, f.at["b"].attempts()[0].body), tokenOf(t, f.at["b"].attempts()[1].body), "under the same token")

		f.falls() // b is not of the group any more
		require.Contains(t, f.replay(letter, body).Refused, "at which account")
		require.Equal(t, map[string]int{"b": 2}, f.asked())
	})
}

func TestAReplayMayGoToAnotherAccountAndItsJobIsFollowedThere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("azure"), "b")
		f.falls("b")
		f.at["acct"].script(step{status: 503})
		f.at["b"].script(step{status: 503})
		letter, body := f.fails(azureStart(""))
		f.trip("acct")
		require.Zero(t, f.account.ReplayWait(letter), "b could take it")
		f.at["b"].script(step{status: 202, header: "Operation-Location: http://b/documentintelligence/documentModels/m/analyzeResults/r-1"})
		r := f.replay(letter, body)
		require.NotNil(t, r.Answer, r.Refused)
		resp, _ := taken(t, r.Answer)
		require.Equal(t, "http://here/documentintelligence/documentModels/m/analyzeResults/r-1", resp.Header.Get("Operation-Location"))
		f.at["b"].script(step{header: asJSON, body: `{"status":"failed","error":{"code":"InvalidContent"}}`})
		f.send(t.Context(), azurePoll("r-1"))
		failed, _ := f.buried()
		require.Equal(t, []string{"acct", "r-1"}, []string{failed.Provider, failed.Job.ID})
		f.trip("b")
		require.Positive(t, f.account.ReplayWait(letter))
	})
}

// A start that follows one whose job failed must be another job at every account.
func TestAFailedJobOfAnotherAccountIsNotNamedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("textract"), "b")
		f.falls("b")
		f.trip("acct")
		f.at["b"].script(
			step{header: amzJSON, body: `{"JobId":"j-1"}`}, step{header: amzJSON, body: `{"JobStatus":"FAILED","StatusMessage":"INVALID_IMAGE_TYPE"}`},
			step{header: amzJSON, body: `{"JobId":"j-2"}`})
		f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		f.send(t.Context(), textractPoll("j-1"))
		require.Contains(t, f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1")).body, "j-2")
		sent := f.at["b"].attempts()
		require.NotEqual(t, tokenOf(t, sent[0].body), tokenOf(t, sent[2].body))
	})
}

// Under a policy that repeats everything, a letter goes wherever a call would.
func TestALetterIsBoundOnlyWhereThePolicyIs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := once("textract")
		s.policy.Ambiguous = RepeatAlways
		f := newFleet(t, s, "b")
		f.falls("b")
		f.trip("b")
		f.at["acct"].script(step{lost: true})
		letter, body := f.fails(textractStart("Amz-Sdk-Invocation-Id: i-1"))
		require.True(t, letter.Attempts[0].Ambiguous)
		f.trip("acct")
		f.heals("b")
		f.at["b"].script(step{header: amzJSON, body: `{"JobId":"j-1"}`})
		require.NotNil(t, f.replay(letter, body).Answer)
	})
}
