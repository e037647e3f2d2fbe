package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJudgedAnswers(t *testing.T) {
	t.Parallel()
	poll := call{method: http.MethodGet, target: "/documentintelligence/documentModels/m/analyzeResults/1"}
	failed := `{"status":"failed","error":{"code":"InternalServerError","innererror":{"code":"Deep"}}}`
	for _, c := range []struct {
		name    string
		kind    string
		call    call
		steps   []step
		outcome string
		class   string
		reason  string
		code    string
	}{
		{"JSON", "mistral", call{target: ocrPath}, []step{{body: `{"pages":[]}`, header: jsonType}}, "success", "success", "", ""},
		{"labelled JSON and none", "mistral", call{target: ocrPath}, []step{{body: "<html>", header: jsonType}}, "permanent", "permanent", "malformed_output", "malformed_output"},
		{"JSON that ends too soon", "mistral", call{target: ocrPath}, []step{{body: `{"pages":[`, header: jsonType}}, "permanent", "permanent", "malformed_output", "malformed_output"},
		{"JSON of AWS that is none", "textract", call{target: "/", header: "X-Amz-Target: Textract.DetectDocumentText"}, []step{{body: "{", header: "Content-Type: application/x-amz-json-1.1"}}, "permanent", "permanent", "malformed_output", "malformed_output"},
		{"not labelled and no JSON", "mistral", call{target: ocrPath}, []step{{handle: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "plain")
		}}}, "success", "success", "", ""},
		{"labelled text", "mistral", call{target: ocrPath}, []step{{body: "{", header: "Content-Type: text/plain"}}, "success", "success", "", ""},
		{"zipped JSON is looked into", "azure", poll, []step{{body: zipped(t, failed), header: jsonType + "|Content-Encoding: gzip"}}, "permanent", "permanent", "", "Deep"},
		{"an encoding that cannot be undone is the worker's to judge", "mistral", call{target: ocrPath}, []step{{body: "\x01", header: jsonType + "|Content-Encoding: br"}}, "success", "success", "", ""},
		{"a job that failed", "azure", poll, []step{{body: failed, header: jsonType}}, "permanent", "permanent", "", "Deep"},
		{"a job that runs, with a polling interval", "azure", poll, []step{{body: `{"status":"running"}`, header: jsonType + "|Retry-After: 2"}}, "success", "success", "", ""},
		{
			"an engine that timed out in a 200", "ocrspace",
			call{target: "/parse/image"},
			[]step{{body: `{"IsErroredOnProcessing":true,"ErrorMessage":["Timed out waiting for results"]}`, header: jsonType}, {body: `{"OCRExitCode":1}`, header: jsonType}},
			"success", "success", "", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, defaults(c.kind), c.steps...)
				c.call.header += "|Accept-Encoding: gzip"
				r := l.send(t.Context(), c.call)
				require.NoError(t, r.err)
				require.Equal(t, 200, r.status)
				last := c.steps[len(c.steps)-1]
				if last.handle == nil {
					require.Equal(t, last.body, r.body, "passed on as it came")
				}
				require.Equal(t, headerOf(last.header).Get("Retry-After"), r.header.Get("Retry-After"))
				require.Equal(t, c.outcome, r.own("Outcome"))
				require.Equal(t, c.class, r.own("Class"))
				require.Equal(t, c.reason, r.own("Reason"))
				require.Len(t, l.upstream.attempts(), len(c.steps))
				require.Zero(t, l.circuit().Failures, "the provider is well")
				if c.outcome != "success" {
					require.Equal(t, 1, l.sink.count())
					require.Equal(t, c.code, l.sink.letters[0].ErrorCode)
					require.Equal(t, 200, *l.sink.letters[0].HTTPStatus)
				} else {
					require.Zero(t, l.sink.count())
				}
				l.quiet()
			})
		})
	}
}

func TestALargeJudgedAnswerIsSpilledAndPassedOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		text := `{"text":"` + strings.Repeat("a page. ", 400<<10) + `"}`
		l := newLab(t, defaults("mistral"), step{body: text, header: jsonType})
		r := l.send(t.Context(), call{target: ocrPath, body: "{}"})
		requireSame(t, text, r.body)
		l.quiet()
	})
}
