package sim

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMistralReadsEveryKindOfDocument(t *testing.T) {
	p := launch(t, Options{Kind: KindMistral})
	data := "data:image/png;base64," + encode(pngOf(t, drawing(64, 32)))
	for name, document := range map[string]string{
		"data URI":      `{"type":"document_url","document_url":"` + data + `"}`,
		"image text":    `{"type":"image_url","image_url":"` + data + `"}`,
		"image wrapped": `{"type":"image_url","image_url":{"url":"` + data + `"}}`,
		"remote":        `{"type":"document_url","document_url":"https://x.example/a.pdf?sig=secret"}`,
		"file":          `{"type":"file","file_id":"f-1"}`,
	} {
		t.Run(name, func(t *testing.T) {
			got := p.must(t, http.MethodPost, "/v1/ocr", `{"model":"m","document":`+document+`}`)
			require.Equal(t, http.StatusOK, got.status, got.raw)
			require.Contains(t, at(t, got.body, "pages", 0, "markdown"), "This is a simulated answer;")
			require.InDelta(t, 0, at(t, got.body, "pages", 0, "index"), 0)
			require.InDelta(t, 1, at(t, got.body, "usage_info", "pages_processed"), 0)
			require.Equal(t, "m", got.body["model"])
			require.NotContains(t, at(t, got.body, "pages", 0), "confidence_scores", "off by default")
			require.NotContains(t, got.raw, "secret")
		})
	}
}

func TestMistralScoresOnRequest(t *testing.T) {
	p := launch(t, Options{Kind: KindMistral})
	ask := func(granularity string) received {
		return p.must(t, http.MethodPost, "/v1/ocr", `{"model":null,"document":{"type":"file","file_id":"f"},"confidence_scores_granularity":"`+granularity+`"}`)
	}
	page := ask("page")
	require.InDelta(t, 0.99, at(t, page.body, "pages", 0, "confidence_scores", "average_page_confidence_score"), 0.01)
	require.NotContains(t, at(t, page.body, "pages", 0, "confidence_scores"), "word_confidence_scores")
	word := ask("word")
	require.Equal(t, "is", at(t, word.body, "pages", 0, "confidence_scores", "word_confidence_scores", 1, "text"))
	require.InDelta(t, 5, at(t, word.body, "pages", 0, "confidence_scores", "word_confidence_scores", 1, "start_index"), 0)
}

func TestMistralErrors(t *testing.T) {
	p := launch(t, Options{Kind: KindMistral})
	for name, uri := range map[string]string{"not a document": "data:application/pdf;base64,aGVsbG8=", "no base64": "data:text/plain,hello"} {
		got := p.must(t, http.MethodPost, "/v1/ocr", `{"document":{"type":"document_url","document_url":"`+uri+`"}}`)
		require.Equal(t, http.StatusBadRequest, got.status, name)
		require.Equal(t, "document_parser_invalid_file", got.body["type"])
		require.Equal(t, "3740", got.body["code"])
		require.Equal(t, "error", got.body["object"])
	}
	for _, body := range []string{"{", "{}", `{"document":{"type":"document_url"}}`} {
		got := p.must(t, http.MethodPost, "/v1/ocr", body)
		require.Equal(t, http.StatusUnprocessableEntity, got.status)
		require.NotEmpty(t, at(t, got.body, "detail", 0, "msg"))
	}
	require.Equal(t, http.StatusNotFound, p.must(t, http.MethodGet, "/v1/models", "").status)
}
