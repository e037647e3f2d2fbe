package proxy

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	unsure = `{"Blocks":[{"BlockType":"WORD","Confidence":55},{"BlockType":"LINE","Confidence":99}]}`
	sure   = `{"Blocks":[{"BlockType":"WORD","Confidence":97}]}`
	mixed  = `{"Blocks":[{"BlockType":"WORD","Confidence":99},{"BlockType":"WORD","Confidence":98},{"BlockType":"WORD","Confidence":60}]}`
)

// reviewing has good answers looked at whose words are below 0.8.
func reviewing(kind string) setup { return reviewingBy(kind, Scrutiny{Threshold: 0.8}) }

func reviewingBy(kind string, how Scrutiny) setup {
	s := remembering(kind)
	remember := s.account
	s.account = func(a *Account) {
		remember(a)
		a.Scrutiny = how
	}
	return s
}

func detect(document string) call {
	return call{target: "/", header: amzJSON + "|X-Amz-Target: Textract.DetectDocumentText", body: `{"Document":{"Bytes":"` + document + `"}}`}
}

func TestAnAnswerOfUnsureWordsIsForReview(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := reviewing("textract")
		s.breaker.FailureThreshold = 1
		l := newLab(t, s, step{body: unsure, header: amzJSON}, step{body: sure, header: amzJSON}, step{body: `{"Blocks":[{"BlockType":"PAGE"}]}`, header: amzJSON})
		r := l.send(t.Context(), detect("QQ=="))
		require.Equal(t, []string{"review", "soft", "1", "low_confidence"}, []string{r.own("Outcome"), r.own("Class"), r.own("Attempts"), r.own("Reason")})
		require.Equal(t, http.StatusOK, r.status)
		require.Equal(t, sha256.Sum256([]byte(unsure)), sha256.Sum256([]byte(r.body)), "not a byte is changed")
		require.NotEmpty(t, r.own("Dead-Letter-Id"))
		letter, body := l.buried()
		require.Equal(t, []string{"review", "soft", "soft", "low_confidence"}, []string{letter.Outcome, letter.FailureClass, letter.ErrorClass, letter.ErrorCode})
		require.Equal(t, 200, *letter.HTTPStatus)
		require.Equal(t, `{"Document":{"Bytes":"QQ=="}}`, body)
		require.Contains(t, letter.Diagnostic, "the mean confidence of 1 word is 0.5500, below 0.8")

		r = l.send(t.Context(), detect("Qg=="))
		require.Equal(t, []string{"success", "success", ""}, []string{r.own("Outcome"), r.own("Class"), r.own("Reason")})
		r = l.send(t.Context(), detect("Qw=="))
		require.Equal(t, "success", r.own("Outcome"), "nothing is known of its words")
		require.Equal(t, 1, l.sink.count())
		require.Equal(t, 1, l.figure("soft_failures_total", "provider", "acct", "operation", "DetectDocumentText"))
		require.Equal(t, 2, l.figure("confidence", "provider", "acct", "operation", "DetectDocumentText"))
		require.Equal(t, 1, l.requests(Review))
		require.Equal(t, 1, l.attempts("soft"))
		require.Zero(t, l.circuit().Failures, "the provider is well")
		l.closing()
	})
}

func TestHowScoresBecomeOneFigure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how     Scrutiny
		outcome string
	}{
		"off":                    {Scrutiny{}, "success"},
		"the mean":               {Scrutiny{Threshold: 0.8}, "success"},
		"the mean is not enough": {Scrutiny{Threshold: 0.9}, "review"},
		"the mean is just it":    {Scrutiny{Threshold: (0.99 + 0.98 + 0.6) / 3}, "success"},
		"the lowest":             {Scrutiny{Threshold: 0.8, Aggregate: ByMin}, "review"},
		"the lowest is enough":   {Scrutiny{Threshold: 0.6, Aggregate: ByMin}, "success"},
		"the tenth":              {Scrutiny{Threshold: 0.61, Aggregate: ByP10}, "review"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, reviewingBy("textract", c.how), step{body: mixed, header: amzJSON})
				require.Equal(t, c.outcome, l.send(t.Context(), detect("QQ==")).own("Outcome"))
				observed := 1
				if !c.how.on() {
					observed = 0 // nobody has looked
				}
				require.Equal(t, observed, l.figure("confidence"))
				l.closing()
			})
		})
	}
}

