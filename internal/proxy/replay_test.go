package proxy

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/calls"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// buried is the last dead letter as a store would give it back, and its payload.
func (l *lab) buried() (*dlq.Envelope, string) {
	l.t.Helper()
	l.sink.mu.Lock()
	defer l.sink.mu.Unlock()
	require.NotEmpty(l.t, l.sink.letters, "there is a dead letter")
	letter, body := *l.sink.letters[len(l.sink.letters)-1], l.sink.bodies[len(l.sink.bodies)-1]
	letter.ID = "019e0000-0000-7000-8000-000000000001"
	if body != "" {
		sum := sha256.Sum256([]byte(body))
		letter.Request.BodyBytes, letter.Request.BodySHA256 = int64(len(body)), hex.EncodeToString(sum[:])
		letter.RawPayloadRef = "payloads/" + letter.Request.BodySHA256[:2] + "/" + letter.Request.BodySHA256
	}
	return &letter, body
}

// fails makes a call that fails and gives its letter.
func (l *lab) fails(c call) (*dlq.Envelope, string) {
	l.t.Helper()
	require.NotEqual(l.t, http.StatusOK, l.send(l.t.Context(), c).status)
	return l.buried()
}

func (l *lab) replay(letter *dlq.Envelope, body string) *Replayed {
	l.t.Helper()
	r := l.account.Replay(letter, io.NopCloser(strings.NewReader(body)), false)
	if r.Answer != nil {
		l.t.Cleanup(r.Answer.Release)
	}
	return r
}

// taken reads a recording as a client would.
func taken(t *testing.T, r *Recording) (*http.Response, string) {
	t.Helper()
	whole := r.Open()
	defer whole.Close()
	resp, err := http.ReadResponse(bufio.NewReader(whole), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

// once has no call tried a second time.
func once(kind string) setup {
	s := defaults(kind)
	s.policy.MaxAttempts = 1
	return s
}

func TestReplayIsTheSameExchangeUnderTodaysConfiguration(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 400}, step{status: 503}, step{header: "Set-Cookie: a=b|X-Request-Id: r-1", body: `{"text":"read"}`})
		letter, body := l.fails(call{
			target: "//a%2Fb/x:y?q=1&key=s3cret", body: "the document",
			header: "Content-Type: application/pdf|X-Mine: 1|X-Api-Key: of-the-worker|Ocr-Proxy-Document-Id: doc|Ocr-Proxy-Tenant: t",
		})
		require.Contains(t, l.replay(letter, body).Refused, "replay_auth", "the worker's key is not in the letter, and the account has none")
		l.account.ReplayCredential = credential.Header("X-Api-Key", "", "of-replays")
		r := l.replay(letter, body)
		require.Equal(t, Success, r.Outcome, r.Lost)
		require.Equal(t, 2, r.Attempts, "the loop tries again as for a worker")
		resp, text := taken(t, r.Answer)
		require.Equal(t, `{"text":"read"}`, text)
		require.Equal(t, "r-1", resp.Header.Get("X-Request-Id"))
		require.Empty(t, resp.Header["Set-Cookie"])
		sent := l.upstream.attempts()[2]
		require.Equal(t, "//a%2Fb/x:y?q=1", sent.target)
		require.Equal(t, "the document", sent.body)
		require.EqualValues(t, len("the document"), sent.length)
		require.Equal(t, "application/pdf", sent.header.Get("Content-Type"))
		require.Equal(t, "1", sent.header.Get("X-Mine"))
		require.Equal(t, []string{"of-replays"}, sent.header["X-Api-Key"])
		for name := range sent.header {
			require.False(t, strings.HasPrefix(name, "Ocr-Proxy-"), name)
		}
		require.Equal(t, 1, l.sink.count(), "no second letter")
		require.Equal(t, 1, l.requests(Permanent), "a replay is no worker's request")
		require.Zero(t, l.requests(Success))
		require.Equal(t, 1, l.attempts("success"))
		r.Answer.Release()
		l.quiet()
	})
}

