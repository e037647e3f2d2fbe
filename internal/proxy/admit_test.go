package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/ocr-proxy/ocr-proxy/internal/pace"
)

func TestReadInstructions(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxInstruction)
	for _, c := range []struct {
		header  string
		want    instructions
		problem string
	}{
		{header: ""},
		{header: "X-Other: 1|Ocr-Proxy: not ours"},
		{header: "Ocr-Proxy-Document-Id: scan 1|Ocr-Proxy-Tenant: t|Ocr-Proxy-Processing-Version: v2", want: instructions{documentID: "scan 1", tenant: "t", version: "v2"}},
		{header: "Ocr-Proxy-Timeout: 1m30s", want: instructions{timeout: 90 * time.Second}},
		{header: "Ocr-Proxy-Priority: high", want: instructions{priority: pace.High}},
		{header: "Ocr-Proxy-Priority: low", want: instructions{priority: pace.Low}},
		{header: "Ocr-Proxy-Priority: normal"},
		{header: "Ocr-Proxy-Tenant: " + long, want: instructions{tenant: long}},
		{header: "Ocr-Proxy-Join: true", want: instructions{join: true}},
		{header: "Ocr-Proxy-Join: false"},
		{header: "Ocr-Proxy-Document: doc-1|Ocr-Proxy-Tenant: t", want: instructions{tenant: "t", unknown: []string{"Ocr-Proxy-Document"}}},
		{header: "Ocr-Proxy-Future: \x7f" + long + "|Ocr-Proxy-Future: b", want: instructions{unknown: []string{"Ocr-Proxy-Future"}}},

		{header: "Ocr-Proxy-Tenant: " + long + "x", problem: "Ocr-Proxy-Tenant must be given once, with 1 to 256 printable ASCII characters"},
		{header: "Ocr-Proxy-Tenant: ", problem: "Ocr-Proxy-Tenant must be given once"},
		{header: "Ocr-Proxy-Tenant: a|Ocr-Proxy-Tenant: b", problem: "Ocr-Proxy-Tenant must be given once"},
		{header: "Ocr-Proxy-Tenant: Müller", problem: "printable ASCII"},
		{header: "Ocr-Proxy-Document-Id: a\tb", problem: "printable ASCII"},
		{header: "Ocr-Proxy-Timeout: \x7f", problem: "Ocr-Proxy-Timeout must be given once"},
		{header: "Ocr-Proxy-Join: yes", problem: "Ocr-Proxy-Join must be true or false"},
		{header: "Ocr-Proxy-Priority: urgent", problem: "Ocr-Proxy-Priority must be high, normal or low"},
		{header: "Ocr-Proxy-Timeout: 30", problem: "Ocr-Proxy-Timeout must be a duration above zero with a unit"},
		{header: "Ocr-Proxy-Timeout: -1s", problem: "above zero"},
		{header: "Ocr-Proxy-Timeout: 0s", problem: "above zero"},
	} {
		ask, problem := readInstructions(headerOf(c.header))
		if c.problem != "" {
			require.Contains(t, problem, c.problem, "%q", c.header)
			continue
		}
		require.Empty(t, problem, "%q", c.header)
		require.Equal(t, c.want, ask, "%q", c.header)
	}
}

func FuzzReadInstructions(f *testing.F) {
	f.Add("Document-Id", "scan-1")
	f.Add("Timeout", "30s")
	f.Add("Priority", "low")
	f.Add("Tenant", "\xff\n")
	f.Fuzz(func(t *testing.T, name, value string) {
		ask, problem := readInstructions(http.Header{instructionPrefix + name: {value}})
		if problem != "" {
			require.Equal(t, instructions{}, ask, "what is refused is not used")
			return
		}
		require.True(t, len(ask.unknown) > 0 || printable(value))
		require.GreaterOrEqual(t, ask.timeout, time.Duration(0))
		for _, kept := range []string{ask.documentID, ask.tenant, ask.version} {
			require.True(t, kept == "" || kept == value)
		}
	})
}

