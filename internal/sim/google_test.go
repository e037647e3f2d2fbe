package sim

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

const processPath = "/v1/projects/p/locations/us/processors/abc/processorVersions/v1:process?$alt=json;enum-encoding=int"

func TestDocumentAIReadsARawDocument(t *testing.T) {
	p := launch(t, Options{Kind: KindDocumentAI})
	got := p.must(t, http.MethodPost, processPath,
		`{"rawDocument":{"content":"`+encode(tiffOf(printed("a"), printed("b")))+`","mimeType":"image/tiff"}}`)
	require.Equal(t, http.StatusOK, got.status, got.raw)
	text, ok := at(t, got.body, "document", "text").(string)
	require.True(t, ok)
	require.Equal(t, "image/tiff", at(t, got.body, "document", "mimeType"))
	require.InDelta(t, 2, at(t, got.body, "document", "pages", 1, "pageNumber"), 0)
	require.InDelta(t, 0.99, at(t, got.body, "document", "pages", 1, "tokens", 0, "layout", "confidence"), 0.01)

	segment := at(t, got.body, "document", "pages", 1, "tokens", 1, "layout", "textAnchor", "textSegments", 0)
	from, err := strconv.Atoi(at(t, segment, "startIndex").(string))
	require.NoError(t, err)
	to, err := strconv.Atoi(at(t, segment, "endIndex").(string))
	require.NoError(t, err)
	require.Equal(t, "is ", text[from:to])
	require.Equal(t, 2, p.Stats().Pages)
}

func TestDocumentAIErrors(t *testing.T) {
	p := launch(t, Options{Kind: KindDocumentAI})
	for name, tt := range map[string]struct {
		path, body string
		code       int
		status     string
	}{
		"not a document": {processPath, `{"rawDocument":{"content":"aGVsbG8=","mimeType":"application/pdf"}}`, 400, "INVALID_ARGUMENT"},
		"empty":          {processPath, `{"rawDocument":{"content":""}}`, 400, "INVALID_ARGUMENT"},
		"bad base64":     {processPath, `{"rawDocument":{"content":"!"}}`, 400, "INVALID_ARGUMENT"},
		"no document":    {processPath, `{}`, 400, "INVALID_ARGUMENT"},
		"no JSON":        {processPath, `{`, 400, "INVALID_ARGUMENT"},
		"other method":   {"/v1/projects/p/locations/us/processors/abc:batchProcess", `{}`, 404, "NOT_FOUND"},
	} {
		t.Run(name, func(t *testing.T) {
			got := p.must(t, http.MethodPost, tt.path, tt.body)
			require.Equal(t, tt.code, got.status)
			require.InDelta(t, tt.code, at(t, got.body, "error", "code"), 0)
			require.Equal(t, tt.status, at(t, got.body, "error", "status"))
		})
	}
}

func TestVisionAnswersItemByItem(t *testing.T) {
	p := launch(t, Options{Kind: KindVision})
	good := `{"image":{"content":"` + encode(pngOf(t, drawing(50, 50))) + `"},"features":[{"type":"DOCUMENT_TEXT_DETECTION"}]}`
	plain := `{"image":{"source":{"imageUri":"https://x.example/a.png?sig=secret"}},"features":[{"type":5}]}`
	bad := `{"image":{"content":"aGVsbG8="},"features":[{"type":"TEXT_DETECTION"}]}`
	pdf := `{"image":{"content":"` + encode([]byte("%PDF-1.4")) + `"},"features":[{"type":"TEXT_DETECTION"}]}`
	bare := `{"image":{"content":"aGVsbG8="}}`
	got := p.must(t, http.MethodPost, "/v1/images:annotate", `{"requests":[`+good+`,`+bad+`,`+plain+`,`+pdf+`,`+bare+`]}`)
	require.Equal(t, http.StatusOK, got.status, got.raw)
	require.Len(t, got.body["responses"], 5)

	require.InDelta(t, 0.99, at(t, got.body, "responses", 0, "fullTextAnnotation", "pages", 0, "blocks", 0, "paragraphs", 0, "words", 0, "confidence"), 0.01)
	require.Equal(t, at(t, got.body, "responses", 0, "textAnnotations", 0, "description"), at(t, got.body, "responses", 0, "fullTextAnnotation", "text"))
	require.Equal(t, "This", at(t, got.body, "responses", 0, "textAnnotations", 1, "description"))
	require.NotContains(t, at(t, got.body, "responses", 2, "fullTextAnnotation", "pages", 0), "confidence", "plain text detection has no scores")
	for _, i := range []int{1, 3, 4} {
		require.InDelta(t, 3, at(t, got.body, "responses", i, "error", "code"), 0)
	}
	require.NotContains(t, got.raw, "secret")
	require.Equal(t, 2, p.Stats().Pages, "failed images cost nothing")
}

func TestVisionErrors(t *testing.T) {
	p := launch(t, Options{Kind: KindVision})
	for name, body := range map[string]string{"no JSON": "{", "no image": `{"requests":[]}`} {
		got := p.must(t, http.MethodPost, "/v1/projects/p/locations/eu/images:annotate", body)
		require.Equal(t, http.StatusBadRequest, got.status, name)
		require.Equal(t, "INVALID_ARGUMENT", at(t, got.body, "error", "status"))
	}
	require.Equal(t, http.StatusNotFound, p.must(t, http.MethodPost, "/v1/files:annotate", "{}").status)
}

func TestVisionItemErrorRateFailsSomeForAMoment(t *testing.T) {
	item := `{"image":{"source":{"imageUri":"https://x.example/a.png"}},"features":[{"type":"TEXT_DETECTION"}]}`
	body := `{"requests":[` + item + `,` + item + `,` + item + `,` + item + `]}`
	failed := func() []int {
		p := launch(t, Options{Kind: KindVision, Seed: 4, Faults: Faults{ItemErrorRate: 0.5}})
		var out []int
		for range 10 {
			got := p.must(t, http.MethodPost, "/v1/images:annotate", body)
			for i := range 4 {
				item, ok := at(t, got.body, "responses", i).(map[string]any)
				require.True(t, ok)
				if item["error"] != nil {
					require.InDelta(t, 14, at(t, item, "error", "code"), 0)
					out = append(out, i)
				}
			}
		}
		return out
	}
	first := failed()
	require.InDelta(t, 20, len(first), 12)
	require.Equal(t, first, failed(), "the same seed fails the same items")
}
