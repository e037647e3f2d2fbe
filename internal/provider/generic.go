package provider

import (
	"net/http"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
)

// generic is any engine that speaks HTTP: nothing is known of it, so that the status decides and no text is guessed at.
func generic() *Provider {
	return &Provider{
		Name: "generic",
		Operation: func(r *http.Request) Operation {
			op := other(r.Method)
			op.Repeat = Always // self-hosted engines read a document and forget it; `ambiguous: never` says otherwise
			return op
		},
		Portable: []string{Other},
		Layout: fingerprint.Layout{
			Inline: []string{"document", "image", "file", "base64", "content", "data"},
			Refs:   []string{"url", "document_url", "image_url"},
			Form:   []string{"base64Image"}, FormRefs: []string{"url"},
		},
		// Of several engines, those that give large results as addresses.
		Signs: []Sign{{Path: "result.type", Values: []string{"url"}, Means: URLOnly}},
		// An empty field may be one that is left out, and another may hold the password.
		Checks:           map[string]Checks{Other: {Itself: true, Unsure: []precheck.Check{precheck.Empty, precheck.Encrypted}}},
		Fault:            genericFault,
		Problem:          genericProblem,
		RequestID:        []string{"X-Request-Id"},
		Credentials:      []string{"X-Api-Key", "App_key", "Unstructured-Api-Key"},
		Again:            stainlessAgain,
		ReadsShouldRetry: true, // several vendors without an adapter ship SDKs of the same generator as OpenAI's
	}
}

// stainlessAgain reads the count of retries that the SDKs of one generator send, OpenAI's among them.
func stainlessAgain(h http.Header) bool {
	count := h.Get("X-Stainless-Retry-Count")
	return count != "" && count != "0"
}

// genericFault looks for a code and a sentence where most APIs put them.
func genericFault(a classify.Attempt) classify.Fault {
	body := classify.ReadBody(a.Body)
	return classify.Fault{
		Codes: classify.Codes(classify.First(
			body.At("error", "code").Text(), body.At("code").Text(), body.At("error", "type").Text(), body.At("error_info", "id").Text(),
			body.At("errorCode").Text(), body.At("type").Text())),
		Message: classify.First(
			body.At("error", "message").Text(), body.At("message").Text(), body.At("error").Text(), body.At("detail").Text(),
			body.At("detail", "msg").Text(), body.At("error_message").Text(), body.At("errorMsg").Text(), body.At("title").Text()),
	}
}

func genericProblem(p Problem) (http.Header, []byte) {
	return jsonProblem(map[string]any{"error": map[string]any{"code": p.Reason, "message": p.Message, "type": "ocr_proxy", "param": nil}})
}
