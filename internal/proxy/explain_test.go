package proxy

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
)

// What explain says of an answer must be what the proxy makes of it when it comes.
func TestExplainAgreesWithTheLiveVerdict(t *testing.T) {
	t.Parallel()
	rules := classify.Table{{Status: 409, Class: classify.Transient}}
	for _, c := range []struct {
		kind, target, header, operation string
		step                            step
		class, code                     string
	}{
		{"generic", "/ocr", "", "other", step{body: "text"}, "success", ""},
		{"generic", "/ocr", "", "other", step{status: 429, header: "Retry-After: 172800"}, "quota", ""},
		{"generic", "/ocr", "", "other", step{status: 409}, "transient", ""},
		{"generic", "/ocr", "", "other", step{status: 400, body: `{"code":"bad"}`}, "permanent", "bad"},
		{"textract", "/", "X-Amz-Target: Textract.StartDocumentAnalysis", "StartDocumentAnalysis", step{status: 400, body: `{"__type":"LimitExceededException"}`}, "throttle", "LimitExceededException"},
		{"textract", "/", "X-Amz-Target: Textract.AnalyzeID", "AnalyzeID", step{status: 400, header: "X-Amzn-Errortype: ThrottlingException:http://x"}, "throttle", "ThrottlingException"},
		{"mistral", ocrPath, "", "ocr", step{body: "<html>", header: jsonType}, "permanent", malformedOutput},
		{"mistral", ocrPath, "", "ocr", step{body: `{"object":"error","code":"1300","message":"x"}`, header: jsonType}, "permanent", "1300"},
		{"azure", "/documentModels/m/analyzeResults/1", "", "getAnalyzeResult", step{body: `{"status":"failed","error":{"code":"X"}}`, header: jsonType}, "permanent", "X"},
		{"azure", "/documentModels/m/analyzeResults/1", "", "getAnalyzeResult", step{body: `{"status":"running"}`, header: jsonType}, "success", ""},
		{"ocrspace", "/parse/image", "", "parseImage", step{body: `{"OCRExitCode":4}`, header: jsonType}, "transient", "OCRExitCode=4"},
		{"tika", "/tika/form/text", "", "tika", step{body: `{"X-TIKA:Parsed-By":"org.apache.tika.parser.EmptyParser"}`, header: jsonType}, "permanent", "EmptyParser"},
	} {
		t.Run(c.kind+" "+c.class, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := defaults(c.kind)
				s.policy.MaxAttempts = 1
				s.account = func(a *Account) { a.Rules = rules }
				l := newLab(t, s, c.step)
				method := http.MethodPost
				if c.kind == "azure" {
					method = http.MethodGet
				}
				r := l.send(t.Context(), call{method: method, target: c.target, header: c.header, body: "{}"})
				status := max(http.StatusOK, c.step.status)
				v := Explain(l.account.Provider, rules, classify.Attempt{
					Operation: c.operation, Sent: true, Status: status, Header: headerOf(c.step.header), Body: []byte(c.step.body),
				}, time.Now())
				require.Equal(t, c.class, v.Class.String())
				require.Equal(t, c.class, r.own("Class"))
				require.Equal(t, c.code, v.Code)
				if c.class != "success" {
					require.Equal(t, c.code, l.sink.letters[0].ErrorCode)
					require.Equal(t, v.Message, l.sink.letters[0].ErrorMessage)
					require.Equal(t, c.operation, l.sink.letters[0].Operation)
				}
			})
		})
	}
}

func TestTraceID(t *testing.T) {
	t.Parallel()
	const id = "0af7651916cd43dd8448eb211c80319c"
	for parent, want := range map[string]string{
		"00-" + id + "-b7ad6b7169203331-01":       id,
		"cc-" + id + "-b7ad6b7169203331-01-later": id,
		"":                             "",
		"00-" + id:                     "",
		"00-short-b7ad6b7169203331-01": "",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01": "",
		"00-<script>alert(1)</script>1234567-b7ad-01":             "",
	} {
		require.Equal(t, want, traceID(parent), parent)
	}
}
