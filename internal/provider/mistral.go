package provider

import (
	"io"
	"net/http"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
)

// mistral is the OCR of Mistral AI with the calls around it: file uploads, batches and chat with images.
func mistral() *Provider {
	routes := mistralRoutes()
	return &Provider{
		Name:       "mistral",
		Operations: operations(routes),
		Portable:   []string{"ocr", "chat.completions", "embeddings"},
		Operation:  recogniser(routes),
		Layout: fingerprint.Layout{
			Inline: []string{
				"document.document_url", "document.image_url", "document.image_url.url",
				"messages[].content[].document_url", "messages[].content[].image_url", "messages[].content[].image_url.url",
			},
			Refs: []string{"document.file_id", "messages[].content[].file_id"},
		},
		// All pages of a document count, also those that a call does not ask for.
		Checks: map[string]Checks{"ocr": {Limits: precheck.Limits{Pages: 1000}}},
		Fault:  mistralFault,
		Watch: []string{
			"object", "message", "type", "code", "error", "error.message", "error.type", "error.code",
			"status", "failed_requests", "errors[].message",
		},
		Judge: mistralJudge,
		Signs: []Sign{{Path: "choices[].finish_reason", Values: []string{"length", "model_length"}, Means: Truncated}},
		Words: &Words{At: []string{"pages[].confidence_scores.word_confidence_scores[]"}, Score: "confidence", Most: 1}, // only when asked for
		Result: &Result{
			Operations: []string{"ocr", "chat.completions"},
			Text:       []string{"pages[].markdown", "choices[].message.content", "choices[].message.content[].text", "choices[].message.tool_calls[].function.arguments"},
			Pages:      []string{"pages[]{}"},
			SomePages: func(_ string, body io.Reader) bool {
				found, err := jsonstream.Pick(body, []string{"pages", "pages[]"}, maxWord)
				return err != nil || found.Has("pages[]") || found.Has("pages") && found["pages"][0].Type != jsonstream.Null
			},
		},
		Structured: &Structured{Asked: []StructuredOutput{
			chatOutput(),
			{Path: "document_annotation_format.type", Words: []string{jsonObject, "json_schema"}, Outputs: []Output{{Path: "document_annotation"}}},
			{Path: "bbox_annotation_format.type", Words: []string{jsonObject, "json_schema"}, Outputs: []Output{{Path: "pages[].images[].image_annotation"}}},
		}},
		Charged:   mistralCharged,
		Jobs:      mistralJobs(),
		Pages:     mistralPages(),
		Table:     mistralTable(),
		Problem:   mistralProblem,
		RequestID: []string{"Mistral-Correlation-Id", "X-Kong-Request-Id"},
	}
}

func mistralRoutes() []route {
	read := func(name string) Operation { return Operation{Name: name, Repeat: Always} }
	judged := func(name string) Operation { return Operation{Name: name, Repeat: Always, Judged: true} }
	return []route{
		{http.MethodPost, "ocr", judged("ocr")},
		{http.MethodPost, "chat/completions", judged("chat.completions")},
		{http.MethodPost, "embeddings", judged("embeddings")},
		{http.MethodPost, "batch/jobs", Operation{Name: "batch.jobs.create", Repeat: IfUnsent}},
		{http.MethodGet, "batch/jobs", read("batch.jobs.list")},
		{http.MethodGet, "batch/jobs/*", judged("batch.jobs.get")},
		{http.MethodPost, "batch/jobs/*/cancel", read("batch.jobs.cancel")},
		{http.MethodPost, "files", read("files.upload")}, // uploads are told apart by their content: a second one is the same file
		{http.MethodGet, "files", read("files.list")},
		{http.MethodGet, "files/*", read("files.retrieve")},
		{http.MethodGet, "files/*/content", read("files.download")},
		{http.MethodGet, "files/*/url", read("files.signed_url")},
		{http.MethodDelete, "files/*", read("files.delete")},
		{http.MethodGet, "models", read("models.list")},
		{http.MethodGet, "models/*", read("models.get")},
	}
}

// mistralFault reads {"object": "error", "message", "type", "code"}, where the code is a number in a string or null, and the list of
// complaints under "detail" that the framework behind it sends for requests it cannot read.
func mistralFault(a classify.Attempt) classify.Fault {
	body := classify.ReadBody(a.Body)
	return classify.Fault{
		Codes: append(mistralCodes(body.At("type").Text(), body.At("code").Text()), mistralCodes(body.At("error", "type").Text(), body.At("error", "code").Text())...),
		Message: classify.First(body.At("message").Text(), body.At("message", "detail", "msg").Text(), body.At("message", "detail").Text(),
			body.At("detail", "msg").Text(), body.At("detail").Text(), body.At("error", "message").Text(), body.At("error").Text()),
	}
}

// mistralCodes puts first what says more: a type such as document_parser_invalid_file speaks, its code 3740 is a number to look up. Only
// where the type names no more than a kind of error does the code come first.
func mistralCodes(kind, code string) []string {
	switch kind {
	case "invalid_request_error", "api_error", "server_error", "internal_server_error", "error":
		return classify.Codes(code, kind)
	}
	return classify.Codes(kind, code)
}

func mistralJudge(operation string, v jsonstream.Found) (classify.Fault, bool) {
	if operation == "batch.jobs.get" || v.String("object") == "batch" {
		return mistralBatch(v)
	}
	if v.String("object") == "error" {
		return classify.Fault{Codes: append(mistralCodes(word(v, "type"), word(v, "code")), "error"), Message: classify.First(word(v, "message"))}, true
	}
	return errorObject(v)
}

// mistralBatch judges a batch: it failed as a whole, or it is through and some of its documents failed, of which nobody else would tell.
func mistralBatch(v jsonstream.Found) (classify.Fault, bool) {
	status := v.String("status")
	failed, _ := v.Int("failed_requests")
	switch {
	case status == "FAILED", status == "TIMEOUT_EXCEEDED", status == "CANCELLED":
	case status == "SUCCESS" && failed > 0:
		status = "failed_requests"
	default:
		return classify.Fault{}, false
	}
	return classify.Fault{Codes: []string{status}, Message: classify.First(words(v, "errors[].message")...), Job: true}, true
}

func mistralTable() classify.Table {
	t := classify.Table{
		{Status: http.StatusTooManyRequests, Text: "monthly", Class: classify.Quota},
		{Status: http.StatusTooManyRequests, Class: classify.Throttle}, // its type may well be that of a bad request
	}
	return append(t, codes(classify.Permanent, "document_parser_invalid_file", "3740", "document_parser_too_many_pages", "3730",
		"invalid_request_file", "3310", "model_not_found", "3040")...)
}

func mistralProblem(p Problem) (http.Header, []byte) {
	return jsonProblem(map[string]any{"object": "error", "message": p.Message, "type": "ocr_proxy", "param": nil, "code": p.Reason})
}
