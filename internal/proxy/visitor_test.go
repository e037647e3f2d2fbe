package proxy

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/clients"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
)

const (
	tokenOfA = "client-token-of-worker-a"
	tokenOfB = "client-token-of-worker-b"
)

// tokened is an account with a credential of its own, for two workers.
func tokened(t *testing.T, kind string) setup {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(tokenOfA+"\n"+tokenOfB+"\n"), 0o600))
	s := remembering(kind)
	remember := s.account
	s.account = func(a *Account) {
		remember(a)
		var err error
		a.Clients, err = clients.Open(path, zap.NewNop())
		require.NoError(t, err)
		a.Credential = credential.Header("Api-Key", "", "key-of-the-account")
	}
	return s
}

func TestAListenerMayAskForAClientToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, tokened(t, "mistral"), step{header: asJSON, body: `{"pages":[]}`}, step{status: 422, header: asJSON, body: `{"message":"no"}`})
		for _, header := range []string{"", "|Authorization: Bearer key-of-the-account", "|Authorization: Bearer " + tokenOfA[1:], "|Api-Key: key-of-the-account"} {
			stranger := analysis("QQ==")
			stranger.header += header
			r := l.send(t.Context(), stranger)
			require.Equal(t, []any{401, "rejected", "client_token", "Bearer"}, []any{r.status, r.own("Outcome"), r.own("Reason"), r.header.Get("Www-Authenticate")})
			require.Contains(t, r.body, "this listener asks for a client token")
		}
		require.Empty(t, l.upstream.attempts(), "nothing goes to the provider")
		require.Zero(t, l.sink.count())

		known := analysis("QQ==")
		known.header += "|Authorization: Bearer " + tokenOfA
		require.Equal(t, 200, l.send(t.Context(), known).status)
		known = analysis("Qg==")
		known.header += "|Authorization: Bearer " + tokenOfB
		require.Equal(t, 422, l.send(t.Context(), known).status)
		for _, a := range l.upstream.attempts() {
			require.Equal(t, "key-of-the-account", a.header.Get("Api-Key"))
			for name, values := range a.header {
				require.NotContains(t, strings.Join(values, " "), "client-token", name)
			}
		}
		letter, body := l.buried()
		require.Contains(t, letter.Request.Credentials, "header:Authorization")
		require.NotContains(t, body, "client-token")
		for _, line := range l.logs.All() {
			for key, value := range line.ContextMap() {
				require.NotContains(t, fmt.Sprint(value), "client-token", key)
			}
		}
		require.Equal(t, 4, l.requests(Rejected))
		l.closing()
	})
}

// What one worker has paid for is not given to another, even for the same document.
func TestAnswersDoNotCrossClients(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		good := step{after: 5 * time.Second, header: asJSON, body: `{"pages":[]}`}
		l := newLab(t, tokened(t, "mistral"), good, good)
		same := analysis("QQ==")
		same.header += "|Ocr-Proxy-Join: true"
		a, b := same, same
		a.header += "|X-Api-Key: " + tokenOfA
		b.header += "|X-Api-Key: " + tokenOfB
		first, joining := l.later(t.Context(), a), l.later(t.Context(), a)
		time.Sleep(time.Second)
		r := l.send(t.Context(), b)
		require.Equal(t, []string{"success", ""}, []string{r.own("Outcome"), r.own("Reason")})
		reasons := []string{reasonOf(<-first), reasonOf(<-joining)}
		require.ElementsMatch(t, []string{"", "joined"}, reasons)
		require.Len(t, l.upstream.attempts(), 2)
		l.closing()
	})
}

func reasonOf(r reply) string { return r.own("Reason") }

func TestJobsDoNotCrossClients(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		j := newJournaling(t, tokened(t, "azure"), azureAccepted, azureSecond)
		start := func(token string) reply {
			return j.send(t.Context(), azureStart("Ocp-Apim-Subscription-Key: "+token+"|Ocr-Proxy-Document-Id: d"))
		}
		require.Equal(t, []any{202, ""}, []any{start(tokenOfA).status, ""})
		require.Equal(t, "journaled", start(tokenOfA).own("Reason"))
		r := start(tokenOfB)
		require.Equal(t, []any{202, ""}, []any{r.status, r.own("Reason")})
		require.Len(t, j.upstream.attempts(), 2)
		j.closing()
	})
}

func TestAStrangerOverGRPC(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, tokened(t, "documentai"), good([]byte("\x0a\x00")))
		l.speakRPC()
		s, _ := l.send(t.Context(), rpcCall(processMethod, processing("scan"))).rpcStatus(t)
		require.Equal(t, grpcwire.Unauthenticated, s.Code)
		require.Empty(t, l.upstream.attempts())
		s, _ = l.send(t.Context(), rpcCall(processMethod, processing("scan"), "Authorization: Bearer "+tokenOfB)).rpcStatus(t)
		require.Equal(t, grpcwire.OK, s.Code)
		l.closing()
	})
}

func TestPagesInABrowserAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, observes := range []bool{false, true} {
			s := defaults("generic")
			s.account = func(a *Account) {
				if observes {
					a.Observe = NewObserver(a.Metrics.metrics, a.Name)
				}
			}
			l := newLab(t, s, step{body: "read"}, step{body: "read"})
			for _, header := range []string{"Origin: https://page.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"} {
				r := l.send(t.Context(), call{header: header, body: "scan"})
				require.Equal(t, http.StatusForbidden, r.status, header)
			}
			require.Empty(t, l.upstream.attempts())
			require.Equal(t, "read", l.send(t.Context(), call{header: "Sec-Fetch-Mode: cors", body: "scan"}).body, "Node's fetch")
		}
	})
}

// Over gRPC, too, what one worker has paid for is not given to another.
func TestRPCAnswersDoNotCrossClients(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answer := good([]byte("\x0a\x00"))
		answer.after = 5 * time.Second
		l := newLab(t, tokened(t, "documentai"), answer, answer, answer)
		l.speakRPC()
		of := func(token string) call {
			return rpcCall(processMethod, processing("scan"), "Authorization: Bearer "+token, "Ocr-Proxy-Join: true", "Ocr-Proxy-Document-Id: d")
		}
		first, joining := l.later(t.Context(), of(tokenOfA)), l.later(t.Context(), of(tokenOfA))
		time.Sleep(time.Second)
		other := l.send(t.Context(), of(tokenOfB))
		require.Equal(t, []string{"success", ""}, []string{other.own("Outcome"), other.own("Reason")})
		require.ElementsMatch(t, []string{"", "joined"}, []string{reasonOf(<-first), reasonOf(<-joining)})
		require.Len(t, l.upstream.attempts(), 2)
		l.closing()
	})
}
