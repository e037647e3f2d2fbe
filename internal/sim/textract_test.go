package sim

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTextractDetectsText(t *testing.T) {
	p := launch(t, Options{Kind: KindTextract})
	got := p.textract(t, "DetectDocumentText", `{"Document":{"Bytes":"`+encode(tiffOf(printed("a"), printed("b")))+`"}}`)
	require.Equal(t, http.StatusOK, got.status, got.raw)
	require.Equal(t, "application/x-amz-json-1.1", got.header.Get("Content-Type"))
	require.Regexp(t, `^[0-9a-f-]{36}$`, got.header.Get("x-amzn-RequestId"))
	require.NotEmpty(t, got.header.Get("Date"))
	require.InDelta(t, 2, at(t, got.body, "DocumentMetadata", "Pages"), 0)
	require.Equal(t, "1.0", got.body["DetectDocumentTextModelVersion"])
	requireWholeGraph(t, got.body)
	require.Equal(t, 2, p.Stats().Pages)
}

// requireWholeGraph checks that every block is reachable from a page and has what the client libraries read.
func requireWholeGraph(t *testing.T, body map[string]any) {
	t.Helper()
	blocks, ok := at(t, body, "Blocks").([]any)
	require.True(t, ok)
	byID := map[string]any{}
	for _, b := range blocks {
		id, ok := at(t, b, "Id").(string)
		require.True(t, ok)
		require.NotContains(t, byID, id)
		byID[id] = b
	}
	reached := map[string]bool{}
	var visit func(id string)
	visit = func(id string) {
		b, ok := byID[id].(map[string]any)
		require.True(t, ok, "a relationship names the unknown block %s", id)
		reached[id] = true
		at(t, b, "Geometry", "BoundingBox", "Width")
		require.Len(t, at(t, b, "Geometry", "Polygon"), 4)
		if b["BlockType"] != "PAGE" {
			require.InDelta(t, 99, at(t, b, "Confidence"), 1)
		}
		relations, _ := b["Relationships"].([]any)
		for _, r := range relations {
			ids, ok := at(t, r, "Ids").([]any)
			require.True(t, ok)
			for _, child := range ids {
				text, ok := child.(string)
				require.True(t, ok)
				visit(text)
			}
		}
	}
	for id, b := range byID {
		if at(t, b, "BlockType") == "PAGE" {
			visit(id)
		}
	}
	require.Len(t, reached, len(byID))
}

func TestTextractFormsArePairs(t *testing.T) {
	p := launch(t, Options{Kind: KindTextract})
	body := `{"Document":{"S3Object":{"Bucket":"bucket","Name":"a.pdf"}},"FeatureTypes":["FORMS","TABLES"]}`
	got := p.textract(t, "AnalyzeDocument", body)
	require.Equal(t, http.StatusOK, got.status, got.raw)
	requireWholeGraph(t, got.body)
	require.Contains(t, got.raw, `"EntityTypes":["KEY"]`)
	require.Contains(t, got.raw, `s3://bucket/a.pdf`)
	require.NotContains(t, p.textract(t, "AnalyzeDocument", `{"Document":{"S3Object":{"Bucket":"b","Name":"n"}},"FeatureTypes":["TABLES"]}`).raw, "KEY")
}

func TestTextractExpenseAndID(t *testing.T) {
	p := launch(t, Options{Kind: KindTextract})
	doc := `{"Bytes":"` + encode(jpegOf(t, drawing(30, 30))) + `"}`
	expense := p.textract(t, "AnalyzeExpense", `{"Document":`+doc+`}`)
	require.Equal(t, "Format:", at(t, expense.body, "ExpenseDocuments", 0, "SummaryFields", 0, "LabelDetection", "Text"))
	require.Equal(t, "JPEG", at(t, expense.body, "ExpenseDocuments", 0, "SummaryFields", 0, "ValueDetection", "Text"))
	id := p.textract(t, "AnalyzeID", `{"DocumentPages":[`+doc+`,`+doc+`]}`)
	require.Equal(t, "FIRST_NAME", at(t, id.body, "IdentityDocuments", 0, "IdentityDocumentFields", 0, "Type", "Text"))
	require.InDelta(t, 2, at(t, id.body, "DocumentMetadata", "Pages"), 0)
}

