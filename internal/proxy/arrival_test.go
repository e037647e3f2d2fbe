package proxy

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/calls"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
)

// arriving is a call whose body is sent by hand.
type arriving struct {
	l    *lab
	conn net.Conn
	rest string
	done chan reply
}

// begin sends the head of a call, and reads the answer to it in the background.
func (l *lab) begin(target, header, body string) *arriving {
	l.t.Helper()
	conn, err := l.network.DialContext(l.t.Context(), "tcp", listener)
	require.NoError(l.t, err)
	l.t.Cleanup(func() { time.Sleep(time.Second) }) // a server closes a connection with a delay where not all was read
	a := &arriving{l: l, conn: conn, rest: body, done: make(chan reply, 1)}
	if header != "" {
		header = strings.ReplaceAll(header, "|", "\r\n") + "\r\n"
	}
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: proxy\r\nContent-Length: %d\r\n%s\r\n", target, len(body), header)
	require.NoError(l.t, err)
	go func() { a.done <- answerOn(conn) }()
	return a
}

// answerOn reads one answer off a connection.
func answerOn(conn net.Conn) reply {
	start := time.Now()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(text), err: err, took: time.Since(start)}
}

// send sends that much more of the body, and waits until nobody has anything to do with it.
func (a *arriving) send(n int) {
	a.l.t.Helper()
	n = min(n, len(a.rest))
	_, err := io.WriteString(a.conn, a.rest[:n])
	require.NoError(a.l.t, err)
	a.rest = a.rest[n:]
	synctest.Wait()
}

// end sends what is left, and returns the answer.
func (a *arriving) end() reply {
	a.l.t.Helper()
	a.send(len(a.rest))
	r := <-a.done
	require.NoError(a.l.t, a.conn.Close())
	return r
}

// followed is a setup whose calls cannot be told from others, so that a body of that size may go out as it comes.
func followed() (setup, string) { return defaults("generic"), noise(3 << 20) }

func TestTheFirstAttemptFollowsTheUpload(t *testing.T) {
	for _, inMemory := range []bool{true, false} {
		t.Run(fmt.Sprintf("in memory %t", inMemory), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, document := followed()
				if inMemory {
					s.bodies.MemoryPerBody = 4 << 20
				}
				l := newLab(t, s, step{status: 503}, step{})
				var heard atomic.Int32
				l.upstream.early = func(http.ResponseWriter, *http.Request) bool { heard.Add(1); return false }
				up := l.begin("/ocr", "", document)
				up.send(1 << 20)
				require.Equal(t, int32(1), heard.Load(), "the provider has heard of it")
				time.Sleep(30 * time.Second) // three times what an attempt may take
				up.send(1 << 20)
				time.Sleep(30 * time.Second)
				r := up.end()
				require.Equal(t, http.StatusOK, r.status)
				require.Equal(t, "2", r.own("Attempts"))
				all := l.upstream.attempts()
				require.Len(t, all, 2)
				for i, a := range all {
					require.Equal(t, sum(document), sum(a.body), "attempt %d got what the worker sent", i+1)
					require.Equal(t, int64(len(document)), a.length)
				}
				require.Equal(t, 1, l.attempts("transient"))
				l.quiet()
			})
		})
	}
}

