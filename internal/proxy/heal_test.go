package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// healing is a lab whose account buries into a store of its own and resolves what is in it.
func healing(t *testing.T, s setup, steps ...step) (*lab, func(status string) []dlq.Letter) {
	t.Helper()
	l, dir := newLab(t, s, steps...), t.TempDir()
	store, err := dlq.Open(dir, dlq.Options{KeepPayloads: true, Registerer: prometheus.NewRegistry()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	l.account.Sink, l.account.Letters = store, store.OpenLetters("acct")
	return l, func(status string) (all []dlq.Letter) {
		r, err := dlq.View(dir)
		require.NoError(t, err)
		for letter, err := range r.List(dlq.Filter{Status: status}) {
			require.NoError(t, err)
			all = append(all, letter)
		}
		return all
	}
}

func TestALaterSuccessResolvesTheLetter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l, letters := healing(t, once("generic"), step{status: 500}, step{status: 500}, step{body: "other"}, step{body: "ok"}, step{body: "ok"})
		document := call{header: "Content-Type: application/json", body: `{"a":1,"document":"QUFB"}`}
		l.send(t.Context(), document)
		l.send(t.Context(), document)
		require.Equal(t, 2, letters("open")[0].Occurrences)
		require.Equal(t, http.StatusOK, l.send(t.Context(), call{header: "Content-Type: application/json", body: `{"a":1,"document":"QUFC"}`}).status)
		require.Len(t, letters("open"), 1, "another document of the same size")

		reordered := call{header: "Content-Type: application/json", body: `{"document":"QUFB","a":1}`}
		require.Equal(t, http.StatusOK, l.send(t.Context(), reordered).status)
		time.Sleep(time.Second)
		require.Empty(t, letters("open"))
		resolved := letters("resolved")
		require.Len(t, resolved, 1)
		require.Equal(t, "proxy", resolved[0].Resolution.By)
		require.Equal(t, "resolved by a later success", resolved[0].Resolution.Note)
		require.Equal(t, http.StatusOK, l.send(t.Context(), reordered).status)
		l.quiet()
	})
}

// unheard is a worker's connection that is gone although nothing has told so yet.
type unheard struct{ *httptest.ResponseRecorder }

func (unheard) FlushError() error { return io.ErrClosedPipe }

func TestAtTheEndAnAnswerIsOutBeforeItsRequestIsDone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, once("generic"), step{body: "ok"}, step{body: "ok"})
		ending, end := context.WithCancelCause(t.Context())
		defer end(nil)
		l.account.Ending = ending
		for _, over := range []bool{false, true} {
			if over {
				end(ErrShutdown)
			}
			w := httptest.NewRecorder()
			l.account.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ocr", strings.NewReader("d")))
			require.Equal(t, over, w.Flushed)
		}
	})
}

func TestAWorkerThatCannotBeAnsweredKeepsItsLetter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l, letters := healing(t, once("generic"), step{status: 500}, step{body: "ok"}, step{body: "ok"})
		l.send(t.Context(), call{body: "d"})
		request := func() *http.Request {
			return httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ocr", strings.NewReader("d"))
		}
		l.account.ServeHTTP(unheard{httptest.NewRecorder()}, request())
		require.Len(t, letters("open"), 1)
		l.account.ServeHTTP(httptest.NewRecorder(), request())
		require.Empty(t, letters("open"))
	})
}

func TestAnotherNameIsAnotherDocument(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l, letters := healing(t, once("generic"), step{status: 500}, step{body: "ok"}, step{body: "ok"})
		l.send(t.Context(), call{header: "Ocr-Proxy-Document-Id: mine", body: "d"})
		l.send(t.Context(), call{header: "Ocr-Proxy-Document-Id: yours", body: "d"})
		time.Sleep(time.Second)
		require.Len(t, letters("open"), 1)
		l.send(t.Context(), call{header: "Ocr-Proxy-Document-Id: mine", body: "d"})
		time.Sleep(time.Second)
		require.Empty(t, letters("open"))
	})
}

func TestAFormThatIsSentAgainResolvesItsLetter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l, letters := healing(t, once("ocrspace"), step{status: 500}, step{body: `{"OCRExitCode":1}`, header: "Content-Type: application/json"})
		c := call{target: "/parse/image", header: "Content-Type: application/x-www-form-urlencoded", body: "apikey=first&url=http://d/1.png"}
		l.send(t.Context(), c)
		require.Len(t, letters("open"), 1, "its payload is shorter than the request, for the key that was cut out")
		c.body = "apikey=another-one&url=http://d/1.png"
		l.send(t.Context(), c)
		time.Sleep(time.Second)
		require.Empty(t, letters("open"))
	})
}

func TestSuccessesHashNothingWhileNoLetterIsLikeThem(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l, letters := healing(t, once("generic"), step{status: 500}, step{body: "ok"}, step{body: "ok"})
		l.send(t.Context(), call{body: "longer than the others"})
		require.True(t, l.account.Letters.May("other", int64(len("longer than the others"))))
		require.False(t, l.account.Letters.May("other", 1))
		require.False(t, l.account.Letters.May("another", int64(len("longer than the others"))))
		require.False(t, (*dlq.OpenLetters)(nil).May("other", 1))
		l.send(t.Context(), call{body: "x"})
		require.Len(t, letters("open"), 1)
	})
}

func TestTheLetterOfAFailedJobWaitsForTheEndOfTheNextOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l, letters := healing(t, remembering("textract"),
			step{header: amzJSON, body: `{"JobId":"j-1"}`}, step{header: amzJSON, body: `{"JobStatus":"FAILED","StatusMessage":"UNSUPPORTED_FORMAT"}`},
			step{header: amzJSON, body: `{"JobId":"j-2"}`}, step{header: amzJSON, body: `{"JobStatus":"IN_PROGRESS"}`},
			step{header: amzJSON, body: `{"JobStatus":"SUCCEEDED","Blocks":[]}`})
		jobs, ok := l.account.Sink.(*dlq.Store)
		require.True(t, ok)
		l.account.Jobs = jobs
		l.send(t.Context(), textractStart("Ocr-Proxy-Document-Id: d-1"))
		l.send(t.Context(), textractPoll("j-1"))
		time.Sleep(time.Second)
		require.Len(t, letters("open"), 1)
		require.Equal(t, `{"JobId":"j-2"}`, l.send(t.Context(), textractStart("Ocr-Proxy-Document-Id: d-1")).body)
		time.Sleep(time.Second)
		require.Len(t, letters("open"), 1, "nothing has been read yet")
		l.send(t.Context(), textractPoll("j-2"))
		time.Sleep(time.Second)
		require.Len(t, letters("open"), 1)
		l.send(t.Context(), textractPoll("j-2"))
		time.Sleep(time.Second)
		require.Empty(t, letters("open"))
		require.Len(t, letters("resolved"), 1)
	})
}
