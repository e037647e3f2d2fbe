package proxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
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
							w.Header().Set("Content-Length", fmt.Sprint(size))
						}
						w.Header().Set("Content-Type", "application/octet-stream")
						w.WriteHeader(http.StatusUnprocessableEntity)
						_ = http.NewResponseController(w).Flush()
						_, _ = io.WriteString(w, text)
					}})
					r := l.send(t.Context(), call{body: "document"})
					require.NoError(t, r.err)
					require.Equal(t, 422, r.status)
					require.True(t, text == r.body, "the same bytes")
					if !chunked {
						require.Equal(t, fmt.Sprint(size), r.header.Get("Content-Length"))
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

func TestTruncatedAnswers(t *testing.T) {
	t.Parallel()
	judged := call{target: ocrPath, body: "{}"}
	for _, c := range []struct {
		name     string
		kind     string
		call     call
		steps    []step
		status   int
		attempts string
		buried   int
	}{
		{"a judged one is tried again", "mistral", judged, []step{{body: `{"pages":`, missing: 100, header: jsonType}, {body: `{}`, header: jsonType}}, 200, "2", 0},
		{"a judged one to the end", "mistral", judged, []step{{body: `{"pages":`, missing: 100, header: jsonType}, {missing: 7}}, 502, "2", 1},
		{"one without a first byte is tried again", "generic", call{}, []step{{missing: 100}, {body: "text"}}, 200, "2", 0},
		{"one without a first byte to the end", "generic", call{}, []step{{missing: 100}, {missing: 100}}, 502, "2", 1},
		{"an error is tried again", "generic", call{}, []step{{status: 400, body: "half", missing: 100}, {body: "text"}}, 200, "2", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := defaults(c.kind)
				s.policy.MaxAttempts = 2
				l := newLab(t, s, c.steps...)
				r := l.send(t.Context(), c.call)
				require.NoError(t, r.err)
				require.Equal(t, c.status, r.status)
				require.Equal(t, c.attempts, r.own("Attempts"))
				require.Equal(t, c.buried, l.sink.count())
				require.Equal(t, c.buried == 1, r.own("Ambiguous") == "true", "a half answer was paid for")
				if c.buried == 1 {
					require.Equal(t, "truncated", l.sink.letters[0].ErrorCode)
				}
				l.quiet()
			})
		})
	}
}

func TestAStreamThatBreaksOffAbortsTheWorkerAndIsBuried(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		half := noise(200 << 10)
		l := newLab(t, defaults("generic"), step{body: half, missing: 100})
		r := l.send(t.Context(), call{body: "document"})
		require.Error(t, r.err, "never a complete-looking answer")
		require.Equal(t, 200, r.status)
		require.True(t, strings.HasPrefix(half, r.body), "and no error text in it")
		l.quiet()
		require.Equal(t, 1, l.sink.count(), "the document must not be lost")
		require.Equal(t, "document", l.sink.bodies[0])
		require.Equal(t, "exhausted", l.sink.letters[0].Outcome)
		require.True(t, l.sink.letters[0].Ambiguous)
		require.Equal(t, 1, l.requests(Exhausted))
		require.Equal(t, 1, l.circuit().Failures)
		require.Equal(t, 1, l.attempts("transient"))
		require.Zero(t, l.attempts("success"))
	})
}

func TestAStreamThatStallsEndsWithTheBudget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{handle: func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "beginning")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}})
		r := l.send(t.Context(), call{body: "document"})
		require.Error(t, r.err)
		require.Equal(t, 90*time.Second, r.took, "the attempt's own timeout does not bind a stream that has begun")
		l.quiet()
		require.Equal(t, 1, l.sink.count())
		require.Equal(t, "timeout", l.sink.letters[0].ErrorCode)
	})
}

