package proxy

import (
	"context"
	"hash/maphash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/calls"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// journaling is a lab whose account journals its jobs in a store of its own.
type journaling struct {
	*lab
	dir   string
	store *dlq.Store
}

func newJournaling(t *testing.T, s setup, steps ...step) *journaling {
	t.Helper()
	j := &journaling{dir: t.TempDir(), lab: newLab(t, s, steps...)}
	j.open()
	t.Cleanup(func() { require.NoError(t, j.store.Close()) })
	return j
}

func (j *journaling) open() {
	store, err := dlq.Open(j.dir, dlq.Options{KeepPayloads: true, Registerer: prometheus.NewRegistry()})
	require.NoError(j.t, err)
	j.store, j.account.Jobs = store, store
}

// restart forgets whatever is only in memory.
func (j *journaling) restart() {
	require.NoError(j.t, j.store.Close())
	j.open()
	j.account.Seed = maphash.MakeSeed()
	if j.account.Calls != nil {
		j.account.Calls.Close()
		j.account.Calls = calls.New(calls.Limits{TTL: 5 * time.Minute, MaxBytes: 1 << 20})
	}
}

// records are the files in the journal.
func (j *journaling) records() []string {
	names, err := filepath.Glob(filepath.Join(j.dir, "jobs", "*.json"))
	require.NoError(j.t, err)
	return names
}

const (
	amzJSON   = "Content-Type: application/x-amz-json-1.1"
	s3Start   = `{"DocumentLocation":{"S3Object":{"Bucket":"b","Name":"n"}}}`
	azureKey  = "Ocp-Apim-Subscription-Key: key-of-a-worker"
	resultURL = "http://provider/documentintelligence/documentModels/m/analyzeResults/r-1?api-version=1"
)

func textractStart(identity string) call {
	return call{target: "/", header: startJob + "|" + identity, body: s3Start}
}

func textractPoll(id string) call {
	return call{target: "/", header: amzJSON + "|X-Amz-Target: Textract.GetDocumentAnalysis", body: `{"JobId":"` + id + `"}`}
}

func azureStart(more string) call {
	return call{target: "/documentintelligence/documentModels/m:analyze?api-version=1", header: asJSON + "|" + more, body: `{"base64Source":"QQ=="}`}
}

func azurePoll(id string) call {
	return call{method: http.MethodGet, target: "/documentintelligence/documentModels/m/analyzeResults/" + id + "?api-version=1"}
}

func TestARepeatOfAnAcceptedStartGetsItsJobAlsoAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, remembering("textract"), step{header: amzJSON + "|X-Amzn-Requestid: q-1|Set-Cookie: secret", body: `{"JobId":"j-1"}`})
		first := j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
		require.Equal(t, []string{"1", ""}, []string{first.own("Attempts"), first.own("Reason")})
		require.Len(t, j.records(), 1)
		for range 2 {
			again := j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: i-1"))
			require.Equal(t, 200, again.status)
			require.Equal(t, first.body, again.body)
			require.Equal(t, []string{"success", "0", "journaled", ""}, []string{again.own("Outcome"), again.own("Attempts"), again.own("Reason"), again.own("Class")})
			require.Equal(t, "q-1", again.header.Get("X-Amzn-Requestid"))
			require.Empty(t, again.header.Get("Set-Cookie"))
			j.restart()
		}
		require.Len(t, j.upstream.attempts(), 1)
		text, err := os.ReadFile(j.records()[0])
		require.NoError(t, err)
		require.NotContains(t, string(text), "secret")
		j.closing()
	})
}

func TestADifferentCallNeverGetsTheJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, remembering("azure"), step{status: 202, header: "Operation-Location: " + resultURL})
		const same = azureKey + "|X-Ms-Client-Request-Id: c-1"
		j.send(t.Context(), azureStart(same))
		other := azureStart(same)
		other.body = `{"base64Source":"Qg=="}`
		pages := azureStart(same)
		pages.target += "&pages=2"
		for name, c := range map[string]call{
			"another id":         azureStart(azureKey + "|X-Ms-Client-Request-Id: c-2"),
			"no id":              azureStart(azureKey),
			"another credential": azureStart("Ocp-Apim-Subscription-Key: other|X-Ms-Client-Request-Id: c-1"),
			"another document":   other,
			"other options":      pages,
		} {
			j.upstream.script(step{status: 202, header: "Operation-Location: " + strings.Replace(resultURL, "r-1", "r-2", 1)})
			r := j.send(t.Context(), c)
			require.Equal(t, "1", r.own("Attempts"), name)
			require.Contains(t, r.header.Get("Operation-Location"), "r-2", name)
		}
		require.Equal(t, "journaled", j.send(t.Context(), azureStart(same)).own("Reason"))
		j.closing()
	})
}

func TestAJournaledAddressIsTheProvidersAndIsRewrittenForEachWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, remembering("azure"), step{status: 202, header: "Operation-Location: " + resultURL + "|Retry-After: 2"})
		start := azureStart(azureKey + "|Ocr-Proxy-Document-Id: d-1")
		j.send(t.Context(), start)
		text, err := os.ReadFile(j.records()[0])
		require.NoError(t, err)
		require.Contains(t, string(text), resultURL)
		require.NotContains(t, string(text), "key-of-a-worker")
		j.restart()
		start.host = "sidecar.example:8082"
		r := j.send(t.Context(), start)
		require.Equal(t, http.StatusAccepted, r.status)
		require.Equal(t, "http://sidecar.example:8082/documentintelligence/documentModels/m/analyzeResults/r-1?api-version=1", r.header.Get("Operation-Location"))
		require.Equal(t, []string{"2", "journaled"}, []string{r.header.Get("Retry-After"), r.own("Reason")})
		require.Len(t, j.upstream.attempts(), 1)
		j.closing()
	})
}

func TestAWorkersOwnTokenNamesTheCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, remembering("textract"), step{header: amzJSON, body: `{"JobId":"j-1"}`})
		mine := textractStart("")
		mine.body = `{"ClientRequestToken":"mine",` + s3Start[1:]
		j.send(t.Context(), mine)
		require.Equal(t, "journaled", j.send(t.Context(), mine).own("Reason"))
		changed := mine
		changed.body = strings.Replace(mine.body, `"n"`, `"other"`, 1)
		j.upstream.script(step{status: 400, header: amzJSON, body: `{"__type":"IdempotentParameterMismatchException"}`})
		require.Equal(t, 400, j.send(t.Context(), changed).status, "a token that is used for something else is the provider's to refuse")
		j.closing()
	})
}

func TestContentTokensNameTheCallByItsContent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("textract")
		s.account = func(a *Account) { a.Injection = InjectContent }
		j := newJournaling(t, s, step{header: amzJSON, body: `{"JobId":"j-1"}`})
		j.send(t.Context(), textractStart(""))
		j.restart()
		require.Equal(t, "journaled", j.send(t.Context(), textractStart("Amz-Sdk-Invocation-Id: any")).own("Reason"))
		j.quiet()
	})
}

func TestACallThatNothingNamesIsAlwaysNew(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, defaults("textract"), step{header: amzJSON, body: `{"JobId":"j-1"}`}, step{header: amzJSON, body: `{"JobId":"j-2"}`})
		require.Equal(t, `{"JobId":"j-1"}`, j.send(t.Context(), textractStart("")).body)
		require.Equal(t, `{"JobId":"j-2"}`, j.send(t.Context(), textractStart("")).body)
		require.Len(t, j.records(), 2, "their letters will know their documents")
		j.quiet()
	})
}

func TestTheStartIsDurableBeforeItsAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := remembering("azure")
		j := newJournaling(t, s, step{status: 202, after: 2 * time.Second, header: "Operation-Location: " + resultURL})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := azureStart(azureKey + "|X-Ms-Client-Request-Id: c-1")
		require.Error(t, j.send(ctx, start).err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, j.records(), 1, "also when its worker has gone")
		j.restart()
		r := j.send(t.Context(), start)
		require.Equal(t, []string{"journaled", "http://proxy/documentintelligence/documentModels/m/analyzeResults/r-1?api-version=1"},
			[]string{r.own("Reason"), r.header.Get("Operation-Location")})
		j.closing()
	})
}