func TestAFailureIsNoReview(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, reviewing("textract"), step{body: `{"JobStatus":"FAILED","Blocks":[{"BlockType":"WORD","Confidence":5}]}`, header: amzJSON}, step{body: unsure + "x", header: amzJSON})
		r := l.send(t.Context(), textractPoll("j"))
		require.Equal(t, []string{"permanent", "permanent"}, []string{r.own("Outcome"), r.own("Class")})
		r = l.send(t.Context(), detect("QQ=="))
		require.Equal(t, []string{"permanent", "malformed_output"}, []string{r.own("Outcome"), r.own("Reason")})
		require.Zero(t, l.figure("confidence"))
		l.closing()
	})
}

func TestABetterAnswerResolvesTheLetterBeforeItsWorkerHasIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := reviewing("textract")
		s.policy.MaxAttempts = 1
		l, letters := healing(t, s, step{body: unsure, header: amzJSON}, step{body: unsure, header: amzJSON}, step{status: 500}, step{body: sure, header: amzJSON}, step{body: sure, header: amzJSON})
		first := l.send(t.Context(), detect("QQ==")).own("Dead-Letter-Id")
		require.Equal(t, first, l.send(t.Context(), detect("QQ==")).own("Dead-Letter-Id"), "a second one raises it")
		require.Equal(t, 2, letters("open")[0].Occurrences)
		require.Equal(t, "exhausted", l.send(t.Context(), detect("Qg==")).own("Outcome"))

		require.Equal(t, "success", l.send(t.Context(), detect("QQ==")).own("Outcome"))
		resolved := letters("resolved")
		require.Len(t, resolved, 1)
		require.Equal(t, first, resolved[0].ID)
		require.Len(t, letters("open"), 1, "the other document waits")
		require.Equal(t, "success", l.send(t.Context(), detect("Qg==")).own("Outcome"))
		time.Sleep(time.Second)
		require.Empty(t, letters("open"))
		l.closing()
	})
}

func TestALetterAboutAFailureWaitsForTheDelivery(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := reviewing("textract")
		s.policy.MaxAttempts = 1
		l, letters := healing(t, s, step{status: 500}, step{body: sure, header: amzJSON}, step{body: sure, header: amzJSON})
		l.send(t.Context(), detect("QQ=="))
		c := detect("QQ==")
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.target, strings.NewReader(c.body))
		r.Header = headerOf(c.header)
		l.account.ServeHTTP(unheard{httptest.NewRecorder()}, r)
		require.Equal(t, 1, l.requests(Success))
		require.Len(t, letters("open"), 1)
		l.account.Calls.Close()
	})
}

// Whoever replays such a letter by hand and gets no better answer finds it open, and a letter of another outcome becomes one to look at.
func TestAReplayOfUnsureWordsLeavesTheLetter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := reviewing("textract")
		s.policy.MaxAttempts = 1
		l := newLab(t, s, step{status: 500}, step{body: unsure, header: amzJSON}, step{body: sure, header: amzJSON})
		letter, body := l.fails(detect("QQ=="))
		r := l.replay(letter, body)
		require.Nil(t, r.Answer)
		require.NotNil(t, r.Failure)
		letter.Replayed(r.Failure)
		require.Equal(t, []string{"review", "soft"}, []string{letter.Outcome, letter.ErrorClass})
		r = l.replay(letter, body)
		require.NotNil(t, r.Answer)
		require.Zero(t, l.figure("soft_failures_total"), "a replay is no worker's request")
		l.account.Calls.Close()
	})
}

func TestTheLetterAboutAResultIsAboutTheDocument(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, reviewing("azure"),
			step{status: 202, header: "Operation-Location: " + resultURL},
			step{header: asJSON, body: `{"status":"running"}`},
			step{header: asJSON, body: `{"status":"succeeded","analyzeResult":{"pages":[{"words":[{"confidence":0.5}]}]}}`},
			step{header: asJSON, body: `{"status":"succeeded","analyzeResult":{"pages":[{"words":[{"confidence":0.5}]}]}}`})
		j.send(t.Context(), azureStart(azureKey+"|Ocr-Proxy-Document-Id: lease-7"))
		require.Equal(t, "success", j.send(t.Context(), azurePoll("r-1")).own("Outcome"))
		require.Equal(t, "review", j.send(t.Context(), azurePoll("r-1")).own("Outcome"))
		letter, body := j.buried()
		require.Equal(t, []string{"analyze", "lease-7", "review", "soft"}, []string{letter.Operation, letter.DocumentID, letter.Outcome, letter.ErrorClass})
		require.Equal(t, `{"base64Source":"QQ=="}`, body)
		require.Contains(t, letter.Diagnostic, "looked at")
		require.NotNil(t, letter.Job.Start)
		require.Empty(t, j.records(), "the job is through")

		require.Equal(t, "review", j.send(t.Context(), azurePoll("r-1")).own("Outcome"))
		letter, _ = j.buried()
		require.Nil(t, letter.Job, "of a job that is not known the poll is all there is")
		j.closing()
	})
}