func TestTheHeadOfAnEventStreamIsNotHeld(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("mistral"), step{handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			w.WriteHeader(http.StatusOK)
			for range 3 {
				_ = http.NewResponseController(w).Flush()
				time.Sleep(20 * time.Second)
				_, _ = io.WriteString(w, "data: x\n\n")
			}
		}})
		start := time.Now()
		resp, err := l.worker.RoundTrip(call{target: ocrPath}.request(t.Context(), t, "http://proxy"))
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		require.Zero(t, time.Since(start))
		event := make([]byte, 9)
		for i := range 3 {
			_, err = io.ReadFull(resp.Body, event)
			require.NoError(t, err)
			require.Equal(t, time.Duration(i+1)*20*time.Second, time.Since(start), "each event as it comes")
		}
		_, err = resp.Body.Read(event)
		require.ErrorIs(t, err, io.EOF)
		l.quiet()
		require.Equal(t, 1, l.attempts("success"))
		require.Equal(t, 1, l.requests(Success))
	})
}

func TestAnswersWithoutABody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, method string
		step         step
	}{
		{"HEAD", http.MethodHead, step{header: "Content-Length: 1234|" + jsonType}},
		{"HEAD of an error", http.MethodHead, step{status: 404, header: "Content-Length: 1234"}},
		{"204", http.MethodGet, step{status: 204}},
		{"304", http.MethodGet, step{status: 304, header: "Etag: \"x\""}},
		{"an empty 200", http.MethodPost, step{header: jsonType}},
	} {
		for _, kind := range []string{"generic", "mistral"} {
			t.Run(c.name+" of kind "+kind, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					l := newLab(t, defaults(kind), c.step)
					r := l.send(t.Context(), call{method: c.method, target: ocrPath})
					require.NoError(t, r.err)
					require.Equal(t, max(200, c.step.status), r.status)
					require.Empty(t, r.body)
					for name, values := range headerOf(c.step.header) {
						require.Equal(t, values, r.header[name])
					}
					require.Equal(t, "1", r.own("Attempts"))
					l.quiet()
				})
			})
		}
	}
}

func TestANotModifiedWithALengthIsNotTruncated(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("mistral"), step{handle: func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 304 Not Modified\r\nContent-Length: 1234\r\nEtag: \"x\"\r\n\r\n")
				_ = conn.Close()
			}
		}})
		r := l.send(t.Context(), call{method: http.MethodGet, target: ocrPath})
		require.NoError(t, r.err)
		require.Equal(t, 304, r.status)
		require.Equal(t, "1", r.own("Attempts"))
	})
}

func TestTrailersAndInformationalAnswers(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"generic", "mistral"} { // one streams, one is read to its end
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, defaults(kind), step{handle: func(w http.ResponseWriter, _ *http.Request) {
					h := w.Header()
					h.Set("Link", "</style>; rel=preload")
					h.Set("Connection", "X-Hop")
					h.Set("X-Hop", "leaks")
					w.WriteHeader(http.StatusEarlyHints)
					h.Del("Link")
					h.Set("Trailer", "X-Checksum")
					h.Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, `{"a":1}`)
					h.Set("X-Checksum", "42")
				}})
				informational := 0
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
					informational++
					return nil
				}})
				r := l.send(ctx, call{target: ocrPath})
				require.NoError(t, r.err)
				require.JSONEq(t, `{"a":1}`, r.body)
				require.Equal(t, "42", r.trailer.Get("X-Checksum"))
				require.Zero(t, informational, "what an attempt announces is not final: another may follow")
				require.Empty(t, r.header.Get("X-Hop"))
				require.Empty(t, r.header.Get("Link"))
			})
		})
	}
}

func TestOnlyTheProxySpeaksForItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 404, body: "no", header: "Ocr-Proxy-Attempts: 99|Ocr-Proxy-Class: success|ocr-proxy-other: x|Ocr-Proxyx: stays"})
		r := l.send(t.Context(), call{header: "Ocr-Proxy-Tenant: t1|Ocr-Proxy-Document-Id: d1|Ocr-Proxy-Priority: low|Ocr-Proxy-Unknown: x"})
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

