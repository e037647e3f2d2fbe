package proxy

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
)

const doc = "QQ=="

// travelling is an account that tries twice.
func travelling(kind string) setup {
	s := remembering(kind)
	s.policy.MaxAttempts = 2
	return s
}

func TestWhatOneAccountCannotDoTheNextOneDoes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := travelling("mistral")
		s.base = "/base"
		f := newFleet(t, s, "b", "c")
		f.falls("b", "c")
		f.at["acct"].script(step{status: 500}, step{status: 503})
		f.at["b"].script(step{status: 500}, step{body: `{"pages":[]}`})
		sent := analysis(doc)
		sent.header += "|Authorization: Bearer of-the-worker|X-Api-Key: of-the-worker|X-Acct-Key: of-the-worker|X-B-Key: of-the-worker"
		sent.target += "?key=of-the-worker&a=%2f"
		r := f.send(t.Context(), sent)
		require.Equal(t, []string{"success", "4", "success"}, []string{r.own("Outcome"), r.own("Attempts"), r.own("Class")})
		require.Equal(t, map[string]int{"acct": 2, "b": 2}, f.asked())
		for name, p := range f.at {
			for _, a := range p.attempts() {
				require.Equal(t, []string{"key-of-" + name}, a.header["X-"+upper(name)+"-Key"])
				require.NotContains(t, a.header, "Authorization")
				require.NotContains(t, a.header, "X-Api-Key")
				require.Equal(t, "/base"+ocrCall+"?a=%2f", a.target)
				if name == "b" {
					require.Equal(t, "b", a.host)
					require.NotContains(t, a.header, "X-Acct-Key")
				}
			}
		}
		require.Equal(t, 1, f.requests(Success), "the request is the listener's")
		require.Zero(t, f.logins["b"].requests(Success))
		require.Equal(t, []int{2, 0}, []int{f.attempts("transient"), f.attempts("success")}, "an attempt is that of the account asked")
		require.Equal(t, []int{1, 1}, []int{f.logins["b"].attempts("transient"), f.logins["b"].attempts("success")})
		require.Zero(t, f.sink.count())
		line := f.logs.FilterMessage("request").All()[0].ContextMap()
		require.Equal(t, []any{"acct", "b"}, []any{line["provider"], line["asked"]})
		f.quiet()
	})
}

func upper(name string) string { return string(name[0]-'a'+'A') + name[1:] }

// A name that nobody would take for a credential's holds one all the same where an account says so.
func TestACredentialOfAnUnusualNameStaysAtHome(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, travelling("generic"), "b")
		f.account.Credential = credential.Header("X-Customer", "", "acct")
		f.falls("b")
		f.at["acct"].script(step{status: 402}, step{status: 402})
		f.at["acct"].script(step{status: 402})
		f.trip("acct")
		f.at["b"].script(step{body: "read"})
		r := f.send(t.Context(), call{body: "scan", header: "X-Customer: of-the-worker|X-Mine: kept"})
		require.Equal(t, "read", r.body)
		got := f.at["b"].attempts()[0].header
		require.NotContains(t, got, "X-Customer")
		require.Equal(t, "kept", got.Get("X-Mine"))
	})
}

func TestABadAccountCostsItsAttemptsOnlyUntilItsCircuitOpens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, travelling("mistral"), "b")
		f.falls("b")
		for range 5 { // the threshold
			f.at["acct"].script(step{status: 500})
		}
		for range 6 {
			f.at["b"].script(step{body: `{"pages":[]}`})
			require.Equal(t, "success", f.send(t.Context(), analysis(doc)).own("Outcome"))
		}
		require.Equal(t, map[string]int{"acct": 5, "b": 6}, f.asked())
		time.Sleep(time.Minute) // the circuit lets a probe through
		f.at["acct"].script(step{body: `{"pages":[]}`})
		require.Equal(t, "1", f.send(t.Context(), analysis(doc)).own("Attempts"))
		require.Equal(t, 6, f.asked()["acct"], "and the account is asked again")
		require.Zero(t, f.sink.count())
	})
}

