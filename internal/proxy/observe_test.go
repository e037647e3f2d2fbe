package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// shadow is an account that observes, between real sockets.
type shadow struct {
	*lab
	*edge
}

func newShadow(t *testing.T, s setup, upstream http.HandlerFunc) *shadow {
	t.Helper()
	server := listening(t, false, upstream)
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	transport := NewTransport(nil)
	o := &shadow{lab: &lab{t: t}, edge: &edge{t: t}}
	a, sink, logs, registry := s.build(t, u, transport)
	a.GRPCTransport = NewGRPCTransport(nil)
	a.Observe = NewObserver(a.Metrics.metrics, a.Name)
	o.lab.account, o.logs, o.registry, o.edge.account, o.edge.sink = a, logs, registry, a, sink
	front := httptest.NewUnstartedServer(a)
	front.Config.Protocols, front.Config.ErrorLog = Protocols(), log.New(panics{t}, "", 0)
	front.Start()
	o.url = front.URL
	own := &http.Transport{DisableCompression: true}
	o.edge.worker = &http.Client{Transport: own}
	t.Cleanup(func() {
		o.settled()
		require.Zero(t, sink.count(), "no dead letter")
		own.CloseIdleConnections()
		front.Close()
		transport.CloseIdleConnections()
		a.GRPCTransport.(*http.Transport).CloseIdleConnections()
		require.Zero(t, o.figure("body_memory_bytes"))
		require.Zero(t, o.figure("body_spilled_bytes"))
	})
	return o
}

// settled waits until everything has been judged.
func (o *shadow) settled() {
	o.lab.t.Helper()
	require.Eventually(o.lab.t, func() bool { return o.lab.account.Purse.InProgress() == 0 }, 20*time.Second, time.Millisecond)
}

// told requires that the calls so far would have had those things done, with repetitions, and that nobody was told so.
func (o *shadow) told(want ...string) {
	o.lab.t.Helper()
	o.settled()
	var got []string
	for _, action := range [...]string{
		wouldRefuse, wouldTurnAway, wouldHold, wouldRetry, wouldPause, wouldTrip, wouldReview, wouldBury, wouldPass, unobserved,
	} {
		got = append(got, slices.Repeat([]string{action}, o.figure("observed_total", "action", action))...)
	}
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(o.lab.t, want, got)
}

// line is the last line of a request.
func (o *shadow) line() map[string]any {
	o.lab.t.Helper()
	o.settled()
	all := o.lab.logs.FilterMessage("request").All()
	require.NotEmpty(o.lab.t, all)
	return all[len(all)-1].ContextMap()
}

// ask makes a call and requires that nothing in the answer is the proxy's.
func (o *shadow) ask(c call) (*http.Response, string) {
	o.lab.t.Helper()
	resp, body := o.do(c.request(o.lab.t.Context(), o.lab.t, o.url))
	for name := range resp.Header {
		require.False(o.lab.t, strings.HasPrefix(name, instructionPrefix), name)
	}
	return resp, body
}

// answering is a provider that gives one answer after the other, the last one for ever.
func answering(steps ...step) http.HandlerFunc {
	var n atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		now := steps[min(int(n.Add(1)), len(steps))-1]
		maps.Copy(w.Header(), headerOf(now.header))
		w.WriteHeader(max(now.status, http.StatusOK))
		_, _ = io.WriteString(w, now.body)
	}
}