func TestABatchIsLookedAtAsAWhole(t *testing.T) {
	word := func(score string) string {
		return `{"fullTextAnnotation":{"text":"a","pages":[{"blocks":[{"paragraphs":[{"words":[{"confidence":` + score + `}]}]}]}]}}`
	}
	t.Parallel()
	for name, c := range map[string]struct{ first, second, outcome string }{
		"the first item pulls it down": {"0.3", "0.9", "review"},
		"together they are enough":     {"0.99", "0.75", "success"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, reviewing("vision"), step{header: asJSON, body: `{"responses":[` + word(c.first) + `,{"error":{"code":14}}]}`}, step{header: asJSON, body: `{"responses":[` + word(c.second) + `]}`})
				r := l.send(t.Context(), call{target: visionCall, header: asJSON, body: `{"requests":[{"image":{"content":"QQ=="}},{"image":{"content":"Qg=="}}]}`})
				require.Equal(t, []string{c.outcome, "2"}, []string{r.own("Outcome"), r.own("Attempts")})
				require.JSONEq(t, `{"responses":[`+word(c.first)+`,`+word(c.second)+`]}`, r.body)
				require.Equal(t, 1, l.figure("confidence"))
				l.closing()
			})
		})
	}
}

func TestARepairedAnswerIsLookedAtAsAWhole(t *testing.T) {
	page := func(index, score string) string {
		return `{"index":` + index + `,"confidence_scores":{"word_confidence_scores":[{"confidence":` + score + `}]}}`
	}
	t.Parallel()
	for name, c := range map[string]struct{ first, second, outcome string }{
		"the second call makes it good": {"0.75", "0.95", "success"},
		"the second call makes it bad":  {"0.9", "0.5", "review"},
		"it is bad as before":           {"0.5", "0.9", "review"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := repairing()
				remember := s.account
				s.account = func(a *Account) {
					remember(a)
					a.Scrutiny = Scrutiny{Threshold: 0.8}
				}
				l := newLab(t, s, step{header: asJSON, body: `{"pages":[` + page("0", c.first) + `,` + page("2", c.first) + `]}`}, step{header: asJSON, body: `{"pages":[` + page("1", c.second) + `]}`})
				r := l.send(t.Context(), analysis("QQ=="))
				require.Equal(t, []string{c.outcome, "2"}, []string{r.own("Outcome"), r.own("Attempts")})
				require.Equal(t, 3, strings.Count(r.body, "index"))
				require.Equal(t, 1, l.figure("confidence"))
				l.closing()
			})
		})
	}
}

// A good answer is worth the same to a worker that hung up, whether it is to be looked at or not.
func TestAnAnswerToLookAtIsRescued(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, reviewing("textract"), step{body: unsure, header: amzJSON, after: 2 * time.Second})
		l.hangUpAfter(time.Second, detect("QQ=="))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Zero(t, l.sink.count(), "nobody was told yet")
		r := l.send(t.Context(), detect("QQ=="))
		require.Equal(t, []string{"review", "0", "rescued", unsure}, []string{r.own("Outcome"), r.own("Attempts"), r.own("Reason"), r.body})
		require.NotEmpty(t, r.own("Dead-Letter-Id"))
		require.Len(t, l.upstream.attempts(), 1, "it was paid for")
		l.closing()
	})
}