func TestWhichAnswersSendACallOn(t *testing.T) {
	for name, c := range map[string]struct {
		step  step
		moves bool
		class string
	}{
		"quota":     {step{status: 402}, true, "quota"},
		"hint":      {step{status: 429, header: "Retry-After: 3600"}, true, "throttle"},
		"auth":      {step{status: 401}, false, "auth"},
		"permanent": {step{status: 422}, false, "permanent"},
		"unknown":   {step{status: 418}, false, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := travelling("mistral")
				f := newFleet(t, s, "b")
				f.falls("b")
				f.at["acct"].script(c.step)
				if c.moves {
					f.at["b"].script(step{body: `{"pages":[]}`})
				}
				r := f.send(t.Context(), analysis(doc))
				require.Equal(t, c.moves, r.own("Outcome") == "success", r.own("Class"))
				if !c.moves {
					require.Equal(t, c.class, r.own("Class"))
					require.Equal(t, map[string]int{"acct": 1}, f.asked())
					require.Equal(t, 1, f.sink.count())
				}
			})
		})
	}
}

func TestWhenAllFailTheLastOneSpeaksAndThereIsOneLetter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := travelling("mistral")
		s.policy.MaxAttempts = 1
		f := newFleet(t, s, "b", "c")
		f.falls("b", "c")
		f.trip("acct") // for a minute
		f.at["b"].script(step{status: 429, header: "Retry-After: 50", body: `{"message":"b"}`})
		f.at["c"].script(step{status: 429, header: "Retry-After: 300", body: `{"message":"c","echo":"key-of-b key-of-c"}`})
		start := time.Now()
		r := f.send(t.Context(), analysis(doc))
		require.Equal(t, 429, r.status)
		require.Contains(t, r.body, `"message":"c"`)
		require.Equal(t, []string{"exhausted", "2"}, []string{r.own("Outcome"), r.own("Attempts")})
		require.Equal(t, 1, f.sink.count())
		e := f.sink.letters[0]
		require.Equal(t, []any{"acct", "exhausted", "throttle"}, []any{e.Provider, e.Outcome, e.ErrorClass})
		require.Equal(t, []string{"b", "c"}, []string{e.Attempts[0].Account, e.Attempts[1].Account})
		require.Equal(t, []int{1, 2}, []int{e.Attempts[0].N, e.Attempts[1].N})
		require.Equal(t, start.Add(50*time.Second), *e.RetryNotBefore, "whoever is free first")
		require.Contains(t, e.StackTrace, "attempt 1 at account b")
		require.NotContains(t, e.ErrorMessage+e.StackTrace+e.Diagnostic, "key-of-")
	})
}

func TestARefusalAfterAnAnswerKeepsTheAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("mistral"), "b")
		f.falls("b")
		f.trip("b")
		f.at["acct"].script(step{status: 402, body: `{"message":"no credit, key-of-acct"}`})
		r := f.send(t.Context(), analysis(doc))
		require.Equal(t, []any{402, "circuit_open"}, []any{r.status, r.own("Outcome")}, "it will be answered when b is well again")
		e := f.sink.letters[0]
		require.NotNil(t, e.RetryNotBefore)
		require.Empty(t, e.Attempts[0].Account)
		require.NotContains(t, e.ErrorMessage, "key-of-acct")
	})
}

// Waiting ends early at an account while another could serve; the last one may use all that is left.
func TestEachAccountMayWaitForItsShareOfTheTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, travelling("mistral"), "b")
		f.falls("b")
		f.at["acct"].script(step{status: 429, header: "Retry-After: 60"}) // of 90 s
		f.at["b"].script(step{status: 429, header: "Retry-After: 60"}, step{body: `{"pages":[]}`})
		r := f.send(t.Context(), analysis(doc))
		require.Equal(t, "success", r.own("Outcome"))
		require.Equal(t, 61*time.Second, r.took, "nothing was waited at the first")

		f.trip("b")
		f.at["acct"].script(step{body: `{"pages":[]}`})
		r = f.send(t.Context(), analysis("Qg=="))
		require.Equal(t, map[string]int{"acct": 2, "b": 2}, f.asked(), "where no other could serve, all the time is the first one's")
		require.Equal(t, "success", r.own("Outcome"))
	})
}

func TestTheTimeOfARequestBindsAllAccounts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := travelling("mistral")
		s.policy.AttemptTimeout = time.Minute
		f := newFleet(t, s, "b", "c")
		f.falls("b", "c")
		f.at["acct"].script(step{hang: true})
		f.at["b"].script(step{hang: true})
		r := f.send(t.Context(), analysis(doc))
		require.Equal(t, 90*time.Second, r.took)
		require.Equal(t, []any{504, "exhausted"}, []any{r.status, r.own("Outcome")})
		require.Equal(t, map[string]int{"acct": 1, "b": 1}, f.asked())
	})
}