func TestObservedBytesAreTheSameBothWays(t *testing.T) {
	t.Parallel()
	type arrived struct {
		header   http.Header
		target   string
		length   int64
		encoding []string
		body     [32]byte
	}
	var seen []arrived
	document := noise(3 << 20)
	upstream := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, arrived{r.Header.Clone(), r.RequestURI, r.ContentLength, r.TransferEncoding, sha256.Sum256(body)})
		w.Header().Set("X-Own", "1")
		w.Header()["Date"] = []string{"Tue, 01 Dec 2026 00:00:00 GMT"}
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("Content-Encoding", "br")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(body)
		w.Header().Set("X-Sum", "7")
	}
	direct := provide(t, upstream)
	for _, kind := range []string{"generic", "textract"} {
		for _, chunked := range []bool{false, true} {
			s := checked(kind)
			o := newShadow(t, s, upstream)
			var heads []http.Header
			seen = nil
			for _, base := range []string{direct.URL, o.url} {
				var body io.Reader = strings.NewReader(document)
				if chunked {
					body = struct{ io.Reader }{body}
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, base+"/a//b%2Fc?x=1;y", body)
				require.NoError(t, err)
				req.Header = headerOf("X-Forwarded-For: 10.0.0.1|Forwarded: for=x|Accept-Encoding: br, zstd|Authorization: Bearer k|User-Agent: w/1|X-Amz-Target: Textract.DetectDocumentText|Content-Type: image/png")
				if base == o.url {
					req.Header.Set("Ocr-Proxy-Document-Id", "d-1")
				}
				resp, got := o.do(req)
				require.Equal(t, sha256.Sum256([]byte(document)), sha256.Sum256([]byte(got)))
				require.Equal(t, http.StatusAccepted, resp.StatusCode)
				require.Equal(t, "7", resp.Trailer.Get("X-Sum"))
				heads = append(heads, resp.Header)
			}
			require.Equal(t, heads[0], heads[1])
			require.Len(t, seen, 2)
			require.Equal(t, seen[0], seen[1], "%s %v", kind, chunked)
			require.Equal(t, "d-1", o.line()["document_id"])
			require.EqualValues(t, len(document), o.line()["body_bytes"])
		}
	}
}

func TestTheFirstByteOfAnObservedAnswerComesAtOnce(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"of known length": "Content-Type: application/x-amz-json-1.1|Content-Length: 2", "chunked": "Content-Type: application/x-amz-json-1.1", "events": "Content-Type: text/event-stream",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			o := newShadow(t, reviewing("textract"), func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				maps.Copy(w.Header(), headerOf(header))
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				<-release
				_, _ = io.WriteString(w, "{")
				_ = http.NewResponseController(w).Flush()
				<-release
				_, _ = io.WriteString(w, "}")
			})
			resp, err := o.edge.worker.Do(detect("QQ==").request(t.Context(), t, o.url))
			require.NoError(t, err, "the head has come, the body has not begun")
			defer func() { _ = resp.Body.Close() }()
			first := make([]byte, 1)
			release <- struct{}{}
			_, err = io.ReadFull(resp.Body, first)
			require.NoError(t, err)
			release <- struct{}{}
			rest, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "{}", string(first)+string(rest))
			o.told(wouldPass)
		})
	}
}

func TestAnObservedUploadGoesUpWhileItArrives(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	o := newShadow(t, checked("textract"), func(w http.ResponseWriter, r *http.Request) {
		first := make([]byte, 10)
		_, _ = io.ReadFull(r.Body, first)
		close(begun)
		rest, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s%s", first, rest)
	})
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.url+"/", in)
	require.NoError(t, err)
	req.Header = headerOf(detectText)
	go func() {
		_, _ = out.Write([]byte("0123456789"))
		<-begun
		_, _ = out.Write([]byte("abc"))
		_ = out.Close()
	}()
	_, body := o.do(req)
	require.Equal(t, "0123456789abc", body)
}

func TestAnObservedProviderThatBreaksOff(t *testing.T) {
	t.Parallel()
	var midway atomic.Bool
	o := newShadow(t, reviewing("textract"), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if midway.Load() {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	})
	resp, body := o.ask(detect("QQ=="))
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Contains(t, body, "__type", "in the provider's shape")
	o.told(wouldRetry)
	require.NotContains(t, o.line(), "would_outcome", "nobody knows what would have come of the second attempt")

	midway.Store(true)
	resp, err := o.edge.worker.Do(detect("QQ==").request(t.Context(), t, o.url))
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_ = resp.Body.Close()
	o.told(wouldRetry, wouldBury)
	require.Equal(t, 2, o.figure("attempts_total", "class", "transient"))
	require.Equal(t, "exhausted", o.line()["outcome"])
}