func TestReplayThatFailsTellsItsFailureAndWritesNoLetter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, once("generic"), step{status: 500}, step{status: 429, header: "Retry-After: 600"}, step{status: 422, body: `{"code":"bad"}`}, step{missing: 10, body: "half"})
		letter, body := l.fails(call{body: "document"})
		r := l.replay(letter, body)
		require.Equal(t, "throttle", r.Failure.ErrorClass)
		require.Equal(t, 429, *r.Failure.HTTPStatus)
		require.WithinDuration(t, time.Now().Add(10*time.Minute), *r.Failure.RetryNotBefore, 2*time.Second)
		require.Equal(t, letter.RequestFingerprint, r.Failure.RequestFingerprint)
		require.Positive(t, l.account.ReplayWait(letter), "the gate is closed for longer than a request may take")
		r = l.replay(letter, body)
		require.False(t, r.NotBefore.IsZero(), "nothing was sent")
		require.Nil(t, r.Failure)
		time.Sleep(11 * time.Minute)
		require.Zero(t, l.account.ReplayWait(letter))
		r = l.replay(letter, body)
		require.Equal(t, "permanent", r.Failure.Outcome)
		r = l.replay(letter, body)
		require.NotNil(t, r.Failure, "an answer that breaks off is no answer")
		require.True(t, r.Failure.Ambiguous)
		require.Equal(t, 1, l.sink.count())
		l.quiet()
	})
}

func TestReplayDoesNotAskAnOpenCircuit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := once("generic")
		s.breaker.FailureThreshold = 1
		l := newLab(t, s, step{status: 500}, step{body: "ok"})
		letter, body := l.fails(call{body: "document"})
		require.Equal(t, time.Minute, l.account.ReplayWait(letter))
		r := l.replay(letter, body)
		require.WithinDuration(t, time.Now().Add(time.Minute), r.NotBefore, time.Second)
		require.Nil(t, r.Failure)
		time.Sleep(time.Minute)
		require.Equal(t, Success, l.replay(letter, body).Outcome)
		require.Equal(t, "closed", l.circuit().State.String(), "the replay was the probe")
	})
}

const startCall = `{"DocumentLocation":{"S3Object":{"Bucket":"b","Name":"n"}}}`

func startHeader(more string) string {
	return "Content-Type: application/x-amz-json-1.1|X-Amz-Target: Textract.StartDocumentTextDetection" + more
}

func tokenIn(t *testing.T, body string) string {
	t.Helper()
	_, after, ok := strings.Cut(body, `"ClientRequestToken":"`)
	require.True(t, ok, body)
	token, rest, _ := strings.Cut(after, `"`)
	require.NotContains(t, rest, "ClientRequestToken", "there is one")
	return token
}

func TestReplayedJobStartRunsUnderItsToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, once("textract"), step{lost: true}, step{lost: true}, step{status: 400, body: `{"__type":"InvalidParameterException"}`}, step{body: `{"JobId":"j"}`, header: "Content-Type: application/x-amz-json-1.1"})
		letter, body := l.fails(call{target: "/", header: startHeader(""), body: startCall})
		require.True(t, letter.Ambiguous)
		require.Equal(t, startCall, body)
		for _, want := range []bool{false, false, true} {
			r := l.replay(letter, body)
			require.Equal(t, want, r.Answer != nil)
			if r.Failure != nil {
				require.Equal(t, letter.Request.Token, r.Failure.Request.Token)
				letter.Replayed(r.Failure)
				require.True(t, letter.Ambiguous, "a first call that may have been done stays one")
			}
		}
		require.Len(t, letter.Replays, 2)
		for _, sent := range l.upstream.attempts() {
			require.Equal(t, letter.Request.Token, tokenIn(t, sent.body))
		}
	})
}

func TestReplayOfAFailedJobStartsAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, carried := range []string{startCall, `{"ClientRequestToken":"the-workers","DocumentLocation":{"S3Object":{"Bucket":"b","Name":"n"}}}`} {
			l := newLab(t, once("textract"), step{status: 500}, step{lost: true}, step{body: `{"JobId":"j2"}`, header: "Content-Type: application/x-amz-json-1.1"})
			letter, body := l.fails(call{target: "/", header: startHeader(""), body: carried})
			first := tokenIn(t, l.upstream.attempts()[0].body)
			letter.Job = &dlq.Job{ID: "j1", Start: &letter.Request}
			letter.Request.Token = ""
			r := l.replay(letter, body)
			require.NotNil(t, r.Failure)
			time.Sleep(time.Hour)
			crashed := *letter // as after a crash: the letter never learned of the new token
			require.NotNil(t, l.replay(&crashed, body).Answer)
			second, third := tokenIn(t, l.upstream.attempts()[1].body), tokenIn(t, l.upstream.attempts()[2].body)
			require.NotEqual(t, first, second, "its own token names the failed job")
			require.Equal(t, second, third, "a replay that is repeated is the same job")
			require.Equal(t, second, r.Failure.Request.Token)
		}
	})
}

func TestReplaysThatAreRefusedSendNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := once("textract")
		s.policy.Ambiguous = RepeatNever
		l := newLab(t, s, step{status: 500})
		letter, body := l.fails(call{target: "/", header: "X-Amz-Target: Textract.DetectDocumentText", body: `{"Document":{"Bytes":"QQ=="}}`})
		for name, c := range map[string]struct {
			change func(e *dlq.Envelope)
			says   string
		}{
			"credentials": {func(e *dlq.Envelope) { e.Request.Credentials = []string{"header:Authorization"} }, "replay_auth"},
			"no payload":  {func(e *dlq.Envelope) { e.RawPayloadRef = "" }, "payload was not kept"},
			"form": {func(e *dlq.Envelope) {
				e.RawPayloadRef, e.Request.BodySHA256, e.Request.Credentials = "", "", []string{"form:unreadable"}
			}, "payload was not kept"},
			"job":       {func(e *dlq.Envelope) { e.Job = &dlq.Job{ID: "j"} }, "its start did not come through"},
			"damage":    {func(e *dlq.Envelope) { e.Request.BodySHA256 = strings.Repeat("0", 64) }, "damaged"},
			"ambiguous": {func(e *dlq.Envelope) { e.Ambiguous = true }, "--include-ambiguous"},
			"path":      {func(e *dlq.Envelope) { e.Request.Path = "nowhere" }, "cannot be made again"},
			"document":  {func(e *dlq.Envelope) { e.DocumentID = "a\nb" }, "printable"},
			"too large": {func(e *dlq.Envelope) { e.Request.BodyBytes = 1 << 40 }, "larger than body.max_bytes"},
		} {
			changed := *letter
			c.change(&changed)
			r := l.replay(&changed, body)
			require.Contains(t, r.Refused, c.says, name)
			require.Nil(t, r.Failure, name)
			require.Zero(t, r.Attempts, name)
		}
		require.Len(t, l.upstream.attempts(), 1)
		require.Equal(t, 1, l.sink.count())

		l.upstream.script(step{body: `{}`})
		letter.Ambiguous = true
		r := l.account.Replay(letter, io.NopCloser(strings.NewReader(body)), true)
		require.Equal(t, Success, r.Outcome, "asked for in so many words")
		r.Answer.Release()
		l.quiet()
	})
}

func TestReplayPutsTheAccountsKeyWhereTheFormHadTheWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := once("ocrspace")
		s.account = func(a *Account) { a.Credential = credential.Header("Apikey", "", "of-the-account") }
		l := newLab(t, s, step{status: 500}, step{body: `{"OCRExitCode":1}`, header: "Content-Type: application/json"})
		letter, body := l.fails(call{target: "/parse/image", header: "Content-Type: application/x-www-form-urlencoded", body: "apikey=workers-key&url=http://d/1.png"})
		require.Equal(t, "url=http://d/1.png", body)
		require.Equal(t, []string{"form:apikey"}, letter.Request.Credentials)
		require.Equal(t, Success, l.replay(letter, body).Outcome)
		sent := l.upstream.attempts()[1]
		require.Equal(t, body, sent.body)
		require.Equal(t, "of-the-account", sent.header.Get("Apikey"))
	})
}

