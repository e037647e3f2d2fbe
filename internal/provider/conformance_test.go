package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
)

// hostile are bodies that no documentation promises.
func hostile() map[string]string {
	return map[string]string{
		"empty":          "",
		"spaces":         " \n",
		"page":           "<!DOCTYPE html><html><body>limit, quota, timeout</body></html>",
		"null":           "null",
		"number":         "429",
		"text":           `"busy"`,
		"list":           "[1,2]",
		"list of lists":  "[[],[{}]]",
		"object":         "{}",
		"wrong types":    `{"error":{"code":{"a":1},"message":[],"status":7,"details":{"x":1},"innererror":[]},"__type":[],"message":{},"type":9,"code":[[]]}`,
		"error null":     `{"error":null,"detail":null,"message":null}`,
		"error text":     `{"error":"no"}`,
		"error list":     `{"error":[{"code":"x"}],"detail":[{"msg":7},"x"]}`,
		"odd details":    `{"error":{"status":"RESOURCE_EXHAUSTED","details":[7,null,"x",[],{"@type":7},{"@type":"RetryInfo","retryDelay":{}},{"@type":"a.ErrorInfo","metadata":[]}]}}`,
		"huge numbers":   `{"error":{"code":1e400,"status":""},"OCRExitCode":99999999999999999999,"statusCode":-1}`,
		"truncated":      `{"error":{"code":"Inv`,
		"invalid UTF-8":  "{\"error\":{\"code\":\"\xff\xfe\",\"message\":\"\xc3\"}}",
		"two objects":    `{"error":{"code":"a"}}{"error":{"code":"b"}}`,
		"duplicate keys": `{"error":{"code":"a","code":"b"},"error":{"code":"c"}}`,
	}
}

// huge are bodies that are dear to read.
func huge() map[string]string {
	return map[string]string{
		"deep lists":   strings.Repeat("[", 50_000),
		"deep objects": strings.Repeat(`{"error":`, 20_000),
		"deep inner":   `{"error":` + strings.Repeat(`{"code":"x","innererror":`, 5_000) + "{}" + strings.Repeat("}", 5_001),
		"long code":    `{"error":{"code":"` + strings.Repeat("é", 50_000) + `","message":"` + strings.Repeat("é", 50_000) + `"}}`,
		"many details": `{"error":{"details":[` + strings.Repeat(`{"@type":"x.ErrorInfo","reason":"R"},`, 2_000) + `{}]}}`,
	}
}

func TestAnyErrorAnswerGetsAClass(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, p *Provider, status int, name, body string) {
		t.Helper()
		a := classify.Attempt{Sent: true, Status: status, Header: http.Header{}, Body: []byte(body)}
		f := p.Fault(a)
		bounded(t, f)
		v := classify.Decide(a, f, nil, p.Table)
		require.NotEmpty(t, v.Reason, "%s: %d %s", p.Name, status, name)
		require.Contains(t, classify.Classes(), v.Class)
		if status >= 400 {
			require.NotEqual(t, classify.Success, v.Class, "%s: %d %s", p.Name, status, name)
		}
		if status >= 500 && status <= 504 && status != http.StatusNotImplemented && name != "odd details" {
			require.True(t, v.Class.Retryable(), "%s: %d %s: %s", p.Name, status, name, v.Reason)
		}
	}
	for _, p := range All() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			for status := 100; status < 600; status++ {
				for name, body := range hostile() {
					check(t, p, status, name, body)
				}
			}
			for name, body := range huge() {
				check(t, p, http.StatusServiceUnavailable, name, body)
				check(t, p, http.StatusForbidden, name, body)
			}
		})
	}
}

func bounded(t testing.TB, f classify.Fault) {
	t.Helper()
	require.LessOrEqual(t, len(f.Message), 1000)
	require.LessOrEqual(t, len(f.Codes), 32)
	for _, code := range f.Codes {
		require.NotEmpty(t, code)
		require.LessOrEqual(t, len(code), 128)
	}
}

func TestOperationNamesComeFromTheList(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("/a", 5_000)
	for _, p := range All() {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodPut, "BREW", ""} {
			for _, u := range []*url.URL{
				{},
				{Path: "*"},
				{Path: "/"},
				{Path: "//"},
				{Path: ":process"},
				{Path: "/:analyze"},
				{Path: "/documentModels/"},
				{Path: long},
				{Path: "/processors/\x00:process"},
				{Path: "/\xff\xfe/ocr"},
				{Path: "/v1/ocr/../ocr"},
				{Opaque: "opaque"},
				{Path: "/a b/ocr", RawPath: "/a%20b/%zz"},
				{Path: "/operations/ſ"},
				{Path: "/" + strings.Repeat(":analyze", 999)},
			} {
				r := &http.Request{Method: method, URL: u, Header: http.Header{"X-Amz-Target": {"Textract." + u.Path}}}
				op := p.Operation(r)
				if op.Name != Other {
					require.Contains(t, p.Operations, op.Name)
				}
			}
		}
	}
}

func TestProblemsReadAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		for status, want := range map[int]classify.Class{
			http.StatusBadRequest: classify.Permanent, http.StatusRequestEntityTooLarge: classify.Permanent,
			http.StatusUnprocessableEntity: classify.Permanent, http.StatusBadGateway: classify.Transient,
			http.StatusServiceUnavailable: classify.Transient, http.StatusGatewayTimeout: classify.Transient,
		} {
			for _, reason := range []string{"circuit_open", "queue_full", "attempt_timeout", "precheck", "shutdown"} {
				message := "the queue is full or the time limit of a timeout is over; the provider was not asked"
				header, body := p.Problem(Problem{Status: status, Message: message, Reason: reason})
				require.NotEmpty(t, header.Get("Content-Type"))
				var object map[string]any
				require.NoError(t, json.Unmarshal(body, &object), p.Name)
				require.NotContains(t, []any{message}, object["error"], "a bare text under error breaks SDKs")

				a := classify.Attempt{Sent: true, Status: status, Header: header, Body: body}
				f := p.Fault(a)
				require.Equal(t, message, f.Message, p.Name)
				v := classify.Decide(a, f, nil, p.Table)
				require.Equal(t, want, v.Class, "%s %d %s: %s", p.Name, status, reason, v.Reason)
			}
		}
	}
}

// Google's clients look at the status more than at the number, and at the detail for what to tell people.
func TestGoogleProblem(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		http.StatusBadRequest: "INVALID_ARGUMENT", http.StatusBadGateway: "INTERNAL",
		http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
	} {
		_, body := googleProblem(Problem{Status: status, Message: "m", Reason: "circuit_open"})
		require.JSONEq(t, fmt.Sprintf(`{"error":{"code":%d,"message":"m","status":%q,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo",
			"reason":"CIRCUIT_OPEN","domain":"ocr-proxy","metadata":{}}]}}`, status, want), string(body))
	}
}

func TestTextractProblemTellsItsCodeTwice(t *testing.T) {
	t.Parallel()
	header, body := awsProblem(Problem{Status: http.StatusServiceUnavailable, Message: "m", Reason: "circuit_open"})
	require.Equal(t, "ServiceUnavailableException", header.Get("X-Amzn-Errortype"))
	require.JSONEq(t, `{"__type":"ServiceUnavailableException","message":"m"}`, string(body))
}

func TestTablesHaveNoRowTwice(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		seen := map[classify.Row]bool{}
		for _, row := range p.Table {
			require.Equal(t, strings.ToLower(row.Text), row.Text, "texts are compared in lower case")
			if row.Operation != "" {
				require.Contains(t, p.Operations, row.Operation)
			}
			row.Class = classify.Unknown
			require.False(t, seen[row], "%s: %s", p.Name, row)
			seen[row] = true
		}
	}
}

func TestDescriptionsAreComplete(t *testing.T) {
	t.Parallel()
	var kinds []string
	for _, p := range All() {
		require.NotContains(t, kinds, p.Name)
		kinds = append(kinds, p.Name)
		found, err := Find(p.Name)
		require.NoError(t, err)
		require.Equal(t, p.Name, found.Name)

		require.NotNil(t, p.Operation, p.Name)
		require.NotNil(t, p.Fault, p.Name)
		require.NotNil(t, p.Problem, p.Name)
		if p.Name != "tika" { // its requests are documents, and nothing in them leads to one
			require.NotEmpty(t, slices.Concat(p.Layout.Inline, p.Layout.Form), p.Name)
			require.NotEmpty(t, slices.Concat(p.Layout.Refs, p.Layout.FormRefs), p.Name)
		}
		require.Equal(t, p.Judge != nil, len(p.Watch) > 0, "%s: judging needs paths and paths need a judge", p.Name)
		for _, list := range [][]string{p.Operations, p.Watch, p.RequestID, p.Credentials, p.Layout.Inline, p.Layout.Refs} {
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(list))), len(list), "%s: something is listed twice", p.Name)
		}
		require.NotContains(t, p.Operations, Other)
		for _, name := range slices.Concat(p.RequestID, p.Credentials) {
			require.Equal(t, http.CanonicalHeaderKey(name), name, p.Name)
		}
		tokened := false
		for _, c := range calls() {
			if c.kind == p.Name {
				op := p.Operation(c.request(t))
				tokened = tokened || op.Tokened
				require.True(t, !op.Judged || p.Judge != nil, "%s: %s is judged by nobody", p.Name, op.Name)
			}
		}
		require.Equal(t, p.TokenField != "", tokened, p.Name)
	}
	require.Equal(t, []string{"textract", "azure", "documentai", "vision", "mistral", "ocrspace", "openai", "tika", "generic"}, kinds)
	_, err := Find("tesseract")
	require.ErrorContains(t, err, "mistral")
}

func TestDescriptionsAreNotShared(t *testing.T) {
	t.Parallel()
	a, b := documentai(), documentai()
	a.Watch[0], a.Table[0].Code, a.Operations[0] = "x", "x", "x"
	require.NotEqual(t, "x", b.Watch[0])
	require.NotEqual(t, "x", b.Table[0].Code)
	require.NotEqual(t, "x", b.Operations[0])
}

func BenchmarkOperationAzure(b *testing.B) {
	p := azure()
	r := httptest.NewRequest(http.MethodGet, "/documentintelligence/documentModels/prebuilt-read/analyzeResults/1?api-version=2024-11-30", nil)
	b.ReportAllocs()
	for b.Loop() {
		p.Operation(r)
	}
}