func TestJudgedAnswers(t *testing.T) {
	t.Parallel()
	poll := call{method: http.MethodGet, target: "/documentintelligence/documentModels/m/analyzeResults/1"}
	failed := `{"status":"failed","error":{"code":"InternalServerError","innererror":{"code":"Deep"}}}`
	for _, c := range []struct {
		name    string
		kind    string
		call    call
		steps   []step
		outcome string
		class   string
		reason  string
		code    string
	}{
		{"JSON", "mistral", call{target: ocrPath}, []step{{body: `{"pages":[]}`, header: jsonType}}, "success", "success", "", ""},
		{"labelled JSON and none", "mistral", call{target: ocrPath}, []step{{body: "<html>", header: jsonType}}, "permanent", "permanent", "malformed_output", "malformed_output"},
		{"JSON that ends too soon", "mistral", call{target: ocrPath}, []step{{body: `{"pages":[`, header: jsonType}}, "permanent", "permanent", "malformed_output", "malformed_output"},
		{"JSON of AWS that is none", "textract", call{target: "/", header: "X-Amz-Target: Textract.DetectDocumentText"}, []step{{body: "{", header: "Content-Type: application/x-amz-json-1.1"}}, "permanent", "permanent", "malformed_output", "malformed_output"},
		{"not labelled and no JSON", "mistral", call{target: ocrPath}, []step{{handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "plain")
		}}}, "success", "success", "", ""},
		{"labelled text", "mistral", call{target: ocrPath}, []step{{body: "{", header: "Content-Type: text/plain"}}, "success", "success", "", ""},
		{"zipped JSON is looked into", "azure", poll, []step{{body: zipped(t, failed), header: jsonType + "|Content-Encoding: gzip"}}, "permanent", "permanent", "", "Deep"},
		{"an encoding that cannot be undone is the worker's to judge", "mistral", call{target: ocrPath}, []step{{body: "\x01", header: jsonType + "|Content-Encoding: br"}}, "success", "success", "", ""},
		{"a job that failed", "azure", poll, []step{{body: failed, header: jsonType}}, "permanent", "permanent", "", "Deep"},
		{"a job that runs, with a polling interval", "azure", poll, []step{{body: `{"status":"running"}`, header: jsonType + "|Retry-After: 2"}}, "success", "success", "", ""},
		{
			"an engine that timed out in a 200", "ocrspace", call{target: "/parse/image"},
			[]step{{body: `{"IsErroredOnProcessing":true,"ErrorMessage":["Timed out waiting for results"]}`, header: jsonType}, {body: `{"OCRExitCode":1}`, header: jsonType}},
			"success", "success", "", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, defaults(c.kind), c.steps...)
				c.call.header += "|Accept-Encoding: gzip"
				r := l.send(t.Context(), c.call)
				require.NoError(t, r.err)
				require.Equal(t, 200, r.status)
				last := c.steps[len(c.steps)-1]
				if last.handle == nil {
					require.Equal(t, last.body, r.body, "passed on as it came")
				}
				require.Equal(t, headerOf(last.header).Get("Retry-After"), r.header.Get("Retry-After"))
				require.Equal(t, c.outcome, r.own("Outcome"))
				require.Equal(t, c.class, r.own("Class"))
				require.Equal(t, c.reason, r.own("Reason"))
				require.Len(t, l.upstream.attempts(), len(c.steps))
				require.Zero(t, l.circuit().Failures, "the provider is well")
				if c.outcome != "success" {
					require.Equal(t, 1, l.sink.count())
					require.Equal(t, c.code, l.sink.letters[0].ErrorCode)
					require.Equal(t, 200, *l.sink.letters[0].HTTPStatus)
				} else {
					require.Zero(t, l.sink.count())
				}
				l.quiet()
			})
		})
	}
}

func TestALargeJudgedAnswerIsSpilledAndPassedOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		text := `{"text":"` + strings.Repeat("a page. ", 400<<10) + `"}`
		l := newLab(t, defaults("mistral"), step{body: text, header: jsonType})
		r := l.send(t.Context(), call{target: ocrPath, body: "{}"})
		require.True(t, text == r.body)
		l.quiet()
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