// raw writes text to the proxy and reads one answer.
func (l *lab) raw(text string) (*http.Response, string) {
	l.t.Helper()
	conn, err := l.network.DialContext(l.t.Context(), "tcp", listener)
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, text)
	require.NoError(l.t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(l.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(l.t, err)
	require.NoError(l.t, resp.Body.Close())
	return resp, string(body)
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, raw string
		status    int
		reason    string
	}{
		{"a whole URL", "GET http://provider/x HTTP/1.1\r\nHost: provider\r\n\r\n", 400, "bad_target"},
		{"CONNECT", "CONNECT provider:443 HTTP/1.1\r\nHost: provider:443\r\n\r\n", 400, "bad_target"},
		{"an upgrade", "GET /ws HTTP/1.1\r\nHost: p\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n", 400, "upgrade"},
		{"a bad instruction", "GET /x HTTP/1.1\r\nHost: p\r\nOcr-Proxy-Timeout: soon\r\n\r\n", 400, "bad_header"},
		{"declared too large", "POST /ocr HTTP/1.1\r\nHost: p\r\nContent-Length: 2000\r\n\r\n" + strings.Repeat("x", 2000), 413, "body_too_large"},
		{"chunked and too large", "POST /ocr HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + strings.Repeat("x", 1001) + "\r\n0\r\n\r\n", 413, "body_too_large"},
		{"declared too large, asking first", "POST /ocr HTTP/1.1\r\nHost: p\r\nExpect: 100-continue\r\nContent-Length: 2000\r\n\r\n", 413, "body_too_large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := defaults("generic")
				s.bodies.MaxBytes = 1000
				l := newLab(t, s)
				resp, body := l.raw(c.raw)
				require.Equal(t, c.status, resp.StatusCode)
				require.Equal(t, "rejected", resp.Header.Get("Ocr-Proxy-Outcome"))
				require.Equal(t, "0", resp.Header.Get("Ocr-Proxy-Attempts"))
				require.Empty(t, resp.Header.Get("Ocr-Proxy-Class"))
				require.Equal(t, c.reason, resp.Header.Get("Ocr-Proxy-Reason"))
				require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
				require.Contains(t, body, c.reason, "in the provider's own shape")
				require.Zero(t, l.sink.count(), "nothing is buried")
				require.Empty(t, l.upstream.attempts())
				l.quiet()
				require.Equal(t, 1, l.requests(Rejected))
				require.Equal(t, 1, l.logs.FilterMessage("request").Len())
			})
		})
	}
}

func TestARefusedWorkerWhoStallsIsNotWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"))
		start := time.Now()
		resp, _ := l.raw("POST /ocr HTTP/1.1\r\nHost: p\r\nOcr-Proxy-Priority: urgent\r\nContent-Length: 1000\r\n\r\nhalf a")
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
		require.Equal(t, lingerTime, time.Since(start))
		require.True(t, resp.Close)
	})
}

func TestASlowUploadIsRefusedWithinTheBudget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"))
		start := time.Now()
		conn, err := l.network.DialContext(t.Context(), "tcp", listener)
		require.NoError(t, err)
		_, err = io.WriteString(conn, "POST /ocr HTTP/1.1\r\nHost: p\r\nOcr-Proxy-Timeout: 5s\r\nContent-Length: 1000\r\n\r\n")
		require.NoError(t, err)
		trickled := make(chan struct{})
		go func() { // a byte a second, which never ends in time
			defer close(trickled)
			for range 30 {
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
		require.Equal(t, "body_timeout", resp.Header.Get("Ocr-Proxy-Reason"))
		took := time.Since(start)
		require.NoError(t, conn.Close())
		<-trickled
		require.LessOrEqual(t, took, 5*time.Second)
		require.Greater(t, took, 4*time.Second, "not before there is no time left for an attempt")
		l.quiet()
		require.Zero(t, l.sink.count())
	})
}

// The deadline for the upload must not bind the rest of the connection.
func TestAWorkerMayWaitLongAfterAnUpload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.policy.AttemptTimeout = 80 * time.Second
		l := newLab(t, s, step{body: "text", after: 70 * time.Second}, step{body: "text", after: 70 * time.Second})
		for range 2 {
			require.Equal(t, 70*time.Second, l.send(t.Context(), call{body: "document"}).took)
			time.Sleep(time.Minute)
		}
		require.Equal(t, 2, l.network.Dials(), "both on one connection of the worker's and one to the provider")
	})
}

func TestAWorkerWhoAsksIsToldToSend(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{body: "text"})
		l.worker.ExpectContinueTimeout = time.Hour
		r := l.send(t.Context(), call{header: "Expect: 100-continue", body: "document"})
		synctest.Wait()
		require.Equal(t, "text", r.body)
		require.Zero(t, r.took, "at once")
		require.Empty(t, l.upstream.attempts()[0].header.Get("Expect"), "the provider is not asked: the body is here")
	})
}

func TestAnInstructionThatIsNotKnownIsTakenOutAndLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{body: "text"})
		r := l.send(t.Context(), call{body: "doc", header: "Ocr-Proxy-Future: some-value|X-Keep: 1"})
		require.Equal(t, []string{"text", "success"}, []string{r.body, r.own("Outcome")})
		got := l.upstream.attempts()[0].header
		require.NotContains(t, got, "Ocr-Proxy-Future")
		require.Equal(t, "1", got.Get("X-Keep"))
		lines := l.logs.FilterMessageSnippet("does not know").All()
		require.Len(t, lines, 1)
		require.Equal(t, zapcore.DebugLevel, lines[0].Level)
		require.Equal(t, []any{"Ocr-Proxy-Future"}, lines[0].ContextMap()["headers"])
		require.NotContains(t, fmt.Sprint(lines[0].ContextMap()), "some-value", "it may be anything")
	})
}
