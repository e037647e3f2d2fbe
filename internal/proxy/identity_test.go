package proxy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const startJob = "Content-Type: application/x-amz-json-1.1|X-Amz-Target: Textract.StartDocumentAnalysis"

// tokenOf reads the token of a job start.
func tokenOf(t *testing.T, body string) string {
	t.Helper()
	var start struct{ ClientRequestToken string }
	require.NoError(t, json.Unmarshal([]byte(body), &start))
	return start.ClientRequestToken
}

// tokens are the tokens that arrive for several calls in a row about the same object.
func tokens(t *testing.T, how Injection, body string, headers ...string) []string {
	t.Helper()
	s := defaults("textract")
	s.account = func(a *Account) { a.Injection = how }
	l := newLab(t, s)
	var all []string
	for _, header := range headers {
		l.upstream.script(step{body: `{"JobId":"1"}`})
		r := l.send(t.Context(), call{target: "/", header: startJob + "|" + header, body: body})
		require.Equal(t, 200, r.status)
		seen := l.upstream.attempts()
		last := seen[len(seen)-1]
		require.EqualValues(t, len(last.body), last.length)
		all = append(all, tokenOf(t, last.body))
	}
	return all
}

func TestTokensOfJobStarts(t *testing.T) {
	t.Parallel()
	const object = `{"DocumentLocation":{"S3Object":{"Bucket":"b","Name":"n"}}}`
	t.Run("one for each call", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			got := tokens(t, InjectPerCall, object, "Amz-Sdk-Invocation-Id: 1", "Amz-Sdk-Invocation-Id: 1", "Amz-Sdk-Invocation-Id: 2",
				"Ocr-Proxy-Document-Id: d", "Ocr-Proxy-Document-Id: d", "Ocr-Proxy-Document-Id: e", "", "")
			require.Regexp(t, "^[0-9a-f]{64}$", got[0])
			require.Equal(t, got[0], got[1], "the SDK's own repetition is the same call")
			require.NotEqual(t, got[0], got[2])
			require.Equal(t, got[3], got[4])
			require.NotEqual(t, got[3], got[5])
			require.NotEqual(t, got[6], got[7], "without any identity each call is its own")
		})
	})
	t.Run("one for each content", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			got := tokens(t, InjectContent, object, "Amz-Sdk-Invocation-Id: 1", "Amz-Sdk-Invocation-Id: 2", "")
			require.Len(t, got[0], 64)
			require.Equal(t, []string{got[0], got[0], got[0]}, got)
			other := tokens(t, InjectContent, strings.Replace(object, `"n"`, `"m"`, 1), "")
			require.NotEqual(t, got[0], other[0])
		})
	})
	t.Run("none", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			require.Equal(t, []string{""}, tokens(t, InjectNever, object, "Amz-Sdk-Invocation-Id: 1"))
		})
	})
	t.Run("the worker's own is kept", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			require.Equal(t, []string{"mine"}, tokens(t, InjectPerCall, `{"ClientRequestToken":"mine"}`, ""))
		})
	})
	t.Run("a large start goes out as it came", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			large := `{"JobTag":"` + strings.Repeat("x", maxTokened) + `"}`
			require.Equal(t, []string{""}, tokens(t, InjectPerCall, large, ""))
		})
	})
}

func TestATokenStaysTheSameAndIsKeptInTheLetter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("textract")
		s.policy.MaxAttempts = 3
		l := newLab(t, s, step{lost: true}, step{status: 500}, step{status: 500})
		const body = `{"DocumentLocation":{"S3Object":{"Bucket":"b","Name":"n"}}}`
		l.send(t.Context(), call{target: "/", header: startJob, body: body})
		token := tokenOf(t, l.upstream.attempts()[0].body)
		for _, a := range l.upstream.attempts() {
			require.Equal(t, token, tokenOf(t, a.body))
		}
		require.Equal(t, token, l.sink.letters[0].Request.Token)
		requireSame(t, body, l.sink.bodies[0]) // the payload is what the worker sent
	})
}

func TestOtherCallsGetNoToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("textract"), step{body: "{}"}, step{body: "{}"}, step{status: 400})
		for _, c := range []call{
			{target: "/", header: "X-Amz-Target: Textract.AnalyzeDocument", body: `{"a":1}`},
			{target: "/", header: "X-Amz-Target: Textract.CreateAdapter", body: `{"a":1}`}, // a training run
			{target: "/", header: startJob, body: `no JSON`},
		} {
			l.send(t.Context(), c)
			seen := l.upstream.attempts()
			require.Equal(t, c.body, seen[len(seen)-1].body)
		}
	})
}
