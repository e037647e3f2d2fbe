package provider

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// ocrspace is OCR.space: one synchronous call, whose failures come as a 200 with a flag in it, and whose refusals come as a sentence.
func ocrspace() *Provider {
	routes := []route{
		{http.MethodPost, "parse/image", Operation{Name: "parseImage", Repeat: Always, Judged: true}},
		{http.MethodGet, "parse/imageurl", Operation{Name: "parseImageUrl", Repeat: Always, Judged: true}},
	}
	return &Provider{
		Name:       "ocrspace",
		Operations: operations(routes),
		Portable:   []string{"parseImage", "parseImageUrl"},
		Operation:  recogniser(routes),
		Layout:     fingerprint.Layout{Form: []string{"base64Image", "base64image"}, FormRefs: []string{"url"}},
		Checks:     map[string]Checks{"parseImage": {}},
		Fault:      ocrspaceFault,
		Watch: []string{
			"IsErroredOnProcessing", "OCRExitCode", "ErrorMessage", "ErrorMessage[]", "ErrorDetails",
			"ParsedResults[].FileParseExitCode", "ParsedResults[].ErrorMessage",
		},
		Judge:       ocrspaceJudge,
		Result:      &Result{Operations: []string{"parseImage", "parseImageUrl"}, Text: []string{"ParsedResults[].ParsedText"}, Pages: []string{"ParsedResults[]{}"}},
		Signs:       []Sign{{Path: "OCRExitCode", Values: []string{"2"}, Means: Partial}},
		Table:       ocrspaceTable(),
		Problem:     ocrspaceProblem,
		Credentials: []string{"Apikey"},
	}
}

// ocrspaceFault reads an object with ErrorMessage, a JSON string, or plain text: the service's limits are told in the last two.
func ocrspaceFault(a classify.Attempt) classify.Fault {
	body := classify.ReadBody(a.Body)
	code := body.At("OCRExitCode").Text()
	if code != "" {
		code = ocrspaceExit + code
	}
	return classify.Fault{
		Codes:   classify.Codes(code),
		Message: classify.First(body.At("ErrorMessage").Text(), body.Text(), body.At("message").Text(), plainText(a.Body)),
	}
}

// plainText is a short body that is a sentence rather than data or a page.
func plainText(body []byte) string {
	const longest = 1000
	body = bytes.TrimSpace(body)
	if len(body) == 0 || len(body) > longest || bytes.ContainsAny(body[:1], "<{[\"") || bytes.ContainsRune(body, 0) {
		return ""
	}
	return strings.ToValidUTF8(string(body), "\uFFFD")
}

// The service has numbers only: these say which of its two fields a number is from.
const (
	ocrspaceExit = "OCRExitCode="
	ocrspaceFile = "FileParseExitCode="
)

// ocrspaceJudge finds the flag or a bad exit code. Exit code 2 means that some pages were read, which is a success like any partial result.
func ocrspaceJudge(_ string, v jsonstream.Found) (classify.Fault, bool) {
	exit := word(v, "OCRExitCode")
	flagged := isTrue(v, "IsErroredOnProcessing") || strings.EqualFold(v.String("IsErroredOnProcessing"), "true")
	if !flagged && (exit == "" || exit == "1" || exit == "2") {
		return classify.Fault{}, false
	}
	var codes []string
	if exit != "" {
		codes = append(codes, ocrspaceExit+exit)
	}
	files := words(v, "ParsedResults[].FileParseExitCode")
	if i := slices.IndexFunc(files, func(code string) bool { return code != "1" }); i >= 0 {
		codes = append(codes, ocrspaceFile+files[i])
	}
	if len(codes) == 0 {
		codes = append(codes, "IsErroredOnProcessing")
	}
	messages := slices.Concat(words(v, "ErrorMessage"), words(v, "ErrorMessage[]"), words(v, "ParsedResults[].ErrorMessage"), words(v, "ErrorDetails"))
	return classify.Fault{Codes: classify.Codes(codes...), Message: classify.First(messages...)}, true
}

func ocrspaceTable() classify.Table {
	var t classify.Table
	// "… upto maximum 500 number of times within 86400 seconds": a day's window is a quota, a shorter one a rate. Both come as 403 in the
	// main, which would otherwise mean a bad key, and sometimes inside a 200.
	for _, status := range [...]int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusOK} {
		for _, text := range [...]string{"within 86400 seconds", "daily", "monthly", "quota"} {
			t = append(t, classify.Row{Status: status, Text: text, Class: classify.Quota})
		}
		for _, text := range [...]string{"times within", "upto maximum", "rate limit", "too many requests", "concurrent"} {
			t = append(t, classify.Row{Status: status, Text: text, Class: classify.Throttle})
		}
	}
	return append(
		t,
		classify.Row{Status: http.StatusForbidden, Text: "limit", Class: classify.Throttle},
		classify.Row{Status: http.StatusOK, Text: "timed out", Class: classify.Transient},
		classify.Row{Status: http.StatusOK, Text: "timeout", Class: classify.Transient},
		classify.Row{Status: http.StatusOK, Text: "api key", Class: classify.Auth},
		classify.Row{Status: http.StatusOK, Code: ocrspaceExit + "4", Class: classify.Transient}, // the engine itself failed
	)
}

func ocrspaceProblem(p Problem) (http.Header, []byte) {
	exit := 3
	if p.Status >= http.StatusInternalServerError {
		exit = 4
	}
	return jsonProblem(map[string]any{
		"ParsedResults": nil, "OCRExitCode": exit, "IsErroredOnProcessing": true,
		"ErrorMessage": []string{p.Message}, "ErrorDetails": p.Reason, "ProcessingTimeInMilliseconds": "0",
	})
}
