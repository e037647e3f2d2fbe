package provider

import (
	"net/http"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// openai is any server that speaks OpenAI's protocol, such as vLLM with a vision model that reads pages.
func openai() *Provider {
	routes := openaiRoutes()
	return &Provider{
		Name:       "openai",
		Operations: operations(routes),
		Portable:   []string{"chat.completions", "responses", "completions", "embeddings"},
		Operation:  recogniser(routes),
		Layout: fingerprint.Layout{
			Inline: []string{
				"messages[].content[].image_url.url", "messages[].content[].image_url", "messages[].content[].file.file_data",
				"input[].content[].image_url", "input[].content[].file_data",
			},
			Refs: []string{"messages[].content[].file.file_id", "input[].content[].file_id", "input[].content[].file_url"},
		},
		Checks: map[string]Checks{"chat.completions": {}, "responses": {}},
		Fault:  openaiFault,
		Watch:  []string{"status", "error", "error.message", "error.type", "error.code"},
		Judge:  openaiJudge,
		Signs: []Sign{
			{Path: "choices[].finish_reason", Values: []string{"length"}, Means: Truncated},
			{Path: "incomplete_details.reason", Values: []string{"max_output_tokens"}, Means: Truncated},
		},
		Result: &Result{
			Operations: []string{"chat.completions", "responses"},
			Text: []string{ // what a tool is called with is an answer, too
				"choices[].message.content", "choices[].message.content[].text", "choices[].message.tool_calls[].function.arguments",
				"output[].content[].text", "output[].arguments",
			},
			Watch: []string{"status"},
			Whole: func(v jsonstream.Found) bool { return !v.Has("status") || v.String("status") == "completed" },
		},
		Structured: &Structured{Asked: []StructuredOutput{
			chatOutput(),
			{Path: "text.format.type", Words: []string{jsonObject, "json_schema"}, Outputs: []Output{
				{Path: "output[].content[].text", Item: "output[].content[]", But: "reasoning_text"},
			}},
		}},
		Table:            openaiTable(),
		Problem:          genericProblem,
		RequestID:        []string{"X-Request-Id"},
		Credentials:      []string{"Api-Key"},
		Again:            stainlessAgain,
		ReadsShouldRetry: true,
	}
}

func openaiRoutes() []route {
	read := func(name string) Operation { return Operation{Name: name, Repeat: Always} }
	judged := func(name string) Operation { return Operation{Name: name, Repeat: Always, Judged: true} }
	change := func(name string) Operation { return Operation{Name: name, Repeat: IfUnsent} }
	return []route{
		{http.MethodPost, "chat/completions", judged("chat.completions")},
		{http.MethodPost, "responses", judged("responses")},
		{http.MethodGet, "responses/*", judged("responses.get")},
		{http.MethodPost, "completions", judged("completions")},
		{http.MethodPost, "embeddings", judged("embeddings")},
		{http.MethodGet, "models", read("models")},
		{http.MethodGet, "models/*", read("models")},
		{http.MethodPost, "files", change("files.upload")},
		{http.MethodGet, "files", read("files")},
		{http.MethodGet, "files/*", read("files")},
		{http.MethodGet, "files/*/content", read("files")},
		{http.MethodDelete, "files/*", read("files.delete")},
		{http.MethodPost, "batches", change("batches.create")},
		{http.MethodGet, "batches/*", judged("batches.get")},
	}
}

// openaiFault reads {"error": {"message", "type", "code"}}. Some servers write the status as the code, so that their type says more; others
// send the object without its wrapping, or a bare text.
func openaiFault(a classify.Attempt) classify.Fault {
	body := classify.ReadBody(a.Body)
	at := body.At("error")
	if at.At("message").Text() == "" && at.At("type").Text() == "" {
		at = body
	}
	return classify.Fault{
		Codes: openaiCodes(at.At("code").Text(), at.At("type").Text()),
		Message: classify.First(at.At("message").Text(), body.At("error").Text(), body.At("detail", "msg").Text(), body.At("detail").Text(),
			body.Text()),
	}
}

func openaiCodes(code, kind string) []string {
	if len(code) == 3 && code[0] >= '1' && code[0] <= '5' { // a status
		return classify.Codes(kind, code)
	}
	return classify.Codes(code, kind)
}

func openaiJudge(operation string, v jsonstream.Found) (classify.Fault, bool) {
	f, found := errorObject(v)
	status := v.String("status")
	if operation == "responses.get" || operation == "batches.get" {
		if status != "failed" && status != "expired" {
			return classify.Fault{}, false
		}
		f.Codes, f.Job, found = append(f.Codes, status), true, true
	}
	return f, found
}

// errorObject finds an error at the top of an answer that is called good.
func errorObject(v jsonstream.Found) (classify.Fault, bool) {
	message := classify.First(word(v, "error.message"), word(v, "error"))
	codes := openaiCodes(word(v, "error.code"), word(v, "error.type"))
	if message == "" && len(codes) == 0 {
		return classify.Fault{}, false
	}
	return classify.Fault{Codes: append(codes, "error"), Message: message}, true
}

func openaiTable() classify.Table {
	t := codes(classify.Quota, "insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
	t = append(t, codes(classify.Throttle, "rate_limit_exceeded", "overloaded_error", "server_overloaded")...)
	t = append(t,
		classify.Row{Status: http.StatusServiceUnavailable, Text: "overloaded", Class: classify.Throttle},
		classify.Row{Status: http.StatusServiceUnavailable, Code: "503", Text: "queue", Class: classify.Throttle}, // vLLM that admits no more
		classify.Row{Status: http.StatusConflict, Class: classify.Transient},                                      // a lock that was not got in time
	)
	// Gateways that answer 200 and tell of an upstream's failure inside.
	t = append(t, classify.Row{Status: http.StatusOK, Code: "429", Class: classify.Throttle})
	for _, code := range [...]string{"408", "500", "502", "503", "504", "server_error", "internal_error", "InternalServerError"} {
		t = append(t, classify.Row{Status: http.StatusOK, Code: code, Class: classify.Transient})
	}
	return t
}