func TestWhatMustHaveTheWholeBodyFirst(t *testing.T) {
	signer := newSigner(t)
	for _, c := range []struct {
		name           string
		change         func(s *setup)
		target, header string
		short          int
	}{
		{name: "small body", short: 3<<20 - 64<<10},
		{name: "signature", change: func(s *setup) { s.account = func(a *Account) { a.Credential = signer } }},
		{name: "token in the header", change: func(s *setup) {
			s.account = func(a *Account) { a.Idempotency = Idempotency{Header: "Idempotency-Key"} }
		}},
		{name: "job start", change: func(s *setup) { s.kind = "textract" }, target: "/", header: "X-Amz-Target: Textract.StartDocumentTextDetection"},
		{name: "rate", change: func(s *setup) { s.queue.Rate = 1000 }},
		{name: "limit of calls in flight", change: func(s *setup) { s.queue.MaxInFlight = 100 }},
		{name: "document that is looked into", change: func(s *setup) {
			s.kind, s.account = "mistral", func(a *Account) { a.Precheck = &Precheck{} }
		}, target: ocrPath},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, document := followed()
				document = document[c.short:]
				if c.change != nil {
					c.change(&s)
				}
				l := newLab(t, s, step{})
				var heard atomic.Bool
				l.upstream.early = func(http.ResponseWriter, *http.Request) bool { heard.Store(true); return false }
				up := l.begin(cmp.Or(c.target, "/ocr"), c.header, document)
				up.send(len(document) - 1)
				require.False(t, heard.Load(), "the provider must not hear of it yet")
				require.Equal(t, http.StatusOK, up.end().status)
				require.True(t, heard.Load())
			})
		})
	}
}

// newSigner signs with keys of the environment. It is made outside of a bubble, because it reads files.
func newSigner(t *testing.T) *credential.Credential {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	signer, err := credential.SigV4(t.Context(), credential.SigV4Options{Region: "us-east-1", Service: "textract"})
	require.NoError(t, err)
	return signer
}

func TestNobodyIsHeldUpByASlowUpload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, document := followed()
		s.queue.Adaptive = true
		l := newLab(t, s, step{status: 429}, step{}, step{}, step{})
		require.Equal(t, http.StatusOK, l.send(t.Context(), call{body: "document"}).status) // from now on there is a rate
		slow := l.begin("/ocr", "", document)
		slow.send(1 << 20)
		require.Equal(t, http.StatusOK, l.send(t.Context(), call{body: "document"}).status)
		require.Len(t, l.upstream.attempts(), 3)
		require.Equal(t, http.StatusOK, slow.end().status)
	})
}

func TestAnAnswerBeforeTheEndOfTheUpload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, document := followed()
		l := newLab(t, s, step{})
		var calls atomic.Int32
		l.upstream.early = func(w http.ResponseWriter, _ *http.Request) bool {
			if calls.Add(1) > 1 {
				return false
			}
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		up := l.begin("/ocr", "", document)
		up.send(1 << 20)
		require.Zero(t, l.upstream.attempts(), "the next attempt needs the whole body")
		r := up.end()
		require.Equal(t, http.StatusOK, r.status)
		require.Equal(t, "2", r.own("Attempts"))
		require.Equal(t, sum(document), sum(l.upstream.attempts()[0].body), "what was not sent first is sent then")
		l.quiet()
	})
}

func TestAWorkerThatHangsUpWhileItsBodyIsFollowed(t *testing.T) {
	for _, kept := range []bool{false, true} { // a call that is paid for goes on without its worker, but not without its document
		t.Run(fmt.Sprintf("paid for %t", kept), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, document := followed()
				if kept {
					s.kind = "mistral"
					s.account = func(a *Account) { a.Calls = calls.New(calls.Limits{TTL: time.Minute, MaxBytes: 1 << 20}) }
				}
				l := newLab(t, s)
				start := time.Now()
				up := l.begin("/ocr", "", document)
				up.send(1 << 20)
				time.Sleep(2 * time.Second)
				require.NoError(t, up.conn.Close())
				<-up.done
				l.leftAlone(start, 2*time.Second, 0)
			})
		})
	}
}

func TestAWorkerThatStallsWhileItsBodyIsFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, document := followed()
		l := newLab(t, s)
		up := l.begin("/ocr", "", document)
		up.send(1 << 20)
		r := <-up.done
		require.NoError(t, up.conn.Close())
		require.Equal(t, http.StatusRequestTimeout, r.status)
		require.Equal(t, "body_timeout", r.own("Reason"))
		require.LessOrEqual(t, r.took, s.policy.Total)
		require.Zero(t, l.sink.count())
		require.Zero(t, l.circuit().Failures, "that is not the provider's")
		l.quiet()
	})
}

