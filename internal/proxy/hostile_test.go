package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

// A switch of protocols that nobody asked for has a body without an end, which no context ends either.
func TestASwitchOfProtocolsIsNoAnswer(t *testing.T) {
	t.Parallel()
	upstream := provide(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		t.Cleanup(func() { _ = conn.Close() })
	})
	s := hasty()
	s.policy.MaxAttempts = 2
	e := newEdge(t, s, upstream.URL, NewTransport(nil))
	resp, _ := e.post(strings.NewReader("doc"))
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Equal(t, "2", resp.Header.Get("Ocr-Proxy-Attempts"))
}

// A few KB can unpack to many GB: looking into them must end, whoever waits.
func TestLookingIntoAnAnswerEnds(t *testing.T) {
	t.Parallel()
	s := defaults("mistral")
	account, _, _, _ := s.build(t, nil, nil)
	endless := io.MultiReader(strings.NewReader(`{"a":"`), zeros{})
	_, err := Look(account.Provider, "ocr", &patience{Reader: endless, ctx: t.Context(), left: 1 << 20})
	require.ErrorIs(t, err, errPatience)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in := look(ctx, account.Provider, &Scrutiny{}, "ocr", http.Header{"Content-Type": {"application/json"}}, strings.NewReader(`{"a":`))
	require.Nil(t, in.fault)
	require.False(t, in.malformed, "the time was over before anybody knew")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestAnAnswerOfManyItemsIsKeptInBounds(t *testing.T) {
	t.Parallel()
	p := defaults("vision")
	account, _, _, _ := p.build(t, nil, nil)
	answer := `{"responses":[` + strings.TrimSuffix(strings.Repeat(`{"error":{"code":3}},`, 10*maxValues), ",") + `]}`
	fault, err := Look(account.Provider, "images:annotate", strings.NewReader(answer))
	require.NoError(t, err)
	require.Equal(t, "INVALID_ARGUMENT", fault.Code())
}

// An answer larger than any request may be is passed on as it comes, and not written to disk.
func TestAnAnswerBeyondTheBodyLimitStreams(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("mistral")
		s.bodies.MaxBytes = 1 << 10
		answer := `{"pages":["` + strings.Repeat("x", 5000) + `"]}`
		l := newLab(t, s, step{header: asJSON, body: answer})
		r := l.send(t.Context(), call{target: ocrCall, header: asJSON, body: `{}`})
		require.Equal(t, answer, r.body)
		require.Equal(t, "success", r.own("Outcome"))
		l.quiet()
	})
}

// The worker's slowness is not the provider's failure, however long it lasts.
func TestSlowWorkersDoNotOpenTheCircuit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := defaults("generic")
		set.policy.Total = 10 * time.Second
		set.breaker.FailureThreshold = 1
		size := 4 << 20
		l := newLab(t, set, step{header: fmt.Sprintf("Content-Type: application/octet-stream|Content-Length: %d", size), body: strings.Repeat("x", size)})
		conn, err := l.network.DialContext(t.Context(), "tcp", listener)
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST /ocr HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\ndoc")
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		time.Sleep(set.policy.Total + 2*time.Second) // the budget is over, and the worker has taken no more than a buffer
		_, err = io.Copy(io.Discard, resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		_ = conn.Close()
		synctest.Wait()
		require.Zero(t, l.account.Purse.InProgress())
		require.Equal(t, breaker.Closed, l.circuit().State)
		require.Empty(t, l.sink.letters)
		require.Equal(t, 1, l.requests(ClientGone))
	})
}

// A worker that takes nothing of its answer is cut off.
func TestAWorkerThatStopsReadingIsCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answer := `{"pages":["` + strings.Repeat("x", 4<<20) + `"]}`
		l := newLab(t, defaults("mistral"), step{header: fmt.Sprintf("%s|Content-Length: %d", asJSON, len(answer)), body: answer})
		conn, err := l.network.DialContext(t.Context(), "tcp", listener)
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", ocrCall)
		require.NoError(t, err)
		time.Sleep(stallTime + 2*time.Second)
		synctest.Wait()
		require.Zero(t, l.account.Purse.InProgress())
		require.Equal(t, 1, l.requests(ClientGone), "it was not given the answer")
		require.Equal(t, breaker.Closed, l.circuit().State)
		_ = conn.Close()
	})
}

// AWS answers a bad signature with all that was signed, the session token included, and the text is cut somewhere in it.
func TestASecretAtTheCutIsHidden(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		secret := strings.Repeat("s3cr3t-", 100)
		l := newLab(t, defaults("generic"), step{status: 403, header: asJSON, body: `{"message":"` + strings.Repeat("x", 900) + secret + `"}`})
		l.send(t.Context(), call{header: "Authorization: Bearer " + secret})
		require.NotContains(t, l.sink.letters[0].ErrorMessage, "s3cr3t-s3cr3t-")
	})
}

func TestAProvidersRequestIDIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 400, header: "X-Request-Id: " + strings.Repeat("9", 100_000)})
		l.send(t.Context(), call{})
		require.Len(t, l.sink.letters[0].Attempts[0].UpstreamRequestID, maxRequestID)
	})
}

func TestAnEchoedMemberOfTheBodyIsHidden(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 400, header: asJSON, body: `{"message":"key S3KR3T-1 is bad"}`})
		l.send(t.Context(), call{header: asJSON, body: `{"api_key":"S3KR3T-1","document":"QQ=="}`})
		require.Equal(t, "key [redacted] is bad", l.sink.letters[0].ErrorMessage)
	})
}

func TestTheProxyDoesNotGuessAContentType(t *testing.T) {
	t.Parallel()
	upstream := provide(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html>")
	})
	e := newEdge(t, hasty(), upstream.URL, NewTransport(nil))
	resp, _ := e.post(strings.NewReader("doc"))
	require.NotContains(t, resp.Header, "Content-Type")
}

// A full disk here is not the provider's fault, and asking again would only pay again.
func TestAnAnswerThatCannotBeHeldIsNotAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "spool")
		bodies, err := spool.New(spool.Limits{MaxBytes: 1 << 20, MemoryPerBody: 1 << 10, MemoryTotal: 1 << 20, Dir: dir}, prometheus.NewRegistry())
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.WriteFile(dir, nil, 0o600), "a file in its place: nothing can be spilled any more")
		s := defaults("mistral")
		s.breaker.FailureThreshold = 1
		s.account = func(a *Account) { a.Bodies = bodies }
		l := newLab(t, s, step{header: asJSON, body: `{"pages":["` + strings.Repeat("x", 4<<10) + `"]}`})
		r := l.send(t.Context(), call{target: ocrCall, header: asJSON, body: `{}`})
		require.Equal(t, http.StatusBadGateway, r.status)
		require.Equal(t, []string{"permanent", "unknown", "1", "true"}, []string{r.own("Outcome"), r.own("Class"), r.own("Attempts"), r.own("Ambiguous")})
		require.Contains(t, r.body, "may have been done and billed")
		require.Equal(t, breaker.Closed, l.circuit().State)
		require.Len(t, l.sink.letters, 1)
		require.Equal(t, "local", l.sink.letters[0].ErrorCode)
	})
}
