package proxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
)

// noise is text that differs everywhere, so that a lost or doubled piece shows.
func noise(n int) string {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.UintN(256))
	}
	return string(b)
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

const (
	jsonType = "Content-Type: application/json"
	ocrPath  = "/v1/ocr" // a judged operation of kind mistral
)

func TestErrorsArePassedOnByteForByte(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, maxKept, maxKept + 1, maxErrorPrefix - 1, maxErrorPrefix, maxErrorPrefix + 1, 3*maxErrorPrefix + 7, 1 << 20} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d bytes, chunked %v", size, chunked), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					text := noise(size)
					l := newLab(t, defaults("generic"), step{handle: func(w http.ResponseWriter, _ *http.Request) {
						if !chunked {
							w.Header().Set("Content-Length", strconv.Itoa(size))
						}
						w.Header().Set("Content-Type", "application/octet-stream")
						w.WriteHeader(http.StatusUnprocessableEntity)
						_ = http.NewResponseController(w).Flush()
						_, _ = io.WriteString(w, text)
					}})
					r := l.send(t.Context(), call{body: "document"})
					require.NoError(t, r.err)
					require.Equal(t, 422, r.status)
					requireSame(t, text, r.body)
					if !chunked {
						require.Equal(t, strconv.Itoa(size), r.header.Get("Content-Length"))
					}
					l.quiet()
				})
			})
		}
	}
}

func TestALargeErrorIsNotHeldThroughAWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 500, body: noise(1 << 20)}, step{status: 500, body: noise(100 << 10)}, step{body: "text"})
		require.Equal(t, "text", l.send(t.Context(), call{}).body)
		require.Equal(t, sec(1, 2), l.upstream.gaps(), "and does not delay it")
	})
}

func TestEncodedErrors(t *testing.T) {
	t.Parallel()
	limited := `{"error":{"code":"rate_limited","message":"slow down"}}`
	for _, c := range []struct {
		name  string
		step  step
		class string
		code  string
	}{
		{"gzip is read by the classifier", step{status: 400, header: "Content-Encoding: gzip|" + jsonType, body: zipped(t, limited)}, "permanent", "rate_limited"},
		{"a label that is not true", step{status: 400, header: "Content-Encoding: gzip", body: "plain text"}, "permanent", ""},
		{"broken off in the middle", step{status: 403, header: "Content-Encoding: gzip", body: zipped(t, limited)[:30]}, "auth", ""},
		{"an encoding nobody asked for", step{status: 400, header: "Content-Encoding: br", body: "\x8b\x02\x80"}, "permanent", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, defaults("generic"), c.step)
				r := l.send(t.Context(), call{header: "Accept-Encoding: gzip, br"})
				require.Equal(t, c.step.body, r.body, "passed on unchanged")
				require.Equal(t, headerOf(c.step.header).Get("Content-Encoding"), r.header.Get("Content-Encoding"))
				require.Equal(t, c.class, r.own("Class"))
				require.Equal(t, c.code, l.sink.letters[0].ErrorCode)
				require.Equal(t, "gzip", l.upstream.attempts()[0].header.Get("Accept-Encoding"), "only what can be read is asked for")
			})
		})
	}
}

func TestAnAnswerThatIsNoGzipIsStillRetried(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		bad := step{status: 503, header: "Content-Encoding: gzip", body: "plain"}
		s := defaults("generic")
		s.policy.MaxAttempts = 2
		l := newLab(t, s, bad, bad)
		r := l.send(t.Context(), call{header: "Accept-Encoding: gzip"})
		require.Equal(t, "plain", r.body)
		require.Equal(t, "2", r.own("Attempts"))
	})
}

func TestOnlyTheProxySpeaksForItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 404, body: "no", header: "Ocr-Proxy-Attempts: 99|Ocr-Proxy-Class: success|ocr-proxy-other: x|Ocr-Proxyx: stays"})
		r := l.send(t.Context(), call{header: "Ocr-Proxy-Tenant: t1|Ocr-Proxy-Document-Id: d1|Ocr-Proxy-Priority: low"})
		require.Equal(t, []string{"1"}, r.header["Ocr-Proxy-Attempts"])
		require.Equal(t, []string{"permanent"}, r.header["Ocr-Proxy-Class"])
		require.NotContains(t, r.header, "Ocr-Proxy-Other")
		require.Equal(t, "stays", r.header.Get("Ocr-Proxyx"))
		for name := range l.upstream.attempts()[0].header {
			require.False(t, strings.HasPrefix(name, instructionPrefix), name)
		}
		require.Equal(t, "t1", l.sink.letters[0].Tenant)
		require.Equal(t, "d1", l.sink.letters[0].DocumentID)
	})
}

