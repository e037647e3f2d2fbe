package provider

import (
	"net/http"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
)

// tika is Apache Tika Server, self-hosted, which reads pictures with Tesseract. A document that it cannot read is a 422 without a word or, where
// metadata are asked for as JSON, a 200 in which an exception stands. A document that takes too long costs all that are read at that moment: the
// server ends itself without an answer and is back some seconds later.
func tika() *Provider {
	var (
		read   = Operation{Name: "tika", Repeat: Always, Judged: true}
		all    = Operation{Name: "rmeta", Repeat: Always, Judged: true}
		facts  = Operation{Name: "rmeta.ignore", Repeat: Always, Judged: true} // no text is asked for
		meta   = Operation{Name: "meta", Repeat: Always}
		unpack = Operation{Name: "unpack", Repeat: Always}
		detect = Operation{Name: "detect", Repeat: Always}
		lang   = Operation{Name: "language", Repeat: Always}
	)
	const put, post = http.MethodPut, http.MethodPost
	routes := []route{
		{put, "rmeta/ignore", facts},
		{post, "rmeta/form/ignore", facts},
		{put, "rmeta", all},
		{put, "rmeta/*", all},
		{post, "rmeta/form", all},
		{post, "rmeta/form/*", all},
		{put, "tika", read},
		{put, "tika/*", read},
		{post, "tika/form", read},
		{post, "tika/form/*", read},
		{put, "meta", meta},
		{put, "meta/*", meta},
		{post, "meta/form", meta},
		{put, "unpack", unpack},
		{put, "unpack/*", unpack},
		{put, "detect/stream", detect},
		{put, "language/stream", lang},
		{post, "language/stream", lang},
		{put, "language/string", lang},
		{post, "language/string", lang},
	}
	itself := Checks{Itself: true, Unsure: []precheck.Check{precheck.Encrypted}} // a header may hold the password
	return &Provider{
		Name:       "tika",
		Operations: operations(routes),
		Operation:  recogniser(routes),
		Portable:   operations(routes),
		Layout:     fingerprint.Layout{}, // the body is the document, or the file of a form
		Checks:     map[string]Checks{read.Name: itself, all.Name: itself},
		Fault:      tikaFault,
		Watch: []string{
			tikaException, "[]." + tikaException,
			tikaParser, tikaParser + "[]", "[]." + tikaParser, "[]." + tikaParser + "[]",
		},
		Judge:  tikaJudge,
		Result: &Result{Operations: []string{read.Name, all.Name}, Text: []string{"X-TIKA:content", "[].X-TIKA:content"}},
		Signs: []Sign{
			{Path: tikaLimit, Values: []string{"true"}, Means: Truncated},
			{Path: "[]." + tikaLimit, Values: []string{"true"}, Means: Truncated},
		},
		// Tesseract is given too little time, or too little of the machine.
		Table: classify.Table{
			{Status: http.StatusOK, Text: "tesseractocrparser timeout", Class: classify.Transient},
			{Status: http.StatusUnprocessableEntity, Text: "tesseractocrparser timeout", Class: classify.Transient},
		},
		Problem: genericProblem, // the server's own errors have no body
		Shapes:  []string{"Password", "Writelimit", "Maxembeddedresources", "X-Tika-Ocrlanguage", "X-Tika-Pdfocrstrategy", "X-Tika-Pdfextractinlineimages", "X-Tika-Skip-Embedded"},
	}
}

const (
	tikaException = "X-TIKA:EXCEPTION:container_exception"
	tikaParser    = "X-TIKA:Parsed-By"
	tikaLimit     = "X-TIKA:EXCEPTION:write_limit_reached"
	tikaNoParser  = "EmptyParser"
)

// tikaFault reads the stack trace that servers give which are told to.
func tikaFault(a classify.Attempt) classify.Fault {
	if code, message := javaException(string(a.Body)); code != "" {
		return classify.Fault{Codes: classify.Codes(code), Message: classify.First(message, code)}
	}
	return genericFault(a)
}

// tikaJudge finds an exception that ended the reading of the document itself, and documents that no parser looked into. Exceptions about what is
// embedded in a document stand elsewhere.
func tikaJudge(_ string, v jsonstream.Found) (classify.Fault, bool) {
	if trace := classify.First(word(v, tikaException), word(v, "[]."+tikaException)); trace != "" {
		code, message := javaException(trace)
		return classify.Fault{Codes: classify.Codes(classify.First(code, "container_exception")), Message: classify.First(message, trace)}, true
	}
	parsers := 0
	for _, path := range [...]string{tikaParser, tikaParser + "[]", "[]." + tikaParser, "[]." + tikaParser + "[]"} {
		for _, name := range words(v, path) {
			if !strings.HasSuffix(name, "."+tikaNoParser) {
				return classify.Fault{}, false
			}
			parsers++
		}
	}
	if parsers == 0 {
		return classify.Fault{}, false
	}
	return classify.Fault{Codes: classify.Codes(tikaNoParser), Message: "no parser knows documents of this type"}, true
}

// javaException takes the first line of a stack trace apart; the code is the name of the class without its package, "" where there is none.
func javaException(trace string) (code, message string) {
	line, _, _ := strings.Cut(strings.TrimSpace(trace), "\n")
	class, message, _ := strings.Cut(line, ": ")
	class = strings.TrimSpace(class)
	dot := strings.LastIndexByte(class, '.')
	if dot <= 0 || strings.ContainsAny(class, " <>{}\"/") || !strings.HasSuffix(class, "Exception") && !strings.HasSuffix(class, "Error") {
		return "", ""
	}
	return strings.ToValidUTF8(class[dot+1:], "\uFFFD"), strings.ToValidUTF8(message, "\uFFFD")
}
