package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
)

// The credentials that are planted. None of them may be written down.
const (
	inHeader  = "planted-header-9f31"
	inScheme  = "planted-scheme-77aa"
	inCookie  = "planted-cookie-0c2d"
	inQuery   = "planted-query-51b8"
	inEscaped = "planted+query/e4=="
	inForm    = "planted-form-6d4e"
	inJSON    = "planted-json-b3c9"
	inAccount = "planted-account-1e77"
)

func planted() []string {
	return []string{inHeader, inScheme, inCookie, inQuery, inEscaped, "planted%2Bquery%2Fe4%3D%3D", inForm, inJSON, inAccount}
}

// guarded is a call with a credential in every place that one can be carried in.
func guarded(t *testing.T, contentType string) call {
	t.Helper()
	c := call{
		target: "/ocr?language=en&key=" + inQuery + "&sig=planted%2Bquery%2Fe4%3D%3D&page=1",
		header: "X-Api-Key: " + inHeader + "|Authorization: Bearer " + inScheme + "|Cookie: session=" + inCookie + "|User-Agent: worker/1",
	}
	switch contentType {
	case "json":
		c.header += "|Content-Type: application/json"
		c.body = `{"api_key":"` + inJSON + `","url":"https://bucket.example/scan.pdf"}`
	case "urlencoded":
		c.header += "|Content-Type: application/x-www-form-urlencoded"
		c.body = "language=en&apikey=" + inForm + "&url=https://bucket.example/scan.pdf"
	case "multipart":
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		require.NoError(t, w.SetBoundary("limit"))
		require.NoError(t, w.WriteField("apikey", inForm))
		require.NoError(t, w.WriteField("language", "en"))
		file, err := w.CreateFormFile("file", "scan.png")
		require.NoError(t, err)
		_, _ = io.WriteString(file, "the picture")
		require.NoError(t, w.Close())
		c.header += "|Content-Type: " + w.FormDataContentType()
		c.body = b.String()
	}
	return c
}

// ofTheForm stands for the form's credential where there is one.
const ofTheForm = "FORM"

// echo is an answer that gives away what it was asked with, as careless providers do.
func echo(status int) step {
	all := strings.Join([]string{inHeader, inScheme, "session=" + inCookie, inQuery, inEscaped, ofTheForm}, " and ")
	return step{
		status: status, header: jsonType + "|X-Request-Id: id-of-" + inHeader,
		body: `{"error":{"code":"bad_` + inQuery + `","message":"invalid credentials: ` + all + `"}}`,
	}
}

func requireClean(t *testing.T, where, text string) {
	t.Helper()
	for _, secret := range planted() {
		require.NotContains(t, text, secret, where)
	}
}

func TestSecretsAreWrittenNowhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(s *setup)
		steps  []step
		ask    string // a further header
		echoes bool   // the answer is the provider's, who says what he likes
		hangUp bool
	}{
		{name: "success", steps: []step{{body: "text"}}},
		{name: "permanent", steps: []step{echo(400)}, echoes: true},
		{name: "auth", steps: []step{echo(401)}, echoes: true},
		{name: "quota", steps: []step{echo(402)}, echoes: true},
		{name: "unknown", steps: []step{echo(418)}, echoes: true},
		{name: "throttled", steps: []step{echo(429), echo(429)}, echoes: true},
		{name: "transient", steps: []step{echo(500), echo(503)}, echoes: true},
		{name: "refused", steps: []step{{refuse: true}, {refuse: true}}},
		{name: "lost", steps: []step{{lost: true}, {lost: true}}},
		{name: "timeout", steps: []step{{hang: true}, {hang: true}}},
		{name: "truncated", steps: []step{{missing: 9}, {missing: 9}}},
		{name: "a broken stream", steps: []step{{body: noise(200 << 10), missing: 9}}},
		{name: "a job that failed", steps: []step{{body: `{"a":1}`, header: jsonType}}, change: func(s *setup) {
			s.account = func(a *Account) { a.Rules = classify.Table{{Status: 200, Class: classify.Permanent}} }
		}},
		{name: "rejected", ask: "|Ocr-Proxy-Timeout: soon"},
		{name: "circuit open", change: func(s *setup) { s.breaker.FailureThreshold = 1 }, steps: []step{{refuse: true}}},
		{name: "the worker hangs up", steps: []step{{hang: true}}, hangUp: true},
		{name: "the store fails", steps: []step{{status: 400}}, change: func(s *setup) {
			s.account = func(a *Account) { a.Sink = &graveyard{err: &leakyError{}} }
		}},
	} {
		for _, contentType := range []string{"json", "urlencoded", "multipart"} {
			t.Run(c.name+" "+contentType, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := defaults("generic")
					s.policy.MaxAttempts = 2
					if c.change != nil {
						c.change(&s)
					}
					steps := slices.Clone(c.steps)
					for i := range steps {
						if contentType != "json" {
							steps[i].body = strings.ReplaceAll(steps[i].body, ofTheForm, inForm)
						}
					}
					l := newLab(t, s, steps...)
					ctx := t.Context()
					if c.hangUp {
						ctx = leaveAfter(t, time.Second)
					}
					asked := guarded(t, contentType)
					asked.header += c.ask
					r := l.send(ctx, asked)
					l.quiet()
					if !c.echoes {
						requireClean(t, "the answer", r.body)
						delete(r.header, "X-Request-Id")
						requireClean(t, "the answer's head", dump(t, r.header))
					}
					requireClean(t, "the proxy's own headers", r.own("Reason")+r.own("Class")+r.own("Outcome"))
					requireClean(t, "the log", l.logText())
					for i, e := range l.sink.letters {
						requireClean(t, "the envelope", dump(t, e))
						require.Equal(t, "language=en&page=1", e.Request.Query, "the rest stays readable")
						require.Equal(t, []string{"worker/1"}, e.Request.Headers["User-Agent"])
						require.Subset(t, e.Request.Credentials, []string{"header:Authorization", "header:Cookie", "header:X-Api-Key", "query:key", "query:sig"})
						payload := strings.ReplaceAll(l.sink.bodies[i], inJSON, "") // a payload stays as received, but for form fields
						requireClean(t, "the payload", payload)
						if contentType != "json" {
							require.Contains(t, e.Request.Credentials, "form:apikey")
							require.Contains(t, payload, "language")
						}
					}
					for _, a := range l.upstream.attempts() {
						if !a.refused {
							require.Equal(t, asked.target, a.target, "the provider gets all of it")
							require.Equal(t, asked.body, a.body)
							require.Equal(t, inHeader, a.header.Get("X-Api-Key"))
						}
					}
				})
			})
		}
	}
}

type leakyError struct{}

func (*leakyError) Error() string { return "cannot write: " + inHeader + " " + inQuery }

func dump(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// logText is everything that was logged, at any level.
func (l *lab) logText() string {
	var b strings.Builder
	for _, entry := range l.logs.All() {
		text, err := json.Marshal(entry.ContextMap())
		require.NoError(l.t, err)
		b.WriteString(entry.Message + string(text) + "\n")
	}
	return b.String()
}

// An account's own key is in nobody's request; it must not come out with an echo either.
func TestTheAccountsOwnKeyIsWrittenNowhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("generic")
		s.account = func(a *Account) { a.Credential = credential.Header("Apikey", "", inAccount) }
		l := newLab(t, s, step{status: 401, header: "X-Request-Id: " + inAccount, body: `{"message":"unknown key ` + inAccount + `"}`})
		l.send(t.Context(), call{body: "document", header: "Apikey: " + inHeader})
		synctest.Wait()
		require.Equal(t, []string{inAccount}, l.upstream.attempts()[0].header["Apikey"], "in place of the worker's")
		requireClean(t, "the log", l.logText())
		requireClean(t, "the envelope", dump(t, l.sink.letters[0]))
	})
}

// What the worker declares to be for this hop only goes neither upstream nor into a letter.
func TestHopByHopHeadersStayHere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("generic"), step{status: 400})
		l.raw("POST /ocr HTTP/1.1\r\nHost: p\r\nConnection:\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTe: gzip\r\nProxy-Connection: x\r\n" +
			"X-Forwarded-For: 10.0.0.1\r\nForwarded: for=1\r\nVia: 1.1 old\r\nX-Stays: 1\r\nContent-Length: 1\r\n\r\nd")
		synctest.Wait()
		seen := l.upstream.attempts()[0].header
		for _, name := range []string{"Connection", "X-Hop", "Keep-Alive", "Te", "Proxy-Connection"} {
			require.NotContains(t, seen, name)
			require.NotContains(t, l.sink.letters[0].Request.Headers, name)
		}
		require.Equal(t, []string{"1"}, seen["X-Stays"])
		require.Equal(t, []string{"1"}, l.sink.letters[0].Request.Headers["X-Stays"])
		require.NotContains(t, l.sink.letters[0].Request.Headers, "X-Forwarded-For")
		require.Equal(t, http.MethodPost, l.sink.letters[0].Request.Method)
	})
}