func TestAnObservedFailureIsTheWorkersToRepeat(t *testing.T) {
	t.Parallel()
	o := newShadow(t, hasty(), answering(step{status: 503, body: "busy"}, step{body: "fine"}))
	resp, body := o.ask(call{body: "document"})
	require.Equal(t, []any{503, "busy"}, []any{resp.StatusCode, body})
	resp, body = o.ask(call{body: "document"})
	require.Equal(t, []any{200, "fine"}, []any{resp.StatusCode, body})
	o.told(wouldRetry, wouldPass)
	require.Equal(t, []int{1, 1, 1, 1}, []int{o.requests(Exhausted), o.requests(Success), o.attempts("transient"), o.attempts("success")})
	require.Equal(t, "success", o.line()["would_outcome"])
}

func TestAnObservedThrottlePausesNobody(t *testing.T) {
	t.Parallel()
	o := newShadow(t, learning("generic"), answering(step{status: 429, header: "Retry-After: 30"}, step{}))
	o.ask(call{body: "a"})
	o.told(wouldPause, wouldRetry)
	o.ask(call{body: "b"})
	o.told(wouldPause, wouldRetry, wouldPass)
	for _, scope := range o.lab.account.Queues.Scopes() {
		require.Zero(t, o.lab.account.Queues.For(scope).Snapshot().Paused)
	}
}

func TestAnObservedHopelessDocumentIsSent(t *testing.T) {
	t.Parallel()
	document := `{"Document":{"Bytes":"` + b64(scan(t, false)) + `"}}`
	o := newShadow(t, checked("textract"), answering(step{header: amzJSON, body: sure}, step{header: amzJSON, body: sure}, step{status: 503}))
	resp, body := o.ask(call{target: "/", header: detectText, body: document})
	require.Equal(t, []any{200, sure}, []any{resp.StatusCode, body})
	o.told(wouldRefuse, wouldBury)
	line := o.line()
	require.Equal(t, []any{"success", "rejected", "precheck_blank", true}, []any{line["outcome"], line["would_outcome"], line["would_reason"], line["observed"]})
	require.Equal(t, []any{wouldRefuse, wouldBury}, line["would"])
	o.ask(call{target: "/", header: detectText, body: `{"Document":{"Bytes":"` + b64(scan(t, true)) + `"}}`})
	o.told(wouldRefuse, wouldBury, wouldPass)
	o.ask(call{target: "/", header: detectText, body: document})
	o.told(wouldRefuse, wouldBury, wouldRefuse, wouldBury, wouldPass)
	require.Zero(t, o.lab.circuit().Failures, "the provider would not have been asked")
}

func TestAnObservedUnsureAnswerIsCounted(t *testing.T) {
	t.Parallel()
	o := newShadow(t, reviewing("textract"), answering(step{header: amzJSON, body: unsure}))
	_, body := o.ask(detect("QQ=="))
	require.Equal(t, unsure, body)
	o.told(wouldReview, wouldBury)
	require.Equal(t, []int{1, 1, 1}, []int{o.requests(Review), o.figure("confidence"), o.figure("soft_failures_total")})
	require.Equal(t, "low_confidence", o.line()["reason"])
}

