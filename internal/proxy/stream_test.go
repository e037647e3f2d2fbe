package proxy

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