func TestAnAccountThatHoldsForItsCircuitLetsGoWhileAnotherIsWell(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := travelling("mistral")
		s.hold = true
		f := newFleet(t, s, "b")
		f.falls("b")
		f.trip("acct")
		f.at["b"].script(step{body: `{"pages":[]}`})
		require.Zero(t, f.send(t.Context(), analysis(doc)).took)
		f.trip("b")
		f.at["acct"].script(step{body: `{"pages":[]}`})
		r := f.send(t.Context(), analysis("Qg=="))
		require.Equal(t, "success", r.own("Outcome"))
		require.Positive(t, r.took, "else it is held")
	})
}

// A token protects within one account only.
func TestAStartThatMayHaveWorkedNeverMoves(t *testing.T) {
	for name, script := range map[string][]step{
		"the last attempt":    {{status: 503}, {lost: true}},
		"one before the last": {{lost: true}, {status: 503}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFleet(t, travelling("textract"), "b")
				f.falls("b")
				f.at["acct"].script(script...)
				r := f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
				require.Equal(t, "exhausted", r.own("Outcome"))
				require.Equal(t, map[string]int{"acct": 2}, f.asked())
				e := f.sink.letters[0]
				require.True(t, e.Attempts[0].Ambiguous || e.Attempts[1].Ambiguous)

				// The client library's own repeat meets the account that may have the job, although its circuit is open by now.
				f.trip("acct")
				again := f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
				require.Equal(t, "circuit_open", again.own("Outcome"))
				// Another call about the same object is another job.
				f.at["b"].script(step{header: amzJSON, body: `{"JobId":"j-b"}`})
				require.Equal(t, "success", f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-2")).own("Outcome"))
				time.Sleep(leadTime)
				f.at["acct"].script(step{header: amzJSON, body: `{"JobId":"j-a"}`})
				require.Equal(t, "success", f.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1")).own("Outcome"))
			})
		})
	}
}

func TestWhatMayAlwaysBeRepeatedMovesAfterALostAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("mistral"), "b")
		f.falls("b")
		f.at["acct"].script(step{lost: true})
		f.at["b"].script(step{body: `{"pages":[]}`})
		require.Equal(t, "success", f.send(t.Context(), analysis(doc)).own("Outcome"))

		s := once("mistral")
		s.policy.Ambiguous = RepeatNever
		f = newFleet(t, s, "b2")
		f.falls("b2")
		f.at["acct"].script(step{lost: true})
		require.Equal(t, "exhausted", f.send(t.Context(), analysis(doc)).own("Outcome"), "unless the policy says otherwise")
	})
}

func TestCallsAboutWhatOneAccountHasDoNotMove(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("mistral"), "b")
		f.spreads(map[string]int{"b": 1}, "b")
		f.at["acct"].script(step{status: 500}, step{status: 500})
		f.send(t.Context(), call{method: "GET", target: "/v1/files/f-1"})
		f.send(t.Context(), call{target: "/v1/batch/jobs", header: asJSON, body: `{"input_files":["f-1"]}`})
		require.Equal(t, map[string]int{"acct": 2}, f.asked())
	})
}

func TestNobodyTakesPartWhoCannot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("generic"), "b")
		b := f.accounts["b"]
		group := func(weight int) error {
			_, err := NewGroup(f.account, []Share{{b, weight}}, []*Account{b})
			return err
		}
		require.NoError(t, group(1))
		require.ErrorContains(t, group(0), "weight")
		own := b.Credential
		b.Credential = credential.Passthrough()
		require.ErrorContains(t, group(1), "credential of its own")
		b.Credential, b.Idempotency.Header = own, "Idempotency-Key"
		require.ErrorContains(t, group(1), "another header")
		b.Idempotency.Header = ""
		var err error
		b.Provider, err = provider.Find("mistral")
		require.NoError(t, err)
		require.ErrorContains(t, group(1), "another kind")
	})
}