// The circuit is a real one: it opens over what it sees, sees nothing while it is open, and closes over the first success after its pause.
func TestTheCircuitIsWhatItWouldBe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.breaker.FailureThreshold = 2
		s.account = func(a *Account) { a.Observe = NewObserver(a.Metrics.metrics, a.Name) }
		l := newLab(t, s, append(every(4, step{status: 503}), step{}, step{status: 503}, step{})...)
		send := func(status int, state breaker.State, action string, n int) {
			t.Helper()
			require.Equal(t, status, l.send(t.Context(), call{body: "d"}).status)
			l.quiet()
			require.Equal(t, state, l.circuit().State)
			require.Equal(t, n, l.figure("observed_total", "action", action))
		}
		send(503, breaker.Closed, wouldTrip, 0)
		send(503, breaker.Open, wouldTrip, 1)
		send(503, breaker.Open, wouldTurnAway, 1)
		time.Sleep(time.Minute)
		send(503, breaker.Open, wouldTrip, 1) // a probe that failed is no news
		send(200, breaker.Open, wouldTurnAway, 2)
		require.Equal(t, 2, l.figure("observed_total", "action", wouldBury))
		time.Sleep(time.Minute)
		l.upstream.script()
		send(503, breaker.Open, wouldTrip, 1)
		time.Sleep(time.Minute)
		send(200, breaker.Closed, wouldPass, 1)
		require.Zero(t, l.sink.count())
		require.Zero(t, l.figure("breaker_rejected_total"), "nobody was turned away")
	})
}

// A call that is not passed on after all finds nothing out, and leaves finding out to the next one.
func TestAnObservedProbeThatIsNotMade(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.breaker.FailureThreshold = 1
		s.account = func(a *Account) { a.Observe = NewObserver(a.Metrics.metrics, a.Name) }
		l := newLab(t, s, step{status: 503}, step{})
		require.Equal(t, 503, l.send(t.Context(), call{body: "d"}).status)
		l.quiet()
		require.Equal(t, breaker.Open, l.circuit().State)
		time.Sleep(time.Minute)
		require.Equal(t, 502, l.send(t.Context(), call{header: "Connection: Upgrade|Upgrade: \u00e9", body: "d"}).status)
		require.Equal(t, 200, l.send(t.Context(), call{body: "d"}).status)
		l.quiet()
		require.Equal(t, breaker.Closed, l.circuit().State)
	})
}

// What is said of a call must not end the process, whatever an answer does to whoever reads it: the connection's own guard is gone by then.
func TestAPanicWhileLookingEndsNoProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("textract")
		s.account = func(a *Account) {
			a.Observe = NewObserver(a.Metrics.metrics, a.Name)
			bad := *a.Provider
			bad.Judge = func(string, jsonstream.Found) (classify.Fault, bool) { panic("no such page") }
			a.Provider = &bad
		}
		l := newLab(t, s, step{header: amzJSON, body: `{}`}, step{header: amzJSON, body: `{}`})
		for range 2 {
			require.Equal(t, 200, l.send(t.Context(), detect("QQ==")).status)
			synctest.Wait()
		}
		require.Equal(t, []int{2, 2, 0}, []int{l.requests(Success), l.figure("observed_total", "action", unobserved), l.figure("observed_total", "action", wouldBury)})
		require.Zero(t, l.account.Purse.InProgress(), "a drain need not wait")
		require.Empty(t, l.account.Observe.waiting, "the next may look")
	})
}

func TestAnObservedCallThatWouldHaveWaited(t *testing.T) {
	t.Parallel()
	s := hasty()
	s.hold, s.breaker.FailureThreshold = true, 1
	o := newShadow(t, s, answering(step{status: 503}, step{}))
	o.ask(call{body: "a"})
	o.told(wouldRetry, wouldTrip)
	o.ask(call{body: "b"})
	o.told(wouldRetry, wouldTrip, wouldHold)
	require.NotContains(t, o.line(), "would_outcome")
}