func TestAGoodEndForgetsTheJobWhenItsWorkerKnows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, remembering("textract"),
			step{header: amzJSON, body: `{"JobId":"j-1"}`},
			step{header: amzJSON, body: `{"JobStatus":"IN_PROGRESS"}`},
			step{header: amzJSON, after: 2 * time.Second, body: `{"JobStatus":"SUCCEEDED","Blocks":[]}`},
			step{header: amzJSON, body: `{"JobStatus":"SUCCEEDED","Blocks":[]}`},
			step{header: amzJSON, body: `{"JobId":"j-2"}`})
		start := textractStart("Ocr-Proxy-Document-Id: d-1")
		j.send(t.Context(), start)
		require.Equal(t, 200, j.send(t.Context(), textractPoll("j-1")).status)
		require.Len(t, j.records(), 1, "it runs")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, j.send(ctx, textractPoll("j-1")).err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, j.records(), 1, "nobody knows of its end")
		j.account.Calls.Close()
		j.account.Calls = nil
		require.Equal(t, 200, j.send(t.Context(), textractPoll("j-1")).status)
		synctest.Wait()
		require.Empty(t, j.records())
		require.Equal(t, `{"JobId":"j-2"}`, j.send(t.Context(), start).body, "a new job")
		require.Empty(t, j.sink.letters)
		j.quiet()
	})
}

func TestTheLetterOfAFailedJobKnowsItsDocumentAndItsStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const failed = `{"JobStatus":"FAILED","StatusMessage":"UNSUPPORTED_FORMAT"}`
		j := newJournaling(t, defaults("textract"),
			step{header: amzJSON, body: `{"JobId":"j-1"}`}, step{header: amzJSON, body: failed}, step{header: amzJSON, body: failed})
		j.send(t.Context(), textractStart("Ocr-Proxy-Document-Id: d-1|Ocr-Proxy-Tenant: acme"))
		token := tokenOf(t, j.upstream.attempts()[0].body)
		j.restart()
		r := j.send(t.Context(), textractPoll("j-1"))
		require.Equal(t, []string{"permanent", failed}, []string{r.own("Outcome"), r.body})
		e := j.sink.letters[0]
		require.Equal(t, "j-1", e.Job.ID)
		require.Equal(t, []string{"d-1", "acme", "StartDocumentAnalysis", "FAILED"}, []string{e.DocumentID, e.Tenant, e.Operation, e.ErrorCode})
		require.Equal(t, token, e.Job.Start.Token)
		require.Empty(t, e.Request.Token, "a replay is a new job, not the failed one once more")
		require.Equal(t, e.Job.Start.Path, e.Request.Path)
		require.Equal(t, s3Start, j.sink.bodies[0], "what a replay sends")
		require.Contains(t, e.Diagnostic, "as a new job")

		synctest.Wait()
		j.send(t.Context(), textractPoll("j-1"))
		again := j.sink.letters[1]
		require.Equal(t, []string{e.RequestFingerprint, e.IdempotencyKey, e.DocumentID}, []string{again.RequestFingerprint, again.IdempotencyKey, again.DocumentID},
			"the store makes one letter of them")
		synctest.Wait()
		j.upstream.script(step{header: amzJSON, body: `{"JobId":"j-2"}`})
		require.Equal(t, `{"JobId":"j-2"}`, j.send(t.Context(), textractStart("Ocr-Proxy-Document-Id: d-1")).body, "a failed job answers no start")
		j.quiet()
	})
}

func TestABuriedPollToldAgainKeepsItsJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, remembering("textract"), step{header: amzJSON, body: `{"JobId":"j-1"}`}, step{header: amzJSON, body: `{"JobStatus":"FAILED"}`})
		j.send(t.Context(), textractStart("Ocr-Proxy-Document-Id: d-1"))
		poll := textractPoll("j-1")
		poll.header += "|Amz-Sdk-Invocation-Id: i-9"
		j.send(t.Context(), poll)
		require.Equal(t, "buried", j.send(t.Context(), poll).own("Reason"))
		require.Equal(t, j.sink.letters[0].RequestFingerprint, j.sink.letters[1].RequestFingerprint)
		require.Equal(t, "j-1", j.sink.letters[1].Job.ID)
		j.closing()
	})
}

func TestAFailedJobOfAnotherHandIsNamedAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, defaults("azure"), step{header: asJSON, body: `{"status":"failed","error":{"code":"InternalServerError"}}`})
		j.send(t.Context(), azurePoll("r-9"))
		e := j.sink.letters[0]
		require.Equal(t, "r-9", e.Job.ID)
		require.Nil(t, e.Job.Start)
		require.Equal(t, "getAnalyzeResult", e.Operation)
		require.Equal(t, http.MethodGet, e.Request.Method)
		j.quiet()
	})
}

func TestAnUnfinishedJobsPollFailsForItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("azure")
		s.policy.MaxAttempts = 1
		j := newJournaling(t, s, step{status: 202, header: "Operation-Location: " + resultURL}, step{status: 503})
		j.send(t.Context(), azureStart("Ocr-Proxy-Document-Id: d"))
		j.send(t.Context(), azurePoll("r-1"))
		require.Nil(t, j.sink.letters[0].Job, "its replay asks again, and does not start again")
		require.Len(t, j.records(), 1)
		j.quiet()
	})
}

func TestAJobThatTheProviderForgotIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, defaults("azure"),
			step{status: 202, header: "Operation-Location: " + resultURL}, step{status: 404, header: asJSON, body: `{"error":{"code":"NotFound"}}`},
			step{status: 202, header: "Operation-Location: " + resultURL}, step{status: 204})
		start := azureStart("Ocr-Proxy-Document-Id: d")
		j.send(t.Context(), start)
		require.Equal(t, 404, j.send(t.Context(), azurePoll("r-1")).status)
		synctest.Wait()
		require.Empty(t, j.records())
		j.send(t.Context(), start)
		require.Len(t, j.records(), 1)
		drop := azurePoll("r-1")
		drop.method = http.MethodDelete
		j.send(t.Context(), drop)
		synctest.Wait()
		require.Empty(t, j.records())
		j.quiet()
	})
}

// The record of the job goes with such an answer, and with it the document: the letter must have it.
func TestTheLetterOfAForgottenJobHasItsDocument(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, defaults("textract"),
			step{header: amzJSON, body: `{"JobId":"j-1"}`}, step{header: amzJSON, body: `{"JobStatus":"IN_PROGRESS"}`},
			step{status: 400, header: amzJSON, body: `{"__type":"InvalidJobIdException"}`})
		j.send(t.Context(), textractStart("Ocr-Proxy-Document-Id: d-1|Ocr-Proxy-Tenant: acme"))
		j.send(t.Context(), textractPoll("j-1"))
		require.Equal(t, "permanent", j.send(t.Context(), textractPoll("j-1")).own("Outcome"))
		e := j.sink.letters[0]
		require.Equal(t, "j-1", e.Job.ID)
		require.Equal(t, []string{"d-1", "acme", "StartDocumentAnalysis", "InvalidJobIdException"}, []string{e.DocumentID, e.Tenant, e.Operation, e.ErrorCode})
		require.Equal(t, s3Start, j.sink.bodies[0], "what a replay sends")
		require.Empty(t, e.Request.Token, "a replay is a new job")
		require.Contains(t, e.Diagnostic, "replay it as a new job")
		synctest.Wait()
		require.Empty(t, j.records())
		j.quiet()
	})
}