func TestFieldsThatAreUnsureOrMissingAreForReview(t *testing.T) {
	poll := azurePoll("r-1")
	answer := func(fields string) string {
		return `{"status":"succeeded","analyzeResult":{"documents":[{"docType":"invoice","fields":{` + fields + `}}],"pages":[{"words":[{"confidence":0.9}]}]}}`
	}
	total := `"InvoiceTotal":{"type":"number","content":"7","confidence":0.85}`
	of := func(kind string, threshold float64) Scrutiny {
		return Scrutiny{Fields: map[string]map[string]float64{kind: {"invoicetotal": threshold}}}
	}
	required := func(kind string) Scrutiny { return Scrutiny{Required: map[string][]string{kind: {"invoicetotal"}}} }
	t.Parallel()
	for name, c := range map[string]struct {
		how          Scrutiny
		body, reason string
	}{
		"sure enough":                      {of("invoice", 0.85), answer(total), ""},
		"not sure":                         {of("invoice", 0.9), answer(total), "low_field_confidence"},
		"another type":                     {of("receipt", 0.9), answer(total), ""},
		"any type":                         {of(AnyType, 0.9), answer(total), "low_field_confidence"},
		"what is absent is not unsure":     {of("invoice", 0.9), answer(""), ""},
		"required and there":               {required("invoice"), answer(total), ""},
		"required and missing":             {required("invoice"), answer(""), "missing_field"},
		"required and null":                {required("invoice"), answer(`"InvoiceTotal":null`), "missing_field"},
		"required and not found":           {required(AnyType), answer(`"InvoiceTotal":{"content":"NOT_FOUND","confidence":0.99}`), "missing_field"},
		"required of another type":         {required("receipt"), answer(""), ""},
		"nothing is missing while it runs": {required(AnyType), `{"status":"running"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, reviewingBy("azure", c.how), step{header: asJSON, body: c.body})
				r := l.send(t.Context(), poll)
				require.Equal(t, []string{c.body, c.reason}, []string{r.body, r.own("Reason")})
				require.Equal(t, c.reason != "", r.own("Outcome") == "review", r.own("Outcome"))
				if c.reason != "" {
					letter, _ := l.buried()
					require.Equal(t, []string{"soft", c.reason}, []string{letter.ErrorClass, letter.ErrorCode})
					require.Contains(t, letter.Diagnostic, `the field invoicetotal of a document of type "invoice"`)
				}
				l.closing()
			})
		})
	}
}

func TestAnswersThatAreNotAllThatWasAskedFor(t *testing.T) {
	chat := call{target: "/v1/chat/completions", header: asJSON, body: `{"model":"m","messages":[]}`}
	parse := call{target: "/parse/image", header: "Content-Type: application/x-www-form-urlencoded", body: "url=x"}
	t.Parallel()
	for name, c := range map[string]struct {
		kind         string
		call         call
		body, reason string
	}{
		"a job that read a part":        {"textract", textractPoll("j"), `{"JobStatus":"PARTIAL_SUCCESS","Blocks":[]}`, "partial"},
		"a job that read all":           {"textract", textractPoll("j"), `{"JobStatus":"SUCCEEDED","Blocks":[]}`, ""},
		"the same word somewhere else":  {"textract", textractPoll("j"), `{"JobStatus":"SUCCEEDED","StatusMessage":"PARTIAL_SUCCESS"}`, ""},
		"some pages":                    {"ocrspace", parse, `{"OCRExitCode":2,"ParsedResults":[]}`, "partial"},
		"all pages":                     {"ocrspace", parse, `{"OCRExitCode":1,"ParsedResults":[]}`, ""},
		"a page that is cut off":        {"openai", chat, `{"choices":[{"finish_reason":"stop"},{"finish_reason":"length"}]}`, "truncated"},
		"a page to its end":             {"openai", chat, `{"choices":[{"finish_reason":"stop"}]}`, ""},
		"an incomplete response":        {"openai", call{target: "/v1/responses", header: asJSON, body: `{}`}, `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`, "truncated"},
		"cut off by the model's window": {"mistral", chat, `{"choices":[{"finish_reason":"model_length"}]}`, "truncated"},
	} {
		t.Run(name+", accepted", func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, reviewingBy(c.kind, Scrutiny{}), step{header: asJSON, body: c.body})
				r := l.send(t.Context(), c.call)
				require.Equal(t, []string{"success", "success", c.reason, c.body}, []string{r.own("Outcome"), r.own("Class"), r.own("Reason"), r.body})
				require.Zero(t, l.sink.count())
				counted := 0
				if c.reason != "" {
					counted = 1
				}
				require.Equal(t, counted, l.figure("soft_failures_total"))
				l.closing()
			})
		})
		t.Run(name+", for review", func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, reviewingBy(c.kind, Scrutiny{Actions: map[string]Action{"partial": LookAt, "truncated": LookAt}}), step{header: asJSON, body: c.body})
				r := l.send(t.Context(), c.call)
				require.Equal(t, []string{c.reason, c.body}, []string{r.own("Reason"), r.body})
				if c.reason == "" {
					require.Equal(t, "success", r.own("Outcome"))
					require.Zero(t, l.sink.count())
				} else {
					require.Equal(t, []string{"review", "soft"}, []string{r.own("Outcome"), r.own("Class")})
					letter, _ := l.buried()
					require.Equal(t, []string{"review", c.reason}, []string{letter.Outcome, letter.ErrorCode})
					require.Equal(t, 1, l.figure("soft_failures_total"), "counted once")
				}
				l.closing()
			})
		})
	}
}

func TestOnlyTheSignsThatAreNamedAreForReview(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, reviewingBy("textract", Scrutiny{Actions: map[string]Action{"truncated": LookAt}}), step{header: asJSON, body: `{"JobStatus":"PARTIAL_SUCCESS","Blocks":[]}`})
		r := l.send(t.Context(), textractPoll("j"))
		require.Equal(t, []string{"success", "partial"}, []string{r.own("Outcome"), r.own("Reason")})
		l.closing()
	})
}
