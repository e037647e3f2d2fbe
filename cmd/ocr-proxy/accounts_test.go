package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A job that the fallback account accepted is followed there by a proxy that has been started anew and by a worker that knows one address.
func TestServeFollowsAJobToTheAccountThatAcceptedIt(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	down.Store(true)
	asked := func(counter *atomic.Int32, answer func(target string) string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			counter.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			_, _ = io.WriteString(w, answer(r.Header.Get("X-Amz-Target")))
		}
	}
	var first, second atomic.Int32
	a := provide(t, func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		asked(&first, func(string) string { return `{"JobId":"of-a","JobStatus":"SUCCEEDED"}` })(w, r)
	})
	b := provide(t, asked(&second, func(target string) string {
		if strings.HasPrefix(target, "Textract.Start") {
			return `{"JobId":"of-b"}`
		}
		return `{"JobStatus":"IN_PROGRESS"}`
	}))
	other := fmt.Sprintf(`  - {name: b, kind: textract, listen: "127.0.0.1:0", upstream: %q, auth: {type: none}}`, b)
	call := func(p *proxyProcess, operation, body string) (http.Header, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.account+"/", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("X-Amz-Target", "Textract."+operation)
		req.Header.Set("Content-Type", "application/x-amz-json-1.1")
		req.Header.Set("Amz-Sdk-Invocation-Id", "i-1")
		resp, err := p.client.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.Header, string(text)
	}
	entry := []string{"auth: {type: none}", "fallback: [b]", "retry: {max_attempts: 1}"}
	p := servingKind(t, "textract", a, other, entry...)
	const start = `{"DocumentLocation":{"S3Object":{"Bucket":"b","Name":"n"}}}`
	head, text := call(p, "StartDocumentAnalysis", start)
	require.Equal(t, `{"JobId":"of-b"}`, text)
	require.Equal(t, "2", head.Get("Ocr-Proxy-Attempts"))
	require.Equal(t, "b", p.log.find(t, "request")["asked"])
	p.signal()
	require.Zero(t, p.end())

	down.Store(false)
	p = servingFrom(t, p.letters, nil, "textract", a, other, entry...)
	_, text = call(p, "GetDocumentAnalysis", `{"JobId":"of-b"}`)
	require.Equal(t, `{"JobStatus":"IN_PROGRESS"}`, text)
	head, text = call(p, "StartDocumentAnalysis", start)
	require.Equal(t, []string{`{"JobId":"of-b"}`, "journaled"}, []string{text, head.Get("Ocr-Proxy-Reason")})
	require.Equal(t, []int32{0, 2}, []int32{first.Load(), second.Load()}, "a is well again, and is not asked for what b has")
}
