package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var errHungUp = errors.New("the worker hung up")

// deaf is a worker that hangs up while its answer is written.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, errHungUp }

// loseAnswer makes a call whose worker hangs up over the answer.
func (l *lab) loseAnswer(c call) {
	req := c.request(l.t.Context(), l.t, "http://proxy")
	req.RequestURI = req.URL.RequestURI()
	ctx := context.WithValue(l.t.Context(), http.ServerContextKey, &http.Server{ReadHeaderTimeout: time.Second})
	defer func() { require.Equal(l.t, http.ErrAbortHandler, recover()) }()
	l.account.ServeHTTP(deaf{httptest.NewRecorder()}, req.WithContext(ctx))
}

// hangUpAfter makes a call that its worker gives up after that time.
func (l *lab) hangUpAfter(d time.Duration, c call) {
	ctx, cancel := context.WithTimeout(l.t.Context(), d)
	defer cancel()
	require.Error(l.t, l.send(ctx, c).err)
}

func TestWhatWasPutTogetherIsRescuedAsAWhole(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("vision"),
			step{header: asJSON, body: `{"responses":[{"t":"A"},{"error":{"code":14}},{"t":"C"}]}`},
			step{header: asJSON, body: `{"responses":[{"t":"B"}]}`})
		c := call{target: visionCall, header: asJSON, body: threeImages}
		l.loseAnswer(c)
		r := l.send(t.Context(), c)
		require.Equal(t, "rescued", r.own("Reason"))
		require.Equal(t, "success", r.own("Outcome"))
		require.Equal(t, `{"responses":[{"t":"A"},{"t":"B"},{"t":"C"}]}`, r.body)
	})
}

func TestARescuedAnswerThatIsLostAgainIsKeptAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("mistral"), step{header: asJSON, body: `{"pages":[]}`})
		l.loseAnswer(analysis("QQ=="))
		l.loseAnswer(analysis("QQ=="))
		require.Equal(t, "rescued", l.send(t.Context(), analysis("QQ==")).own("Reason"))
		require.Len(t, l.upstream.attempts(), 1)
	})
}

func TestAnAnswerIsOnlyGivenInTheFormThatWasAskedFor(t *testing.T) {
	t.Parallel()
	const gzipped, fields = "|Accept-Encoding: gzip", "|X-Goog-Fieldmask: text"
	for name, other := range map[string]string{"other fields": gzipped + "|X-Goog-Fieldmask: entities", "no compression": "|Accept-Encoding: identity" + fields} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, remembering("documentai"), step{header: asJSON, after: 2 * time.Second, body: `{"document":{}}`}, step{header: asJSON, body: `{"document":{"text":"x"}}`})
				c := call{target: "/v1/projects/p/locations/us/processors/x:process", body: `{"rawDocument":{"content":"QQ=="}}`}
				c.header = asJSON + gzipped + fields
				l.hangUpAfter(time.Second, c)
				time.Sleep(3 * time.Second)
				c.header = asJSON + other
				require.Equal(t, `{"document":{"text":"x"}}`, l.send(t.Context(), c).body)
			})
		})
	}
}

// What lies at an address may have changed between two calls, and their requests are equal.
func TestADocumentThatIsOnlyPointedAtIsReadAnewByAnotherCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("textract"), step{after: 2 * time.Second, header: amzJSON, body: `{"Blocks":["old"]}`}, step{header: amzJSON, body: `{"Blocks":["new"]}`})
		c := call{target: "/", body: `{"Document":{"S3Object":{"Bucket":"b","Name":"n"}}}`}
		c.header = amzJSON + "|X-Amz-Target: Textract.DetectDocumentText|Amz-Sdk-Invocation-Id: i-1"
		l.hangUpAfter(time.Second, c)
		time.Sleep(3 * time.Second)
		again := c
		again.header = strings.Replace(c.header, "i-1", "i-2", 1)
		require.Equal(t, `{"Blocks":["new"]}`, l.send(t.Context(), again).body)
		require.Equal(t, `{"Blocks":["old"]}`, l.send(t.Context(), c).body, "the library's own retry")
	})
}

func TestAStartThatMayHaveHappenedIsNotMadeAgainForTheLibrarysRetry(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, remembering("azure"), step{lost: true})
		start := azureStart(azureKey + "|X-Ms-Client-Request-Id: c-1")
		require.Equal(t, "not_safe", j.send(t.Context(), start).own("Reason"))
		r := j.send(t.Context(), start)
		require.Equal(t, "buried", r.own("Reason"))
		require.Equal(t, http.StatusBadGateway, r.status)
		require.Len(t, j.upstream.attempts(), 1)
	})
}

func TestEqualStartsAtTheSameTimeAreOneJob(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		started := step{status: 202, after: 2 * time.Second, header: "Operation-Location: " + resultURL}
		j := newJournaling(t, remembering("azure"), started)
		start := azureStart(azureKey + "|Ocr-Proxy-Document-Id: d-1")
		first, second := j.later(t.Context(), start), j.later(t.Context(), start)
		require.Equal(t, (<-first).header.Get("Operation-Location"), (<-second).header.Get("Operation-Location"))
		require.Len(t, j.upstream.attempts(), 1)
	})
}