func TestAnObservedWorkerThatHangsUp(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	arrived := make(chan struct{})
	o := newShadow(t, hasty(), func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := o.edge.worker.Do(call{body: "document"}.request(ctx, t, o.url))
	require.ErrorIs(t, err, context.Canceled)
	<-gone
	o.told(wouldPass)
	require.Equal(t, 1, o.requests(ClientGone))
	require.Zero(t, o.lab.circuit().Failures)
}

// A worker that does not send what it has announced says nothing about the provider.
func TestAnObservedUploadThatBreaksOff(t *testing.T) {
	t.Parallel()
	o := newShadow(t, checked("textract"), answering(step{}))
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.url+"/", in)
	require.NoError(t, err)
	go func() {
		_, _ = out.Write([]byte("half"))
		_ = out.CloseWithError(io.ErrNoProgress)
	}()
	_, err = o.edge.worker.Do(req)
	require.ErrorIs(t, err, io.ErrNoProgress)
	require.Eventually(t, func() bool { return o.requests(ClientGone) == 1 }, 20*time.Second, time.Millisecond)
	require.Zero(t, o.lab.circuit().Failures)

	resp, err := http.ReadResponse(o.edge.raw("POST / HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nno chunk\r\n"), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	o.settled()
	require.Equal(t, 2, o.requests(ClientGone))
	require.Zero(t, o.lab.circuit().Failures)
}

// A provider may answer before it has all of the document, and a worker may wait for that.
func TestAnObservedCallMayBeAConversation(t *testing.T) {
	t.Parallel()
	o := newShadow(t, checked("textract"), func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		piece := make([]byte, 3)
		for {
			n, err := r.Body.Read(piece)
			_, _ = w.Write(piece[:n])
			_ = control.Flush()
			if err != nil {
				return
			}
		}
	})
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.url+"/", in)
	require.NoError(t, err)
	req.Header = headerOf(detectText)
	go func() { _, _ = out.Write([]byte("abc")) }()
	resp, err := o.edge.worker.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	echoed := make([]byte, 3)
	_, err = io.ReadFull(resp.Body, echoed)
	require.NoError(t, err)
	_, err = out.Write([]byte("def"))
	require.NoError(t, err)
	require.NoError(t, out.Close())
	rest, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "abcdef", string(echoed)+string(rest))
}

func TestAnObservedBodyBeyondTheLimitPasses(t *testing.T) {
	t.Parallel()
	s := checked("textract")
	s.bodies.MaxBytes = 1 << 20
	o := newShadow(t, s, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_, _ = io.Copy(w, r.Body)
	})
	document := noise(5 << 20)
	for i, chunked := range []bool{false, true} {
		var body io.Reader = strings.NewReader(document)
		if chunked {
			body = struct{ io.Reader }{body}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.url+"/", body)
		require.NoError(t, err)
		req.Header = headerOf(detectText)
		resp, got := o.do(req)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, sha256.Sum256([]byte(document)), sha256.Sum256([]byte(got)), "also of a provider that answers while it is being told")
		o.told(slices.Repeat([]string{unobserved}, i+1)...)
	}
}

// Copies lie within the memory of all bodies, and beyond it on the disk.
func TestObservedBodiesTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	const workers, size = 100, 1 << 20
	var waiting sync.WaitGroup
	waiting.Add(workers)
	release := make(chan struct{})
	s := checked("textract")
	s.bodies.MemoryTotal = 8 << 20
	o := newShadow(t, s, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		waiting.Done()
		<-release
		_, _ = fmt.Fprint(w, n)
	})
	var calls sync.WaitGroup
	document := noise(size)
	for range workers {
		calls.Go(func() {
			_, body := o.ask(call{target: "/", header: detectText, body: document})
			if body != strconv.Itoa(size) {
				t.Error(body)
			}
		})
	}
	waiting.Wait()
	require.LessOrEqual(t, o.figure("body_memory_bytes"), 8<<20)
	require.Greater(t, o.figure("body_spilled_bytes"), (workers-16)*size, "all of them are kept")
	close(release)
	calls.Wait()
}

func TestObservedCredentialsAreTheAccounts(t *testing.T) {
	t.Setenv("OBSERVED_KEY", "k-1")
	var auth []string
	o := newShadow(t, func() setup {
		s := hasty()
		s.account = func(a *Account) { a.Credential = credential.None() }
		return s
	}(), func(w http.ResponseWriter, r *http.Request) {
		auth = append(auth, r.Header.Get("Authorization"))
		w.Header().Set("Operation-Location", "http://"+r.Host+"/jobs/1?a=b")
		w.WriteHeader(http.StatusAccepted)
	})
	resp, _ := o.ask(call{body: "d", header: "Authorization: Bearer theirs"})
	require.Equal(t, []string{""}, auth)
	require.Equal(t, o.url+"/jobs/1?a=b", resp.Header.Get("Operation-Location"), "polls come through the proxy, too")
}

