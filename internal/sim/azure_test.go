package sim

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const azureRead = "/documentintelligence/documentModels/prebuilt-read:analyze?api-version=2024-11-30"

// follow turns an Operation-Location into a path on the simulator, which must be its own.
func (p *provider) follow(t *testing.T, got received) string {
	t.Helper()
	require.Equal(t, http.StatusAccepted, got.status, got.raw)
	path, ok := strings.CutPrefix(got.header.Get("Operation-Location"), p.url)
	require.True(t, ok, "Operation-Location %q is not on %s", got.header.Get("Operation-Location"), p.url)
	return path
}

func TestAzureAnalysisRunsThenSucceeds(t *testing.T) {
	p := launch(t, Options{Kind: KindAzure, Faults: Faults{JobTime: 90 * time.Second}})
	body := `{"base64Source":"` + encode(pngOf(t, drawing(80, 40))) + `"}`
	got := p.must(t, http.MethodPost, azureRead, body, "Content-Type", "application/json; charset=utf-8")
	path := p.follow(t, got)
	require.Empty(t, got.raw)
	require.Equal(t, "90", got.header.Get("Retry-After"))
	require.NotEmpty(t, got.header.Get("apim-request-id"))
	require.Regexp(t, `^/documentintelligence/documentModels/prebuilt-read/analyzeResults/[0-9a-f-]{36}\?api-version=2024-11-30$`, path)
	running := p.must(t, http.MethodGet, path, "")
	require.Equal(t, "running", running.body["status"])
	require.NotEmpty(t, running.header.Get("Retry-After"))

	require.NoError(t, p.SetFaults(Faults{}))
	path = p.follow(t, p.must(t, http.MethodPost, azureRead, body, "Content-Type", "application/json"))
	done := p.must(t, http.MethodGet, path, "")
	require.Equal(t, "succeeded", done.body["status"])
	require.Empty(t, done.header.Get("Retry-After"))
	require.Equal(t, "prebuilt-read", at(t, done.body, "analyzeResult", "modelId"))
	require.InDelta(t, 80, at(t, done.body, "analyzeResult", "pages", 0, "width"), 0)
	require.Equal(t, 2, p.Stats().Jobs)

	require.Equal(t, http.StatusNoContent, p.must(t, http.MethodDelete, path, "").status)
	gone := p.must(t, http.MethodGet, path, "")
	require.Equal(t, http.StatusNotFound, gone.status)
	require.Equal(t, "OperationNotFound", at(t, gone.body, "error", "innererror", "code"))
	require.Equal(t, http.StatusNotFound, p.must(t, http.MethodDelete, path, "").status)
}

func TestAzureSpansPointAtTheText(t *testing.T) {
	pages := []Page{{Width: 100, Height: 100, Lines: []Line{
		{Words: []Word{{Text: "Größe:"}, {Text: "😀x"}}}, {Words: []Word{{Text: "end"}}},
	}}, {Width: 100, Height: 100, Lines: []Line{{Words: []Word{{Text: "two"}}}}}}
	for index, want := range map[string][]int{"unicodeCodePoint": {0, 7, 10, 14}, "utf16CodeUnit": {0, 7, 11, 15}} {
		result := azureResult{model: "prebuilt-invoice", index: index}.build(pages)
		require.Equal(t, "Größe: 😀x\nend\ntwo", result["content"])
		var got []int
		for _, page := range result["pages"].([]object) {
			for _, word := range page["words"].([]object) {
				got = append(got, word["span"].(object)["offset"].(int))
			}
		}
		require.Equal(t, want, got, index)
		field := result["documents"].([]object)[0]["fields"].(object)["Größe"].(object)
		require.Equal(t, "😀x", field["valueString"])
		require.Equal(t, 7, field["spans"].([]object)[0]["offset"])
	}
}

func TestAzureTakesRawBytesAndURLs(t *testing.T) {
	p := launch(t, Options{Kind: KindAzure})
	path := p.follow(t, p.must(t, http.MethodPost, azureRead, "%PDF-1.4\n", "Content-Type", "application/octet-stream"))
	got := p.must(t, http.MethodGet, path, "")
	require.Equal(t, "inch", at(t, got.body, "analyzeResult", "pages", 0, "unit"))
	require.InDelta(t, 8.5, at(t, got.body, "analyzeResult", "pages", 0, "width"), 1e-9)

	body := `{"urlSource":"https://store.example/a.pdf?sig=secret"}`
	path = p.follow(t, p.must(t, http.MethodPost, azureRead, body, "Content-Type", "application/json"))
	got = p.must(t, http.MethodGet, path, "")
	require.Contains(t, got.raw, "https://store.example/a.pdf")
	require.NotContains(t, got.raw, "secret")
}

func TestAzureErrors(t *testing.T) {
	p := launch(t, Options{Kind: KindAzure})
	jpeg := jpegOf(t, drawing(300, 300))
	tests := map[string]struct {
		path, kind, body string
		status           int
		code, inner      string
	}{
		"not a document": {azureRead, "application/octet-stream", "hello", 400, "InvalidRequest", "InvalidContent"},
		"cut image":      {azureRead, "image/jpeg", string(jpeg[:len(jpeg)/2]), 400, "InvalidRequest", "InvalidContent"},
		"no source":      {azureRead, "application/json", "{}", 400, "InvalidArgument", "ParameterMissing"},
		"bad base64":     {azureRead, "application/json", `{"base64Source":"!"}`, 400, "InvalidArgument", "InvalidParameter"},
		"bad URL":        {azureRead, "application/json", `{"urlSource":"x"}`, 400, "InvalidArgument", "InvalidContentSourceFormat"},
		"no JSON":        {azureRead, "application/json", `{`, 400, "InvalidRequest", "InvalidParameter"},
		"wrong path":     {"/documentintelligence/models", "application/json", `{}`, 404, "404", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := p.must(t, http.MethodPost, tt.path, tt.body, "Content-Type", tt.kind)
			require.Equal(t, tt.status, got.status, got.raw)
			require.Equal(t, tt.code, at(t, got.body, "error", "code"))
			if tt.inner != "" {
				require.Equal(t, tt.inner, at(t, got.body, "error", "innererror", "code"))
			}
			require.NotEmpty(t, got.header.Get("apim-request-id"))
			require.Empty(t, got.header.Get("Retry-After"), "with one, the Python client repeats a permanent error")
		})
	}
}