// Each worker polls by the address by which it came, whoever started the job.
func TestASharedStartNamesTheListenerAsEachWorkerKnowsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first  func(l *lab, start call)
		reason string
	}{
		"joined": {func(l *lab, start call) {
			l.later(l.t.Context(), start)
			time.Sleep(time.Millisecond)
		}, reasonJoined},
		"left behind": {func(l *lab, start call) {
			l.hangUpAfter(time.Second, start)
			time.Sleep(2 * time.Second)
		}, reasonRescued},
		"lost on its way": {func(l *lab, start call) { l.loseAnswer(start) }, reasonRescued},
		"lost once more": {func(l *lab, start call) {
			l.loseAnswer(start)
			start.host = "third.example"
			l.loseAnswer(start)
		}, reasonRescued},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, remembering("azure"), step{status: 202, after: 2 * time.Second, header: asJSON + "|Operation-Location: " + resultURL, body: "{}"})
				start := azureStart("X-Ms-Client-Request-Id: c-1")
				start.host = "first.example"
				c.first(l, start)
				start.host = "sidecar.example:8082"
				r := l.send(t.Context(), start)
				require.Equal(t, c.reason, r.own("Reason"))
				require.Equal(t, "http://sidecar.example:8082/documentintelligence/documentModels/m/analyzeResults/r-1?api-version=1", r.header.Get("Operation-Location"))
				require.Len(t, l.upstream.attempts(), 1)
				l.closing()
			})
		})
	}
}

func TestWhoWaitsForAFailedTwinJoinsTheNextOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		started := step{status: 202, after: time.Second, header: "Operation-Location: " + resultURL}
		j := newJournaling(t, remembering("azure"), step{status: 503, after: 2 * time.Second}, started)
		start := azureStart(azureKey + "|X-Ms-Client-Request-Id: c-1")
		leaves, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := j.later(leaves, start)
		time.Sleep(time.Millisecond)
		var waiting []<-chan reply
		for range 4 {
			waiting = append(waiting, j.later(t.Context(), start))
		}
		require.Error(t, (<-first).err)
		for _, r := range waiting {
			require.Equal(t, http.StatusAccepted, (<-r).status)
		}
		require.Len(t, j.upstream.attempts(), 2)
	})
}

func TestOnlyTheOwnerOfAJobIsBelievedThatItIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, remembering("azure"),
			step{status: 202, header: "Operation-Location: " + resultURL}, step{status: 404, header: asJSON, body: `{"error":{"code":"NotFound"}}`})
		start := azureStart(azureKey + "|Ocr-Proxy-Document-Id: d-1")
		j.send(t.Context(), start)
		poll := azurePoll("r-1")
		poll.header = "Ocp-Apim-Subscription-Key: a-stranger"
		j.send(t.Context(), poll)
		synctest.Wait()
		require.Equal(t, "journaled", j.send(t.Context(), start).own("Reason"))
	})
}

func TestTheEndOfAJobIsSeenAlthoughAPollWasLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		done := step{header: amzJSON, after: 2 * time.Second, body: `{"JobStatus":"SUCCEEDED","Blocks":[]}`}
		j := newJournaling(t, remembering("textract"), step{header: amzJSON, body: `{"JobId":"j-1"}`}, done, done)
		j.send(t.Context(), textractStart("Ocr-Proxy-Document-Id: d-1"))
		j.hangUpAfter(time.Second, textractPoll("j-1"))
		time.Sleep(3 * time.Second)
		require.Empty(t, j.send(t.Context(), textractPoll("j-1")).own("Reason"))
		synctest.Wait()
		require.Empty(t, j.records())
	})
}

func TestAfterAFailedJobTheSameCallGetsANewToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, remembering("textract"),
			step{header: amzJSON, body: `{"JobId":"j-1"}`}, step{header: amzJSON, body: `{"JobStatus":"FAILED"}`}, step{header: amzJSON, body: `{"JobId":"j-2"}`})
		start := textractStart("Ocr-Proxy-Document-Id: d-1")
		j.send(t.Context(), start)
		j.send(t.Context(), textractPoll("j-1"))
		synctest.Wait()
		j.send(t.Context(), start)
		a := j.upstream.attempts()
		require.NotEqual(t, tokenOf(t, a[0].body), tokenOf(t, a[2].body))
		require.Equal(t, "journaled", j.send(t.Context(), start).own("Reason"))
	})
}

func TestAJobsRecordHoldsNoSecret(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, remembering("azure"),
			step{status: 202, header: "Operation-Location: " + resultURL + "&subscription-key=" + inQuery + "|X-Ms-Request-Id: for " + inQuery, body: inQuery})
		c := azureStart("Ocr-Proxy-Document-Id: d-1")
		c.target += "&subscription-key=" + inQuery
		j.send(t.Context(), c)
		text, err := os.ReadFile(j.records()[0])
		require.NoError(t, err)
		require.NotContains(t, string(text), inQuery)
		again := j.send(t.Context(), c)
		require.Equal(t, "journaled", again.own("Reason"))
		_, at, _ := strings.Cut(resultURL, "://")
		_, at, _ = strings.Cut(at, "/")
		require.True(t, strings.HasSuffix(again.header.Get("Operation-Location"), "/"+at), "it still leads to the job: %s", again.header.Get("Operation-Location"))
	})
}

// A repeat must not prolong for how long a failure is told again.
func TestABuriedAnswerThatIsLostIsNotKeptForLonger(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, remembering("textract"), step{status: 400, header: asJSON, body: `{"__type":"BadDocumentException"}`}, step{header: asJSON, body: `{}`})
		c := call{target: "/", header: asJSON + "|X-Amz-Target: Textract.DetectDocumentText|Amz-Sdk-Invocation-Id: i-1", body: `{"Document":{"Bytes":"QQ=="}}`}
		l.send(t.Context(), c)
		time.Sleep(4 * time.Minute)
		l.loseAnswer(c)
		time.Sleep(2 * time.Minute)
		require.Equal(t, "success", l.send(t.Context(), c).own("Outcome"))
		l.closing()
	})
}