// A signature covers the body, so that all of it has to be there first.
func TestAnObservedCallIsSigned(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": ""} {
		t.Setenv(name, value)
	}
	signer, err := credential.SigV4(t.Context(), credential.SigV4Options{Region: "us-east-1", Service: "textract"})
	require.NoError(t, err)
	s := checked("textract")
	check := s.account
	s.account = func(a *Account) { check(a); a.Credential = signer }
	s.bodies.MaxBytes = 1 << 20
	document := noise(2 << 20)
	o := newShadow(t, s, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), r.ContentLength, string(body) == document)
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.url+"/", struct{ io.Reader }{strings.NewReader(document)})
	require.NoError(t, err)
	req.Header = headerOf(detectText)
	_, body := o.do(req)
	require.Equal(t, fmt.Sprint(true, len(document), true), body, "whatever its size")
	o.told(unobserved)
}

func TestObservedRPC(t *testing.T) {
	t.Parallel()
	o := newShadow(t, defaults("documentai"), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		if r.URL.Path != processMethod {
			_, _ = io.Copy(w, r.Body) // of a method that streams
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "14")
	})
	worker := NewGRPCTransport(nil)
	defer worker.CloseIdleConnections()
	o.edge.worker.Transport = worker
	resp, _ := o.ask(rpcCall(processMethod, processing("document")))
	require.Equal(t, "14", resp.Trailer.Get("Grpc-Status"))
	o.told(wouldRetry)
	require.EqualValues(t, 503, o.line()["status"])

	both := string(grpcwire.Frame([]byte("a"))) + string(grpcwire.Frame([]byte("b")))
	stream := rpcCall("/google.cloud.documentai.v1.Unknown/Stream", nil)
	stream.body = both
	resp, body := o.ask(stream)
	require.Equal(t, []string{both, "0"}, []string{body, resp.Trailer.Get("Grpc-Status")})
	o.told(wouldRetry, wouldPass)
}

