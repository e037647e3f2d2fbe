package proxy

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/calls"
)

// remembering is an account of that kind which remembers calls.
func remembering(kind string) setup {
	s := defaults(kind)
	s.account = func(a *Account) { a.Calls = calls.New(calls.Limits{TTL: 5 * time.Minute, MaxBytes: 1 << 20}) }
	return s
}

const ocrCall = "/v1/ocr"

// analysis is a synchronous call about a document.
func analysis(doc string) call {
	return call{target: ocrCall, header: asJSON, body: `{"model":"m","document":{"type":"document_url","document_url":"data:application/pdf;base64,` + doc + `"}}`}
}

// closing ends what an account remembers, so that a test can see that nothing is left.
func (l *lab) closing() {
	l.account.Calls.Close()
	l.quiet()
}

func TestAWorkerThatHangsUpDoesNotWasteTheAnalysis(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("mistral"), step{after: 3 * time.Second, header: asJSON, body: `{"pages":[]}`})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, l.send(ctx, analysis("QQ==")).err)
		require.EqualValues(t, 1, l.account.Purse.InProgress(), "the call goes on")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, l.requests(ClientGone))
		require.Empty(t, l.sink.letters)

		r := l.send(t.Context(), analysis("QQ=="))
		require.Equal(t, http.StatusOK, r.status)
		require.Equal(t, `{"pages":[]}`, r.body)
		require.Equal(t, []string{"success", "0", "rescued", ""}, []string{r.own("Outcome"), r.own("Attempts"), r.own("Reason"), r.own("Class")})
		require.Zero(t, r.took)
		require.Len(t, l.upstream.attempts(), 1, "paid for once")

		l.upstream.script(step{header: asJSON, body: `{"pages":[1]}`}) // it is given once: a third call is a new one
		require.Equal(t, `{"pages":[1]}`, l.send(t.Context(), analysis("QQ==")).body)
		l.closing()
	})
}

// Some engines take their documents by PUT.
func TestAWorkerThatHangsUpOverAPUTDoesNotWasteItEither(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const answer = `{"X-TIKA:Parsed-By":["org.apache.tika.parser.DefaultParser"],"X-TIKA:content":"text"}`
		l := newLab(t, remembering("tika"), step{after: 3 * time.Second, header: asJSON, body: answer})
		put := call{method: http.MethodPut, target: "/tika/text", header: "Accept: application/json", body: "a page"}
		require.Error(t, l.send(leaveAfter(t, time.Second), put).err)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		r := l.send(t.Context(), put)
		require.Equal(t, []string{answer, "rescued"}, []string{r.body, r.own("Reason")})
		require.Len(t, l.upstream.attempts(), 1)
		other := put
		other.header = "Accept: application/json|X-Tika-OCRLanguage: deu"
		l.upstream.script(step{header: asJSON, body: answer})
		require.Empty(t, l.send(t.Context(), other).own("Reason"), "another language is another call")
		l.closing()
	})
}

func TestARescuedAnswerIsForTheSameCredentialAndDocumentOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("mistral"), step{after: 2 * time.Second, header: asJSON, body: `{"pages":["a"]}`})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		mine := analysis("QQ==")
		mine.header += "|Authorization: Bearer one"
		require.Error(t, l.send(ctx, mine).err)
		time.Sleep(2 * time.Second)
		theirs := mine
		theirs.header = asJSON + "|Authorization: Bearer two"
		l.upstream.script(step{header: asJSON, body: `{"pages":["b"]}`}, step{header: asJSON, body: `{"pages":["c"]}`})
		require.Equal(t, `{"pages":["b"]}`, l.send(t.Context(), theirs).body)
		other := analysis("Qg==")
		other.header = mine.header
		require.Equal(t, `{"pages":["c"]}`, l.send(t.Context(), other).body)
		require.Equal(t, `{"pages":["a"]}`, l.send(t.Context(), mine).body)
		l.closing()
	})
}

func TestAFailureAfterTheHangUpIsNeitherKeptNorBuried(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("mistral"), step{after: 2 * time.Second, status: 503})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, l.send(ctx, analysis("QQ==")).err)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Len(t, l.upstream.attempts(), 1, "nobody waits: no further attempt")
		require.Empty(t, l.sink.letters)
		require.Equal(t, 1, l.circuit().Failures, "the provider's failure is counted all the same")
		l.closing()
	})
}

func TestTheLibrarysRetryJoinsTheCallUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("textract"), step{after: 3 * time.Second, header: asJSON, body: `{"Blocks":[]}`})
		first := call{target: "/", header: asJSON + "|X-Amz-Target: Textract.DetectDocumentText|Amz-Sdk-Invocation-Id: i-1|Amz-Sdk-Request: attempt=1; max=3", body: `{"Document":{"Bytes":"QQ=="}}`}
		again := first
		again.header = asJSON + "|X-Amz-Target: Textract.DetectDocumentText|Amz-Sdk-Invocation-Id: i-1|Amz-Sdk-Request: attempt=2; max=3"
		one := l.later(t.Context(), first)
		time.Sleep(time.Second)
		two := l.later(t.Context(), again)
		a, b := <-one, <-two
		require.Equal(t, `{"Blocks":[]}`, a.body)
		require.Equal(t, a.body, b.body)
		require.Equal(t, []string{"1", ""}, []string{a.own("Attempts"), a.own("Reason")})
		require.Equal(t, []string{"0", "joined"}, []string{b.own("Attempts"), b.own("Reason")})
		require.Len(t, l.upstream.attempts(), 1)
		l.closing()
	})
}