// The items of a batch that came are kept, and only the others are paid for at the next account.
func TestABatchGoesOnWithTheItemsThatAreMissing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("vision"), "b")
		f.falls("b")
		f.at["acct"].script(step{header: asJSON, body: `{"responses":[{"t":"A"},{"error":{"code":14}},{"t":"C"}]}`})
		f.at["b"].script(step{header: asJSON, body: `{"responses":[{"t":"B"}]}`})
		r := f.send(t.Context(), call{target: visionCall, header: asJSON, body: threeImages})
		require.JSONEq(t, `{"responses":[{"t":"A"},{"t":"B"},{"t":"C"}]}`, r.body)
		require.Equal(t, "success", r.own("Outcome"))
		require.Equal(t, `{"requests":[{"image":{"content":"Qg=="}}]}`, f.at["b"].attempts()[0].body)
	})
}

// A worker that asks before it sends its body is refused only where nobody could take it.
func TestAWorkerThatAsksFirstIsRefusedWhenEveryCircuitIsOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("mistral"), "b")
		f.falls("b")
		f.trip("acct")
		asking := analysis(doc)
		asking.header += "|Expect: 100-continue"
		f.at["b"].script(step{body: `{"pages":[]}`})
		require.Equal(t, "success", f.send(t.Context(), asking).own("Outcome"))
		f.trip("b")
		require.Equal(t, "circuit_open", f.send(t.Context(), asking).own("Outcome"))
		require.Zero(t, f.sink.count(), "before its body came, so that there is no letter")
	})
}

// A client library that repeats a call which was refused because every circuit was open is told so again only while that lasts.
func TestABuriedRefusalIsRepeatedOnlyWhileEveryCircuitIsOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, travelling("openai"), "b")
		f.falls("b")
		f.trip("acct")
		f.trip("b")
		c := call{target: "/v1/chat/completions", header: asJSON + "|X-Stainless-Retry-Count: 0", body: `{"model":"m"}`}
		require.Equal(t, "circuit_open", f.send(t.Context(), c).own("Outcome"))
		c.header = asJSON + "|X-Stainless-Retry-Count: 1"
		require.Equal(t, reasonBuried, f.send(t.Context(), c).own("Reason"))
		f.heals("b")
		f.at["b"].script(step{header: asJSON, body: `{"choices":[]}`})
		require.Equal(t, "success", f.send(t.Context(), c).own("Outcome"))
	})
}

// What a group is asked with GET is about something that one engine has.
func TestOnlyPostsOfAnUnknownEngineMove(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("generic"), "b")
		f.falls("b")
		f.at["acct"].script(step{status: 503}, step{status: 503})
		f.at["b"].script(step{body: "read"})
		require.Equal(t, 503, f.send(t.Context(), call{method: "GET", target: "/results/1"}).status)
		require.Equal(t, "read", f.send(t.Context(), call{body: "scan"}).body)
	})
}

// An account out of quota, and another that is throttled for too long: it will pass.
func TestOutOfQuotaAndThenThrottledIsExhausted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("mistral"), "b")
		f.falls("b")
		f.accounts["b"].Queues.For("ocr").Pause(time.Now().Add(time.Hour))
		f.at["acct"].script(step{status: 402})
		r := f.send(t.Context(), analysis(doc))
		require.Equal(t, []any{402, "exhausted", "hint_too_long"}, []any{r.status, r.own("Outcome"), r.own("Reason")})
		require.Equal(t, 90*time.Second, time.Until(*f.sink.letters[0].RetryNotBefore))
	})
}

// Each account mends its credential once, whatever another did before.
func TestEveryAccountMayMendItsCredential(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, travelling("mistral"), "b")
		f.falls("b")
		for name, a := range f.accounts {
			key := "old"
			var err error
			path := t.TempDir() + "/key"
			require.NoError(t, os.WriteFile(path, []byte(key), 0o600))
			a.Credential, err = credential.HeaderFile(t.Context(), credential.HeaderFileOptions{
				Header: "X-" + name + "-Key", Path: path, Read: func() (string, error) { key += "+"; return key, nil },
			})
			require.NoError(t, err)
		}
		f.falls("b")
		f.at["acct"].script(step{status: 401}, step{status: 503})
		f.at["b"].script(step{status: 401}, step{body: `{"pages":[]}`})
		r := f.send(t.Context(), analysis(doc))
		require.Equal(t, []string{"success", "4"}, []string{r.own("Outcome"), r.own("Attempts")})
	})
}

func TestWhoFindsNoPlaceInAQueueGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := once("mistral")
		s.queue.MaxInFlight, s.queue.MaxWaiting = 1, 1
		f := newFleet(t, s, "b")
		f.falls("b")
		for _, name := range []string{"acct", "b"} {
			f.at[name].script(step{after: 5 * time.Second, body: `{"pages":[]}`}, step{body: `{"pages":[]}`})
		}
		var all []<-chan reply
		for i := range 4 { // one runs and one waits at each
			all = append(all, f.later(t.Context(), analysis(doc[:i%2+1]+strconv.Itoa(i))))
			synctest.Wait()
		}
		refused := f.send(t.Context(), analysis(doc))
		require.Equal(t, []any{503, "rejected", queueFull}, []any{refused.status, refused.own("Outcome"), refused.own("Reason")})
		for _, r := range all {
			require.Equal(t, "success", (<-r).own("Outcome"))
		}
		require.Equal(t, map[string]int{"acct": 2, "b": 2}, f.asked())
		require.Zero(t, f.sink.count())
	})
}

func TestWhoseTurnDoesNotComeInTimeGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := once("mistral")
		s.policy.AttemptTimeout = 80 * time.Second
		s.queue.MaxInFlight, s.queue.MaxWaiting = 1, 10
		f := newFleet(t, s, "b")
		f.falls("b")
		f.at["acct"].script(step{after: 79 * time.Second, body: `{"pages":[]}`})
		f.at["b"].script(step{body: `{"pages":[]}`})
		slow := f.later(t.Context(), analysis(doc))
		synctest.Wait()
		r := f.send(t.Context(), analysis("Qg=="))
		require.Equal(t, "success", r.own("Outcome"))
		require.Equal(t, 44*time.Second, r.took, "half of the time, but for what an attempt needs at least")
		require.Equal(t, "success", (<-slow).own("Outcome"))
		require.Equal(t, map[string]int{"acct": 1, "b": 1}, f.asked())
	})
}

// Of a batch that is through, all that came is kept: to move it would be to pay for it again.
func TestABatchThatIsThroughDoesNotMove(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, once("vision"), "b")
		f.account.Rules = classify.Table{{Code: "PERMISSION_DENIED", Class: classify.Quota}}
		f.falls("b")
		f.at["acct"].script(step{header: asJSON, body: `{"responses":[{"t":"A"},{"error":{"code":7}},{"t":"C"}]}`})
		r := f.send(t.Context(), call{target: visionCall, header: asJSON, body: threeImages})
		require.Equal(t, []string{"permanent", "quota"}, []string{r.own("Outcome"), r.own("Class")})
		require.Contains(t, r.body, `"C"`)
		require.Equal(t, map[string]int{"acct": 1}, f.asked())
	})
}

func TestABatchThatIsRefusedGoesOnWithWhatIsMissing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(t, travelling("vision"), "b")
		f.falls("b")
		f.at["acct"].script(step{header: asJSON, body: `{"responses":[{"t":"A"},{"error":{"code":14}},{"t":"C"}]}`},
			step{status: 429, header: asJSON, body: `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota per day"}}`})
		f.at["b"].script(step{header: asJSON, body: `{"responses":[{"t":"B"}]}`})
		r := f.send(t.Context(), call{target: visionCall, header: asJSON, body: threeImages})
		require.JSONEq(t, `{"responses":[{"t":"A"},{"t":"B"},{"t":"C"}]}`, r.body)
		require.Equal(t, `{"requests":[{"image":{"content":"Qg=="}}]}`, f.at["b"].attempts()[0].body)
	})
}

// The attempt for missing pages is one of the account that brought the answer.
func TestPagesAreRepairedWhereTheAnswerCameFrom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := repairing()
		s.policy.MaxAttempts = 2
		f := newFleet(t, s, "b")
		f.falls("b")
		f.at["acct"].script(step{status: 503}, step{status: 503})
		f.at["b"].script(step{header: asJSON, body: gapped}, step{header: asJSON, body: fillings})
		r := f.send(t.Context(), analysis(doc))
		require.Equal(t, []string{repaired, "4"}, []string{r.body, r.own("Attempts")})
		require.Equal(t, map[string]int{"acct": 2, "b": 2}, f.asked())
	})
}