func TestAnObservedConnectionMayBeUpgraded(t *testing.T) {
	t.Parallel()
	o := newShadow(t, hasty(), func(w http.ResponseWriter, _ *http.Request) {
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := both.ReadString('\n')
		_, _ = io.WriteString(conn, line)
	})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(o.url, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = io.WriteString(conn, "GET /live HTTP/1.1\r\nHost: p\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	_ = resp.Body.Close()
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(all))
	_ = conn.Close()
	o.told(wouldPass)
}

func TestWhatIsNoCallToTheProviderIsNotObserved(t *testing.T) {
	t.Parallel()
	o := newShadow(t, hasty(), answering(step{}))
	for _, text := range []string{"CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n", "GET http://other/ HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n"} {
		resp, err := http.ReadResponse(o.edge.raw(text), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
		_ = resp.Body.Close()
	}
	o.told()
	require.Zero(t, o.figure("attempts_total"))
}

func TestAnAccountThatObservesReplaysNothing(t *testing.T) {
	t.Parallel()
	a, _, _, _ := hasty().build(t, &url.URL{Scheme: "http", Host: "p"}, nil)
	a.Observe = NewObserver(a.Metrics.metrics, a.Name)
	require.Contains(t, a.Replayable(&dlq.Envelope{}), "only observes")
}

// A provider may refuse a document before it has all of it. The answer is the connection's last one then, and says so: the next call must not go
// where nobody takes it.
func TestAnObservedAnswerBeforeTheEndOfTheUploadIsTheLast(t *testing.T) {
	t.Parallel()
	o := newShadow(t, hasty(), func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		if r.ContentLength < 100 {
			_, _ = io.Copy(io.Discard, r.Body)
		} else {
			w.Header().Set("Connection", "close")
		}
		w.WriteHeader(http.StatusUnauthorized)
	})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(o.url, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	r := bufio.NewReader(conn)
	_, err = io.WriteString(conn, "POST /ocr HTTP/1.1\r\nHost: p\r\nContent-Length: 5\r\n\r\nwhole")
	require.NoError(t, err)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.False(t, resp.Close, "the usual one is not the last")
	_ = resp.Body.Close()
	_, err = io.WriteString(conn, "POST /ocr HTTP/1.1\r\nHost: p\r\nContent-Length: 1000\r\n\r\n")
	require.NoError(t, err)
	resp, err = http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	require.True(t, resp.Close, "the worker knows")
	_ = resp.Body.Close()
	_, err = io.WriteString(conn, strings.Repeat("d", 1000))
	require.NoError(t, err)
	_, err = r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	o.told(wouldBury, wouldBury)
}

// What waits to be looked at is bounded; beyond that the status decides.
func TestTooMuchAtOnceIsNotLookedAt(t *testing.T) {
	t.Parallel()
	o := newShadow(t, reviewing("textract"), answering(step{header: amzJSON, body: unsure}))
	for range maxLooks {
		o.lab.account.Observe.waiting <- struct{}{}
	}
	o.ask(detect("QQ=="))
	o.told(unobserved)
	for range maxLooks {
		<-o.lab.account.Observe.waiting
	}
}

// BenchmarkObserve measures calls over sockets through an account that observes and, as the floor, through a bare ReverseProxy.
func BenchmarkObserve(b *testing.B) {
	answer := []byte(`{"Blocks":[` + strings.Repeat(`{"BlockType":"WORD","Confidence":97},`, 500) + `{}]}`)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_, _ = w.Write(answer)
	}))
	defer upstream.Close()
	u, err := url.Parse(upstream.URL)
	require.NoError(b, err)
	account, _, _, _ := defaults("generic").build(b, u, NewTransport(nil))
	account.Log = zap.NewNop()
	account.Observe = NewObserver(account.Metrics.metrics, account.Name)
	// The same, where request and answer are looked at.
	looked, _, _, _ := defaults("textract").build(b, u, NewTransport(nil))
	looked.Log, looked.Precheck, looked.Scrutiny = zap.NewNop(), &Precheck{}, Scrutiny{Threshold: 0.8}
	looked.Observe = NewObserver(looked.Metrics.metrics, looked.Name)
	bare := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, Transport: NewTransport(nil), BufferPool: account.CopyBuffers,
	}
	for _, size := range []int{2 << 10, 2 << 20} {
		body := []byte(`{"Document":{"Bytes":"` + strings.Repeat("A", size) + `"}}`)
		for name, handler := range map[string]http.Handler{"observe": account, "looked at": looked, "bare": bare} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				server := httptest.NewServer(handler)
				defer server.Close()
				for b.Loop() {
					req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL+"/", bytes.NewReader(body))
					require.NoError(b, err)
					req.Header = http.Header{"Content-Type": {"application/x-amz-json-1.1"}, "X-Amz-Target": {"Textract.DetectDocumentText"}}
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						b.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			})
		}
	}
}

// A provider may answer before it has read the document. What there is of it is looked at, and nobody waits for the rest.
func TestAnObservedAnswerBeforeTheWholeDocument(t *testing.T) {
	s := checked("mistral")
	check := s.account
	s.account = func(a *Account) {
		check(a)
		a.Scrutiny = Scrutiny{Actions: all(LookAt)}
	}
	o := newShadow(t, s, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, `{"pages":[{"index":0,"markdown":"Rent"}]}`)
	})
	big := call{target: ocrCall, header: asJSON, body: `{"document":{"type":"document_url","document_url":"data:application/pdf;base64,` + strings.Repeat("A", 8<<20) + `"}}`}
	resp, err := o.edge.worker.Do(big.request(t.Context(), t, o.url))
	if err != nil { // the provider closed the connection over it
		o.settled()
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	o.told(unobserved)
}