func TestTheRetryOfALibraryThatHungUpJoinsItsOwnCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("openai"), step{after: 5 * time.Second, header: asJSON, body: `{"choices":[]}`})
		chat := call{target: "/v1/chat/completions", header: asJSON + "|X-Stainless-Retry-Count: 0", body: `{"model":"m","messages":[]}`}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, l.send(ctx, chat).err, "the SDK's own timeout")
		chat.header = asJSON + "|X-Stainless-Retry-Count: 1"
		r := l.send(t.Context(), chat)
		require.Equal(t, `{"choices":[]}`, r.body)
		require.Equal(t, "joined", r.own("Reason"))
		require.Equal(t, 4*time.Second, r.took)
		require.Len(t, l.upstream.attempts(), 1)
		l.closing()
	})
}

func TestTheLibrarysRetryOfABuriedCallCostsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("textract"), step{status: 400, header: asJSON, body: `{"__type":"BadDocumentException"}`})
		c := call{target: "/", header: asJSON + "|X-Amz-Target: Textract.DetectDocumentText|Amz-Sdk-Invocation-Id: i-1", body: `{"Document":{"Bytes":"QQ=="}}`}
		first := l.send(t.Context(), c)
		again := l.send(t.Context(), c)
		require.Equal(t, first.body, again.body)
		require.Equal(t, http.StatusBadRequest, again.status)
		require.Equal(t, []string{"permanent", "0", "buried"}, []string{again.own("Outcome"), again.own("Attempts"), again.own("Reason")})
		require.NotEmpty(t, again.own("Dead-Letter-Id"))
		require.Len(t, l.upstream.attempts(), 1)
		require.Len(t, l.sink.letters, 2, "the store makes one of them and raises its occurrences")
		require.Equal(t, l.sink.letters[0].Attempts, l.sink.letters[1].Attempts, "with the history that it has")
		require.Equal(t, l.sink.letters[0].RequestFingerprint, l.sink.letters[1].RequestFingerprint)

		c.header = asJSON + "|X-Amz-Target: Textract.DetectDocumentText|Amz-Sdk-Invocation-Id: i-2"
		l.upstream.script(step{header: asJSON, body: `{}`})
		require.Equal(t, "1", l.send(t.Context(), c).own("Attempts"), "a new call deserves a try of its own")
		l.closing()
	})
}

func TestAnOpenCircuitIsToldAgainOnlyWhileItIsOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := remembering("textract")
		s.breaker.FailureThreshold, s.policy.MaxAttempts = 1, 1
		l := newLab(t, s, step{status: 500})
		c := call{target: "/", header: asJSON + "|X-Amz-Target: Textract.DetectDocumentText|Amz-Sdk-Invocation-Id: i-0", body: `{"Document":{"Bytes":"QQ=="}}`}
		l.send(t.Context(), c)
		c.header = asJSON + "|X-Amz-Target: Textract.DetectDocumentText|Amz-Sdk-Invocation-Id: i-1"
		require.Equal(t, "circuit_open", l.send(t.Context(), c).own("Outcome"))
		r := l.send(t.Context(), c)
		require.Equal(t, []string{"circuit_open", "buried"}, []string{r.own("Outcome"), r.own("Reason")})
		time.Sleep(61 * time.Second)
		l.upstream.script(step{header: asJSON, body: `{}`})
		require.Equal(t, "success", l.send(t.Context(), c).own("Outcome"))
		l.closing()
	})
}

func TestAnAcceptedStartIsNotLostWithItsWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("azure"), step{status: 202, after: 2 * time.Second, header: "Operation-Location: http://provider/documentintelligence/documentModels/m/analyzeResults/1"})
		start := call{target: "/documentintelligence/documentModels/m:analyze?api-version=1", header: asJSON, body: `{"base64Source":"QQ=="}`}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, l.send(ctx, start).err)
		time.Sleep(2 * time.Second)
		r := l.send(t.Context(), start)
		require.Equal(t, http.StatusAccepted, r.status)
		require.Equal(t, "http://proxy/documentintelligence/documentModels/m/analyzeResults/1", r.header.Get("Operation-Location"))
		require.Len(t, l.upstream.attempts(), 1, "one job, not two")
		l.closing()
	})
}

func TestEqualCallsAtTheSameMomentAreJoinedWhenTheWorkersAskForIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("mistral"), step{after: time.Second, header: asJSON, body: `{"pages":[]}`})
		c := analysis("QQ==")
		c.header += "|Ocr-Proxy-Join: true"
		var all []<-chan reply
		for range 5 {
			all = append(all, l.later(t.Context(), c))
		}
		joined := 0
		for _, one := range all {
			r := <-one
			require.Equal(t, `{"pages":[]}`, r.body)
			if r.own("Reason") == "joined" {
				joined++
			}
		}
		require.Equal(t, 4, joined)
		require.Len(t, l.upstream.attempts(), 1)
		l.closing()
	})
}