func TestReplayTakesARescuedAnswerAndNoBuriedOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := once("textract")
		s.account = func(a *Account) { a.Calls = calls.New(calls.Limits{TTL: 5 * time.Minute, MaxBytes: 1 << 20}) }
		l := newLab(t, s, step{status: 400, body: `{"__type":"BadDocumentException"}`}, step{body: `{"Blocks":[]}`, header: "Content-Type: application/x-amz-json-1.1"})
		c := call{target: "/", header: "X-Amz-Target: Textract.DetectDocumentText|Amz-Sdk-Invocation-Id: i-1", body: `{"Document":{"Bytes":"QQ=="}}`}
		letter, body := l.fails(c)
		require.Equal(t, "buried", l.send(t.Context(), c).own("Reason"), "the library's own retry costs nothing")
		require.Len(t, l.upstream.attempts(), 1)
		require.Equal(t, Success, l.replay(letter, body).Outcome, "a replay is meant")
		require.Len(t, l.upstream.attempts(), 2)
	})
}

func TestResultNamesThePollingAddressOfTheListener(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := once("azure")
		s.account = func(a *Account) { a.Self = "http://127.0.0.1:8081" }
		l := newLab(t, s, step{status: 503}, step{status: 202, header: "Operation-Location: http://provider/documentintelligence/documentModels/m/analyzeResults/r1?api-version=1"})
		letter, body := l.fails(call{target: "/documentintelligence/documentModels/m:analyze?api-version=1", header: "Content-Type: application/pdf", body: "pdf"})
		r := l.replay(letter, body)
		require.NotNil(t, r.Answer, "%+v", r)
		resp, _ := taken(t, r.Answer)
		require.Equal(t, http.StatusAccepted, resp.StatusCode)
		require.Equal(t, "http://127.0.0.1:8081/documentintelligence/documentModels/m/analyzeResults/r1?api-version=1", resp.Header.Get("Operation-Location"))
	})
}

func TestReplayOfAnRPC(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newRPCLab(t, once("documentai"), bad(14, "busy"), good([]byte("\x0a\x00")))
		require.NoError(t, l.send(t.Context(), rpcCall(processMethod, processing("doc"), "X-Goog-Request-Params: name=x")).err)
		letter, body := l.buried()
		r := l.replay(letter, body)
		require.NotNil(t, r.Answer, "%+v", r)
		resp, text := taken(t, r.Answer)
		require.Equal(t, "0", resp.Header.Get("Grpc-Status"))
		require.NotEmpty(t, text)
		sent := l.upstream.attempts()[1]
		require.Equal(t, body, sent.body)
		require.Equal(t, "trailers", sent.header.Get("Te"))
		require.Equal(t, "name=x", sent.header.Get("X-Goog-Request-Params"))
	})
}

func TestReplayOfAPollThatTellsOfAFailedJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		json := "Content-Type: application/x-amz-json-1.1"
		j := newJournaling(t, once("textract"), step{body: `{"JobId":"j1"}`, header: json}, step{status: 500}, step{body: `{"JobStatus":"FAILED","StatusMessage":"broken"}`, header: json})
		require.Equal(t, http.StatusOK, j.send(t.Context(), call{target: "/", header: startHeader("|Ocr-Proxy-Document-Id: lease"), body: startCall}).status)
		letter, body := j.fails(call{target: "/", header: json + "|X-Amz-Target: Textract.GetDocumentTextDetection", body: `{"JobId":"j1"}`})
		r := j.replay(letter, body)
		require.NotNil(t, r.Answer, "the poll has its answer: %+v", r)
		about, _ := j.buried()
		require.Equal(t, 2, j.sink.count(), "the document has a letter of its own")
		require.Equal(t, "lease", about.DocumentID)
		require.Equal(t, "StartDocumentTextDetection", about.Operation)
	})
}