func TestAProviderThatTakesNothingWhileTheBodyArrives(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, document := followed()
		l := newLab(t, s, step{})
		var calls atomic.Int32
		over := make(chan struct{})
		l.upstream.early = func(http.ResponseWriter, *http.Request) bool {
			if calls.Add(1) > 1 {
				return false
			}
			<-over
			return true
		}
		start := time.Now()
		up := l.begin("/ocr", "", document)
		r := up.end()
		require.Equal(t, http.StatusOK, r.status)
		require.Equal(t, "2", r.own("Attempts"))
		require.Equal(t, s.policy.AttemptTimeout+time.Second, time.Since(start), "the attempt's own time and the wait after it")
		close(over)
		l.quiet()
	})
}

func TestAProviderThatTakesNothingUntilTheTimeIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, document := followed()
		s.policy.AttemptTimeout = time.Hour
		l := newLab(t, s)
		over := make(chan struct{})
		l.upstream.early = func(http.ResponseWriter, *http.Request) bool { <-over; return true }
		r := l.begin("/ocr", "", document).end()
		close(over)
		require.Equal(t, http.StatusGatewayTimeout, r.status, "the worker has done nothing wrong")
		require.Equal(t, s.policy.Total, r.took)
		require.Equal(t, 1, l.sink.count())
		require.Equal(t, sum(document), sum(l.sink.bodies[0]))
		l.quiet()
	})
}

func TestABodyThatCannotBeKeptIsNotSentEither(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, document := followed()
		s.bodies.Dir = filepath.Join(t.TempDir(), "bodies")
		l := newLab(t, s)
		require.NoError(t, os.Remove(s.bodies.Dir))
		require.NoError(t, os.WriteFile(s.bodies.Dir, nil, 0o600))
		up := l.begin("/ocr", "", document)
		go func() { _, _ = io.WriteString(up.conn, up.rest) }() // nobody takes all of it
		r := <-up.done
		require.NoError(t, up.conn.Close())
		require.Equal(t, http.StatusServiceUnavailable, r.status)
		require.Equal(t, "body_not_stored", r.own("Reason"))
		require.Equal(t, "1", r.header.Get("Retry-After"))
		require.Zero(t, l.circuit().Failures)
		require.Equal(t, 1, l.requests(Rejected))
		l.quiet()
	})
}

func TestALetterHoldsTheBodyThatWasFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, document := followed()
		l := newLab(t, s, step{status: 400, body: "no"})
		r := l.begin("/ocr", "", document).end()
		require.Equal(t, http.StatusBadRequest, r.status)
		require.Equal(t, 1, l.sink.count())
		require.Equal(t, sum(document), sum(l.sink.bodies[0]))
		l.quiet()
	})
}

func TestEqualCallsWhoseBodiesAreFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, document := followed()
		s.kind = "mistral"
		s.account = func(a *Account) { a.Calls = calls.New(calls.Limits{TTL: time.Minute, MaxBytes: 1 << 20}) }
		l := newLab(t, s, step{after: time.Second, header: "Content-Type: application/json", body: `{"pages": []}`})
		mark := "Ocr-Proxy-Join: true|Ocr-Proxy-Document-Id: lease-7|Content-Type: application/json"
		first, second := l.begin(ocrPath, mark, document), l.begin(ocrPath, mark, document)
		first.send(1 << 20)
		second.send(2 << 20)
		go func() { _, _ = io.WriteString(second.conn, second.rest) }()
		one, two := first.end(), <-second.done
		require.NoError(t, second.conn.Close())
		require.Equal(t, http.StatusOK, one.status)
		require.Equal(t, one.body, two.body)
		require.Len(t, l.upstream.attempts(), 1, "it is paid for once")
	})
}

func sum(body string) [sha256.Size]byte { return sha256.Sum256([]byte(body)) }