func TestTextractErrors(t *testing.T) {
	p := launch(t, Options{Kind: KindTextract})
	png := pngOf(t, drawing(100, 100))
	tests := []struct {
		name, operation, body string
		status                int
		code                  string
	}{
		{"not a document", "DetectDocumentText", `{"Document":{"Bytes":"aGVsbG8="}}`, 400, "UnsupportedDocumentException"},
		{"cut image", "DetectDocumentText", `{"Document":{"Bytes":"` + encode(png[:len(png)/2]) + `"}}`, 400, "BadDocumentException"},
		{"too large", "DetectDocumentText", `{"Document":{"Bytes":"` + encode(make([]byte, textractMaxBytes+1)) + `"}}`, 400, "DocumentTooLargeException"},
		{"no document", "DetectDocumentText", `{}`, 400, "InvalidParameterException"},
		{"empty document", "DetectDocumentText", `{"Document":{"Bytes":""}}`, 400, "InvalidParameterException"},
		{"both sources", "DetectDocumentText", `{"Document":{"Bytes":"","S3Object":{}}}`, 400, "InvalidParameterException"},
		{"no object name", "DetectDocumentText", `{"Document":{"S3Object":{"Bucket":"b"}}}`, 400, "InvalidS3ObjectException"},
		{"no JSON", "DetectDocumentText", `{`, 400, "SerializationException"},
		{"no features", "AnalyzeDocument", `{"Document":{"Bytes":"` + encode(png) + `"}}`, 400, "InvalidParameterException"},
		{"odd feature", "AnalyzeDocument", `{"Document":{"Bytes":"` + encode(png) + `"},"FeatureTypes":["POETRY"]}`, 400, "InvalidParameterException"},
		{"three pages", "AnalyzeID", `{"DocumentPages":[{},{},{}]}`, 400, "InvalidParameterException"},
		{"unknown operation", "WriteDocument", `{}`, 404, "UnknownOperationException"},
		{"bytes in a job", "StartDocumentAnalysis", `{"DocumentLocation":{},"FeatureTypes":["FORMS"]}`, 400, "InvalidParameterException"},
		{"bad token", "StartDocumentTextDetection", `{"DocumentLocation":{"S3Object":{"Bucket":"b","Name":"n"}},"ClientRequestToken":"a b"}`, 400, "InvalidParameterException"},
		{"unknown job", "GetDocumentTextDetection", `{"JobId":"x"}`, 400, "InvalidJobIdException"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := p.textract(t, tt.operation, tt.body)
			require.Equal(t, tt.status, got.status, got.raw)
			require.Equal(t, tt.code, got.body["__type"])
			require.NotEmpty(t, got.body["Message"])
			require.NotEmpty(t, got.header.Get("x-amzn-RequestId"))
		})
	}
	stats := p.Stats()
	require.Equal(t, len(tests), stats.Rejected)
	require.Zero(t, stats.Pages)
	require.Equal(t, 1, stats.Operations[opOther].Requests)
}

func TestTextractJobRunsThenSucceeds(t *testing.T) {
	p := launch(t, Options{Kind: KindTextract, Faults: Faults{JobTime: time.Hour}})
	start := `{"DocumentLocation":{"S3Object":{"Bucket":"bucket","Name":"n"}},"FeatureTypes":["FORMS"]}`
	running := jobID(t, p.textract(t, "StartDocumentAnalysis", start))
	require.Equal(t, "IN_PROGRESS", p.textract(t, "GetDocumentAnalysis", `{"JobId":"`+running+`"}`).body["JobStatus"])

	require.NoError(t, p.SetFaults(Faults{}))
	done := jobID(t, p.textract(t, "StartDocumentAnalysis", start))
	require.NotEqual(t, running, done)
	got := p.textract(t, "GetDocumentAnalysis", `{"JobId":"`+done+`"}`)
	require.Equal(t, "SUCCEEDED", got.body["JobStatus"])
	require.Contains(t, got.raw, "KEY_VALUE_SET")
	requireWholeGraph(t, got.body)
	other := p.textract(t, "GetDocumentTextDetection", `{"JobId":"`+done+`"}`)
	require.Equal(t, "InvalidJobIdException", other.body["__type"], "a job belongs to its operation")
	require.Equal(t, 2, p.Stats().Jobs)
}

func jobID(t *testing.T, got received) string {
	t.Helper()
	require.Equal(t, http.StatusOK, got.status, got.raw)
	id, ok := got.body["JobId"].(string)
	require.True(t, ok)
	require.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, id)
	return id
}

func TestTextractTokenStartsOneJob(t *testing.T) {
	p := launch(t, Options{Kind: KindTextract})
	first := `{"DocumentLocation":{"S3Object":{"Bucket":"bucket","Name":"n"}},"ClientRequestToken":"t-1"}`
	reordered := `{"ClientRequestToken":"t-1", "DocumentLocation":{"S3Object":{"Name":"n","Bucket":"bucket"}}}`
	changed := `{"DocumentLocation":{"S3Object":{"Bucket":"bucket","Name":"n"}},"ClientRequestToken":"t-1","JobTag":"x"}`
	id := jobID(t, p.textract(t, "StartDocumentTextDetection", first))
	require.Equal(t, id, jobID(t, p.textract(t, "StartDocumentTextDetection", reordered)))
	mismatch := p.textract(t, "StartDocumentTextDetection", changed)
	require.Equal(t, 400, mismatch.status)
	require.Equal(t, "IdempotentParameterMismatchException", mismatch.body["__type"])
	require.NotEqual(t, id, jobID(t, p.textract(t, "StartExpenseAnalysis", first)), "a token belongs to its operation")
	require.Equal(t, 2, p.Stats().Jobs)
	require.Equal(t, 2, p.Stats().Pages)
}

func TestTextractTokenStartsOneJobForManyAtOnce(t *testing.T) {
	p := launch(t, Options{Kind: KindTextract})
	body := `{"DocumentLocation":{"S3Object":{"Bucket":"bucket","Name":"n"}},"ClientRequestToken":"same"}`
	ids := make([]string, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			got := p.textract(t, "StartDocumentTextDetection", body)
			ids[i], _ = got.body["JobId"].(string)
		})
	}
	wg.Wait()
	require.Len(t, slices.Compact(ids), 1)
	require.NotEmpty(t, ids[0])
	require.Equal(t, 1, p.Stats().Jobs)
}

func TestTextractRepeatAfterALostAnswerFindsTheJob(t *testing.T) {
	p := launch(t, Options{Kind: KindTextract, Faults: Faults{Script: []Step{{Lose: true}}}})
	body := `{"DocumentLocation":{"S3Object":{"Bucket":"bucket","Name":"n"}},"ClientRequestToken":"t"}`
	_, err := p.send(t, http.MethodPost, "/", body, "X-Amz-Target", "Textract.StartDocumentTextDetection")
	require.Error(t, err)
	require.Equal(t, 1, p.Stats().Jobs, "the work behind a lost answer was done")
	jobID(t, p.textract(t, "StartDocumentTextDetection", body))
	require.Equal(t, 1, p.Stats().Jobs)
	require.Equal(t, 1, p.Stats().Pages)
}