func TestWhatSDKsReadOfAFailure(t *testing.T) {
	t.Parallel()
	analyze := "/documentintelligence/documentModels/m:analyze"
	for _, c := range []struct {
		name, kind, target string
		step               step
		after, own, should string
	}{
		{"azure hides the wait of a permanent answer", "azure", analyze, step{status: 404, header: "Retry-After: 7"}, "", "7", ""},
		{"azure keeps it where trying later helps", "azure", analyze, step{status: 429, header: "Retry-After: 700"}, "700", "", ""},
		{"azure keeps a polling interval", "azure", analyze, step{status: 202, header: "Retry-After: 7"}, "7", "", ""},
		{"others keep it", "generic", "/ocr", step{status: 404, header: "Retry-After: 7"}, "7", "", "false"},
		{"a success may be retried by whoever likes", "generic", "/ocr", step{}, "", "", ""},
		{"OpenAI's SDK reads it", "openai", "/v1/responses", step{status: 400}, "", "", "false"},
		{"AWS's does not", "textract", "/", step{status: 400}, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, defaults(c.kind), c.step)
				r := l.send(t.Context(), call{target: c.target, body: "{}"})
				require.Equal(t, c.after, r.header.Get("Retry-After"))
				require.Equal(t, c.own, r.own("Retry-After"))
				require.Equal(t, c.should, r.header.Get("X-Should-Retry"))
			})
		})
	}
}

func TestPollingAddressesLeadBackThroughTheProxy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("azure")
		s.base = "/tenant"
		l := newLab(t, s, step{
			status: 202,
			header: "Operation-Location: http://provider/tenant/x/analyzeResults/1?api-version=2&b=%2F|Location: http://PROVIDER:80/tenant/y|Azure-AsyncOperation: http://elsewhere/z",
		}, step{body: `{"status":"running"}`, header: jsonType})
		r := l.send(t.Context(), call{target: "/documentModels/m:analyze"})
		require.Equal(t, "http://proxy/x/analyzeResults/1?api-version=2&b=%2F", r.header.Get("Operation-Location"))
		require.Equal(t, "http://proxy/y", r.header.Get("Location"))
		require.Equal(t, "http://elsewhere/z", r.header.Get("Azure-Asyncoperation"))
		l.send(t.Context(), call{method: http.MethodGet, target: strings.TrimPrefix(r.header.Get("Operation-Location"), "http://proxy")})
		require.Equal(t, "/tenant/x/analyzeResults/1?api-version=2&b=%2F", l.upstream.attempts()[1].target)
	})
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 307, header: "Location: http://elsewhere/steal"}, step{status: 302, header: "Location: /again"})
		r := l.send(t.Context(), call{body: "document"})
		require.Equal(t, 307, r.status)
		require.Equal(t, "http://elsewhere/steal", r.header.Get("Location"))
		require.Equal(t, "/again", l.send(t.Context(), call{}).header.Get("Location"))
		require.Len(t, l.upstream.attempts(), 2)
	})
}

func TestTheLetterIsDurableBeforeTheWorkerIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 400, body: "no"})
		l.sink.takes = 2 * time.Second
		r := l.send(t.Context(), call{body: "document"})
		require.Equal(t, 2*time.Second, r.took)
		require.Equal(t, "letter-1", r.own("Dead-Letter-Id"))
	})
}

func TestAStoreThatFailsDoesNotCostTheWorkerTheAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 400, body: "no"}, step{status: 400, body: "no"})
		l.sink.err = io.ErrShortWrite
		r := l.send(t.Context(), call{body: "document"})
		require.Equal(t, 400, r.status)
		require.Equal(t, "no", r.body)
		require.Empty(t, r.own("Dead-Letter-Id"))
		require.Equal(t, 1, l.logs.FilterMessageSnippet("dead letter not written").Len())

		l.sink.err, l.sink.takes = nil, time.Hour
		r = l.send(t.Context(), call{body: "document"})
		require.Equal(t, "no", r.body)
		require.Equal(t, buryTime, r.took, "a store that hangs is not waited for for ever")
	})
}

// A permanent answer between two failures is a sign of health.
func TestPermanentAnswersKeepTheCircuitClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.breaker.FailureThreshold, s.policy.MaxAttempts = 3, 1
		l := newLab(t, s)
		play := func(statuses ...int) breaker.State {
			for _, status := range statuses {
				l.upstream.script(step{status: status})
				l.send(t.Context(), call{})
			}
			return l.circuit().State
		}
		require.Equal(t, breaker.Closed, play(500, 400, 500, 400, 500, 422))
		require.Equal(t, breaker.Open, play(500, 401, 500, 403, 500))
	})
}
