package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/provider"
)

// carriers are the places in which SDKs and people put credentials, whatever the kind.
func carriers(req *http.Request) {
	plant := func(name string) string { return mark + name }
	q := req.URL.Query()
	for _, name := range []string{"key", "sig", "code", "subscription-key", "api_key", "apikey", "api-key", "token", "access_token", "X-Amz-Security-Token", "X-Amz-Credential", "X-Amz-Signature"} {
		q.Set(name, plant("query-"+name))
	}
	req.URL.RawQuery = q.Encode()
	req.Header.Set("Authorization", "Bearer "+plant("bearer"))
	for _, name := range []string{
		"Ocp-Apim-Subscription-Key", "Apim-Key", "X-Goog-Api-Key", "X-Goog-Iam-Authorization-Token", "X-Amz-Security-Token", "Apikey", "Api-Key", "X-Api-Key", "App_key", "Cookie",
		"X-Auth-Token", "Proxy-Authorization",
	} {
		req.Header.Set(name, plant("header-"+name))
	}
}

// analysisOf is a request for an analysis as that kind's workers make it, with credentials in the body where the kind has room for one.
func analysisOf(kind string) (path, contentType, body string) {
	const doc = "UExBTlRFRA=="
	switch kind {
	case "textract":
		return "/", "application/x-amz-json-1.1", `{"Document":{"Bytes":"` + doc + `"}}`
	case "azure":
		return "/documentintelligence/documentModels/prebuilt-read:analyze", "application/json", `{"base64Source":"` + doc + `"}`
	case "documentai":
		return "/v1/projects/p/locations/us/processors/x:process", "application/json", `{"rawDocument":{"content":"` + doc + `"}}`
	case "vision":
		return "/v1/images:annotate", "application/json", `{"requests":[{"image":{"content":"` + doc + `"}}]}`
	case "mistral":
		return "/v1/ocr", "application/json", `{"model":"mistral-ocr-latest","document":{"type":"document_url","document_url":"https://x.example/a.pdf?sig=PLANTED-inner"}}`
	case "ocrspace":
		return "/parse/image", "application/x-www-form-urlencoded", "language=eng&apikey=PLANTED-form&url=https%3A%2F%2Fx.example%2Fa.pdf"
	case "openai":
		return "/v1/chat/completions", "application/json", `{"model":"m","messages":[]}`
	}
	return "/ocr", "application/json", `{"api_key":"PLANTED-member"}`
}

// Credentials are planted wherever one can be carried, the provider repeats them in every answer, and then all that the proxy has written
// and shows is searched for them.
func TestPlantedCredentialsTurnUpNowhere(t *testing.T) {
	t.Parallel()
	for _, p := range provider.All() {
		for _, auth := range []string{"passthrough", "header"} {
			t.Run(p.Name+" "+auth, func(t *testing.T) {
				t.Parallel()
				plantIn(t, p.Name, auth)
			})
		}
	}
}

func plantIn(t *testing.T, kind, auth string) {
	statuses := []int{400, 401, 402, 403, 404, 413, 418, 429, 500, 503, 200, lost}
	p := servingKind(t, kind, provide(t, echoing(t)), "log: {level: debug}\nretry: {max_attempts: 2, base_delay: 1ms, cap_delay: 1ms}\nbreaker: {failure_threshold: 1000}\n",
		authOf(t, auth))
	path, contentType, body := analysisOf(kind)
	for _, status := range statuses {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.account+path, strings.NewReader(body))
		require.NoError(t, err)
		carriers(req)
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("X-Amz-Target", "Textract.AnalyzeDocument")
		req.Header.Set("X-Answer", strconv.Itoa(status))
		resp, err := p.client.Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NotEmpty(t, resp.Header.Get("Ocr-Proxy-Outcome"))
		for name, values := range resp.Header {
			if strings.HasPrefix(name, "Ocr-Proxy-") {
				require.NotContains(t, values[0], mark, name)
			}
		}
	}
	shown := map[string]string{}
	for _, page := range []string{"/metrics", "/", "/api/v1/providers", "/api/v1/dead-letters"} {
		_, _, shown[page] = p.ask(http.MethodGet, p.admin+page, "")
	}
	require.NotEmpty(t, letterFiles(t, p))
	p.signal()
	require.Zero(t, p.end())
	shown["the log"] = p.log.String()
	_, shown["dlq list"], _ = command(t, "", nil, "dlq", "list", "--dir", p.letters, "--output", "json")
	err := filepath.WalkDir(p.letters, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var data []byte
			data, err = os.ReadFile(path)
			if contentType == "application/json" && strings.Contains(path, "/payloads/") {
				return err // as it was received
			}
			shown[path] = string(data)
		}
		return err
	})
	require.NoError(t, err)
	for place, text := range shown {
		if at := strings.Index(text, mark); at >= 0 {
			t.Errorf("%s holds a credential: …%s", place, text[max(0, at-100):min(len(text), at+100)])
		}
	}
}

const (
	lost   = 999        // no answer at all
	mark   = "PLANTED-" // begins every credential
	ownKey = mark + "own"
)

func authOf(t *testing.T, kind string) string {
	t.Helper()
	if kind == "header" {
		return fmt.Sprintf("auth: {type: header, header: X-Own, value_file: %q}", file(t, "key", ownKey+"\n"))
	}
	return "auth: {type: " + kind + "}"
}

// echoing is a provider that answers as it is told and repeats in its errors whatever it was given.
func echoing(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		status, bad := strconv.Atoi(r.Header.Get("X-Answer"))
		if !assert.NoError(t, err) || !assert.NoError(t, bad) || status == lost {
			panic(http.ErrAbortHandler)
		}
		var all []string
		for _, values := range r.Header {
			all = append(all, values...)
		}
		for _, values := range r.URL.Query() {
			all = append(all, values...)
		}
		text, _ := json.Marshal(strings.Join(all, " ") + " " + r.URL.RawQuery + " " + string(body))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", r.Header.Get("X-Api-Key"))
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"__type":"E","message":%[1]s,"error":{"code":"E","message":%[1]s},"ErrorMessage":[%[1]s],"IsErroredOnProcessing":true,"OCRExitCode":3}`, text)
	}
}