func TestJobsOfEveryKindAreFollowedToTheirEnd(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		start, poll call
		accepted    step
		running     string
		done        string
	}{
		"azure": {azureStart(""), azurePoll("r-1"), step{status: 202, header: "Operation-Location: " + resultURL}, `{"status":"running"}`, `{"status":"succeeded","analyzeResult":{}}`},
		"documentai": {
			call{target: "/v1/projects/p/locations/us/processors/x:batchProcess", header: asJSON, body: `{"inputDocuments":{}}`},
			call{method: http.MethodGet, target: "/v1/projects/p/locations/us/operations/7"},
			step{header: asJSON, body: `{"name":"projects/p/locations/us/operations/7"}`},
			`{"name":"projects/p/locations/us/operations/7"}`, `{"done":true,"response":{}}`,
		},
		"vision": {
			call{target: "/v1/files:asyncBatchAnnotate", header: asJSON, body: `{"requests":[]}`},
			call{method: http.MethodGet, target: "/v1/projects/p/operations/7"},
			step{header: asJSON, body: `{"name":"projects/p/operations/7"}`},
			`{"done":false}`, `{"done":true,"response":{}}`,
		},
		"mistral": {
			call{target: "/v1/batch/jobs", header: asJSON, body: `{"endpoint":"/v1/ocr"}`},
			call{method: http.MethodGet, target: "/v1/batch/jobs/b-7"},
			step{header: asJSON, body: `{"id":"b-7","status":"QUEUED"}`},
			`{"id":"b-7","status":"RUNNING"}`, `{"id":"b-7","status":"SUCCESS"}`,
		},
	} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				j := newJournaling(t, defaults(kind), c.accepted, step{header: asJSON, body: c.running}, step{header: asJSON, body: c.done})
				c.start.header += "|Ocr-Proxy-Document-Id: d"
				j.send(t.Context(), c.start)
				require.Len(t, j.records(), 1)
				require.Equal(t, "journaled", j.send(t.Context(), c.start).own("Reason"))
				j.send(t.Context(), c.poll)
				synctest.Wait()
				require.Len(t, j.records(), 1)
				j.send(t.Context(), c.poll)
				synctest.Wait()
				require.Empty(t, j.records())
				j.quiet()
			})
		})
	}
}

func TestOnlyAcceptedStartsAreJournaled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("textract")
		s.policy.MaxAttempts = 1
		j := newJournaling(t, s)
		for _, answer := range []step{
			{status: 400, header: amzJSON, body: `{"__type":"InvalidS3ObjectException","JobId":"j"}`},
			{status: 500, body: `{"JobId":"j"}`},
			{lost: true},
			{header: amzJSON, body: `{}`},
			{header: amzJSON, body: `no JSON`},
			{header: "Content-Type: text/plain", body: `{"JobId":"j"}`},
		} {
			j.upstream.script(answer)
			j.send(t.Context(), textractStart("Ocr-Proxy-Document-Id: d"))
			require.Empty(t, j.records(), "%+v", answer)
		}
		j.quiet()
	})
}

func TestAJournalThatCannotWriteCostsNobodyTheAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, defaults("textract"), step{header: amzJSON, body: `{"JobId":"j-1"}`})
		require.NoError(t, j.store.Close())
		r := j.send(t.Context(), textractStart("Ocr-Proxy-Document-Id: d"))
		require.Equal(t, []string{`{"JobId":"j-1"}`, "success"}, []string{r.body, r.own("Outcome")})
		require.Equal(t, 1, j.logs.FilterMessageSnippet("not in the journal").Len())
		j.quiet()
	})
}

func TestAnExpiredJobIsNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, defaults("azure"), step{status: 202, header: "Operation-Location: " + resultURL}, step{status: 202, header: "Operation-Location: " + resultURL})
		start := azureStart("Ocr-Proxy-Document-Id: d")
		j.send(t.Context(), start)
		time.Sleep(24*time.Hour - time.Second)
		require.Equal(t, "journaled", j.send(t.Context(), start).own("Reason"))
		time.Sleep(time.Second)
		require.Equal(t, "1", j.send(t.Context(), start).own("Attempts"))
		j.quiet()
	})
}

