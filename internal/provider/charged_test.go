package provider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCharged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, operation, body string
		pages                 int
	}{
		{"textract", "DetectDocumentText", `{"Document":{"Bytes":"AAAA"}}`, 1},
		{"textract", "AnalyzeID", `{"DocumentPages":[{"Bytes":"AAAA"},{"S3Object":{"Bucket":"b","Name":"n"}}]}`, 2},
		{"textract", "StartDocumentAnalysis", `{"DocumentLocation":{}}`, 0},
		{"vision", "images:annotate", `{"requests":[{"features":[{"type":"A"},{"type":"B"}]},{"features":[{"type":"A"}]}]}`, 2},
		{"vision", "images:annotate", `{"requests":[{"features":`, 0},
		{"vision", "files:annotate", `{"requests":[{"features":[{"type":"A"}]}]}`, 0},
		{"mistral", "ocr", `{"document":{},"pages":[0,3,4]}`, 3},
		{"mistral", "ocr", `{"document":{}}`, 0},
		{"mistral", "chat", `{"pages":[0]}`, 0},
		{"documentai", "process", `{"rawDocument":{},"processOptions":{"individualPageSelector":{"pages":[1,4]}}}`, 2},
		{"documentai", "process", `{"process_options":{"from_start":7}}`, 7},
		{"documentai", "process", `{"processOptions":{"fromEnd":-7}}`, 0},
		{"documentai", "process", `{"rawDocument":{}}`, 0},
		{"documentai", "batchProcess", `{"processOptions":{"fromStart":7}}`, 0},
	} {
		kind, err := Find(c.kind)
		require.NoError(t, err)
		require.Equal(t, c.pages, kind.Charged(c.operation, strings.NewReader(c.body)), "%+v", c)
	}
}
