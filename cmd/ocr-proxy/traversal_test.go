package main

import (
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// escape is a name that leads out of a folder when it is taken for a path.
const escape = "../../../../escaped"

// No word of a worker or a provider becomes a file's name in the store.
func TestNoNameLeadsOutOfTheStore(t *testing.T) {
	t.Parallel()
	upstream := provide(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.Header().Set("X-Amzn-Requestid", escape)
		if strings.Contains(r.Header.Get("X-Amz-Target"), "Start") {
			_, _ = io.WriteString(w, `{"JobId":"`+escape+`"}`) // it is journaled
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"`+escape+`","message":"`+escape+`"}`)
	})
	p := servingKind(t, "textract", upstream, "", "auth: {type: none}")
	send := func(path, target, header string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.account+"/", strings.NewReader(`{"DocumentLocation":{"S3Object":{"Bucket":"`+escape+`","Name":"`+header+`"}},"JobId":"`+escape+`"}`))
		require.NoError(t, err)
		req.URL.Opaque = path // as it stands
		req.Header.Set("Content-Type", "application/x-amz-json-1.1")
		req.Header.Set("X-Amz-Target", target)
		if header != "" {
			req.Header.Set(header, escape)
		}
		resp, err := p.client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	for _, header := range []string{
		"Ocr-Proxy-Document-Id", "Ocr-Proxy-Tenant", "Ocr-Proxy-Processing-Version", "Ocr-Proxy-Dead-Letter-Id", "Content-Type", "Content-Disposition", "Traceparent",
		"Amz-Sdk-Invocation-Id", "Idempotency-Key", "X-Request-Id", "X-Anything",
	} {
		send("/", "Textract.DetectDocumentText", header)
		send("/", "Textract.StartDocumentAnalysis", header)
	}
	send("/", escape, "")
	send("/"+escape, "Textract.DetectDocumentText", "")
	send("/"+url.PathEscape(escape), "Textract.GetDocumentAnalysis", "")

	names := regexp.MustCompile(`^letters/(lock|index/[0-9]{16}\.log|jobs/salt|jobs/[0-9a-f]{64}\.json|jobs/payloads/[0-9a-f]{64}|open/[0-9a-f-]{36}\.json|payloads/[0-9a-f]{2}/[0-9a-f]{64})$`)
	files := 0
	root := filepath.Dir(p.letters)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if !d.IsDir() {
			files++
			rel, _ := filepath.Rel(root, path)
			require.Regexp(t, names, filepath.ToSlash(rel))
		}
		return nil
	}))
	require.Greater(t, files, 20, "there are letters and jobs")
	for _, id := range []string{escape, url.PathEscape(escape), url.PathEscape(url.PathEscape(escape))} {
		for what, method := range map[string]string{"": http.MethodGet, "/resolve": http.MethodPost} {
			status, _, _ := p.ask(method, p.admin+"/api/v1/dead-letters/"+id+what, "")
			require.Equal(t, http.StatusNotFound, status, id+what)
		}
	}
}