func TestACompressedAnswerIsKeptAsText(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, defaults("textract"), step{handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, zipped(t, `{"JobId":"j-1"}`))
		}})
		start := textractStart("Ocr-Proxy-Document-Id: d|Accept-Encoding: gzip")
		j.send(t.Context(), start)
		r := j.send(t.Context(), start)
		require.Equal(t, []string{"journaled", `{"JobId":"j-1"}`, ""}, []string{r.own("Reason"), r.body, r.header.Get("Content-Encoding")})
		j.quiet()
	})
}

func TestAHeaderCarriesTheTokenOfAnEngineWithoutAdapter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.account = func(a *Account) { a.Idempotency.Header = "Idempotency-Key" }
		l := newLab(t, s, step{lost: true}, step{status: 503}, step{body: "read"})
		r := l.send(t.Context(), call{header: "Ocr-Proxy-Document-Id: d", body: "scan"})
		require.Equal(t, []string{"success", "3"}, []string{r.own("Outcome"), r.own("Attempts")})
		var keys []string
		for _, a := range l.upstream.attempts() {
			keys = append(keys, a.header.Get("Idempotency-Key"))
		}
		require.Regexp(t, `^"[0-9a-f]{64}"$`, keys[0])
		require.Equal(t, []string{keys[0], keys[0], keys[0]}, keys, "equal over attempts, a lost one included")

		l.upstream.script(step{}, step{}, step{}, step{}, step{status: 400})
		for i, c := range []call{
			{header: "Ocr-Proxy-Document-Id: d", body: "scan"},
			{header: "Ocr-Proxy-Document-Id: d", body: "another"},
			{header: "Ocr-Proxy-Document-Id: e", body: "scan"},
			{header: "Idempotency-Key: mine", body: "scan"},
			{header: "Ocr-Proxy-Document-Id: d", body: "refused"},
		} {
			l.send(t.Context(), c)
			seen := l.upstream.attempts()
			key := seen[len(seen)-1].header.Get("Idempotency-Key")
			switch i {
			case 0:
				require.Equal(t, keys[0], key, "a repeat is the same call")
			case 3:
				require.Equal(t, "mine", key)
			default:
				require.NotEqual(t, keys[0], key, "other parameters never share a key")
			}
		}
		require.Regexp(t, `^"[0-9a-f]{64}"$`, l.sink.letters[0].Request.Token, "as it was sent")
		l.upstream.script(step{})
		l.send(t.Context(), call{method: http.MethodGet})
		seen := l.upstream.attempts()
		require.Empty(t, seen[len(seen)-1].header.Get("Idempotency-Key"))
		l.quiet()
	})
}

func TestWithoutATokenAnEngineThatTakesOneIsNotAskedTwice(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.account = func(a *Account) {
			a.Idempotency = Idempotency{Header: "X-Idempotency-Key", Bare: true}
			a.Injection = InjectNever
		}
		l := newLab(t, s, step{lost: true}, step{lost: true}, step{})
		require.Equal(t, "not_safe", l.send(t.Context(), call{body: "scan"}).own("Reason"))
		require.Equal(t, "success", l.send(t.Context(), call{header: "X-Idempotency-Key: mine", body: "scan"}).own("Outcome"))
		l.account.Injection = InjectPerCall
		l.upstream.script(step{status: 400})
		l.send(t.Context(), call{body: "scan"})
		e := l.sink.letters[len(l.sink.letters)-1]
		require.Regexp(t, `^[0-9a-f]{64}$`, e.Request.Token)
		l.upstream.script(step{status: 400})
		l.send(t.Context(), call{header: "X-Idempotency-Key: mine", body: "scan"})
		e = l.sink.letters[len(l.sink.letters)-1]
		require.Equal(t, []string{"mine"}, e.Request.Headers["X-Idempotency-Key"])
		require.Empty(t, e.Request.Credentials)
		l.quiet()
	})
}
