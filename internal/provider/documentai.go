package provider

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
)

// documentai is Google Document AI over REST. Requests may spell their fields in camel case or with underscores.
func documentai() *Provider {
	routes := documentaiRoutes()
	return &Provider{
		Name:       "documentai",
		Operations: operations(routes),
		Portable:   []string{"process", "batchProcess"},
		Operation:  recogniser(routes),
		Layout: fingerprint.Layout{
			Inline: []string{"rawDocument.content", "raw_document.content", "inlineDocument.content", "inline_document.content"},
			Refs: []string{
				"gcsDocument.gcsUri", "gcs_document.gcs_uri", "inlineDocument.uri", "inline_document.uri",
				"inputDocuments.gcsDocuments.documents[].gcsUri", "input_documents.gcs_documents.documents[].gcs_uri",
				"inputDocuments.gcsPrefix.gcsUriPrefix", "input_documents.gcs_prefix.gcs_uri_prefix",
			},
		},
		Checks: map[string]Checks{"process": {
			Limits: precheck.Limits{
				Types: []precheck.Type{
					precheck.PDF, precheck.GIF, precheck.TIFF, precheck.JPEG, precheck.PNG, precheck.BMP, precheck.WEBP,
					precheck.HTML, precheck.DOCX, precheck.PPTX, precheck.XLSX,
				},
				Bytes: 40 << 20, Pages: 30, Pixels: 40_000_000, // pages: of the processor that takes most
			},
			Selects: func(_ string, body io.Reader) bool { return documentaiCharged("process", body) > 0 },
		}},
		Fault: googleFault,
		Watch: append(googleOperationPaths(),
			"document.error.code", "document.error.message", "humanReviewStatus.state", "humanReviewStatus.stateMessage",
			"metadata.@type", "metadata.state", "metadata.stateMessage",
			"metadata.individualProcessStatuses[].status.code", "metadata.individualProcessStatuses[].status.message"),
		Judge:     documentaiJudge,
		Words:     &Words{At: []string{"document.pages[].tokens[]"}, Score: "layout.confidence", Most: 1, DropsZero: true},
		Documents: documentaiDocuments(),
		Result: &Result{
			Operations: []string{"process"},
			Text:       []string{"document.text", "document.entities[].mentionText"},
			Pages:      []string{"document.pages[]{}"},
			Asked:      documentaiWantsText,
			SomePages:  func(_ string, body io.Reader) bool { return documentaiCharged("process", body) > 0 },
		},
		Charged:    documentaiCharged,
		QuotaPages: 30,
		Jobs:       documentaiJobs(),
		Pages:      documentaiPages(),
		// A document that failed inside a good answer was processed, and very likely billed: nobody repeats that unasked.
		Table:       append(classify.Table{{Status: http.StatusOK, Operation: "process", Class: classify.Permanent}}, googleTable()...),
		Problem:     googleProblem,
		Credentials: []string{"X-Goog-Api-Key"},
		Shapes:      []string{"X-Goog-Fieldmask"},
		GRPC:        documentaiGRPC(),
	}
}

// documentaiDocuments are called document, since an answer does not name its processor. The name of a property says which entity it is of.
func documentaiDocuments() *Documents {
	list := func(at string) FieldList {
		return FieldList{At: at, Name: "type", Score: "confidence", Values: []string{"mentionText", "normalizedValue.text"}}
	}
	return &Documents{
		At:   []DocumentPlace{{At: "document", Fixed: "document", Lists: []FieldList{list("entities[]"), list("entities[].properties[]")}}},
		Most: 1, DropsZero: true,
	}
}

func documentaiJobs() *Jobs { return googleJobs("batchProcess") }

func documentaiRoutes() []route {
	read := func(name string) Operation { return Operation{Name: name, Repeat: Always} }
	judged := func(name string) Operation { return Operation{Name: name, Repeat: Always, Judged: true} }
	change := func(name string) Operation { return Operation{Name: name, Repeat: IfUnsent} }
	return append([]route{
		{http.MethodPost, "processors/*:process", judged("process")},
		{http.MethodPost, "processorVersions/*:process", judged("process")},
		{http.MethodPost, "processors/*:batchProcess", change("batchProcess")},
		{http.MethodPost, "processorVersions/*:batchProcess", change("batchProcess")},
		{http.MethodPost, "humanReviewConfig:reviewDocument", change("reviewDocument")},
		{http.MethodGet, "processors/*", read("getProcessor")},
		{http.MethodGet, "processors", read("listProcessors")},
		{http.MethodPost, "processors", change("createProcessor")},
		{http.MethodDelete, "processors/*", change("deleteProcessor")},
		{http.MethodPost, "processors/*:enable", change("enableProcessor")},
		{http.MethodPost, "processors/*:disable", change("disableProcessor")},
		{http.MethodPost, "processors/*:setDefaultProcessorVersion", change("setDefaultProcessorVersion")},
		{http.MethodGet, "processors/*/processorVersions/*", read("getProcessorVersion")},
		{http.MethodGet, "processors/*/processorVersions", read("listProcessorVersions")},
		{http.MethodPost, "processors/*/processorVersions:train", change("trainProcessorVersion")},
		{http.MethodPost, "processorVersions/*:deploy", change("deployProcessorVersion")},
		{http.MethodPost, "processorVersions/*:undeploy", change("undeployProcessorVersion")},
		{http.MethodPost, "processorVersions/*:evaluateProcessorVersion", change("evaluateProcessorVersion")},
		{http.MethodDelete, "processorVersions/*", change("deleteProcessorVersion")},
		{http.MethodGet, "locations/*/processorTypes", read("listProcessorTypes")},
		{http.MethodGet, "locations/*:fetchProcessorTypes", read("fetchProcessorTypes")},
	}, googleOperationRoutes()...)
}

func documentaiJudge(_ string, v jsonstream.Found) (classify.Fault, bool) {
	for _, value := range v["document.error.code"] {
		if code, failed := nested(value); failed {
			return classify.Fault{Codes: classify.Codes(code), Message: classify.First(word(v, "document.error.message"))}, true
		}
	}
	// Clients choose whether enums come as words or as numbers.
	if state := word(v, "humanReviewStatus.state"); state == "ERROR" || state == "4" {
		return classify.Fault{Codes: []string{"HUMAN_REVIEW_ERROR"}, Message: classify.First(word(v, "humanReviewStatus.stateMessage"))}, true
	}
	return documentaiBatch(v)
}

// documentaiBatch judges a batch: it failed as a whole, or it is done and whole documents in it failed, of which nobody else would tell.
func documentaiBatch(v jsonstream.Found) (classify.Fault, bool) {
	if f, failed := googleOperation(v); failed {
		return f, true
	}
	state := word(v, "metadata.state")
	if strings.HasSuffix(v.String("metadata.@type"), "BatchProcessMetadata") { // elsewhere the same numbers mean other states
		switch state {
		case "6":
			state = "FAILED"
		case "5":
			state = "CANCELLED"
		}
	}
	document, failed := "", false
	for _, value := range v["metadata.individualProcessStatuses[].status.code"] {
		if document, failed = nested(value); failed {
			break
		}
	}
	if state != "FAILED" && state != "CANCELLED" {
		if !failed || !isTrue(v, "done") {
			return classify.Fault{}, false
		}
		state = ""
	}
	return classify.Fault{
		Codes: classify.Codes(document, state),
		Message: classify.First(append(words(v, "metadata.individualProcessStatuses[].status.message"),
			word(v, "metadata.stateMessage"))...),
		Job: true,
	}, true
}

// documentaiWantsText reports whether the text of the document is part of what a call asks for. With a mask of fields it may not be.
func documentaiWantsText(rawQuery string, request io.Reader) bool {
	if googleMasks(rawQuery) {
		return false
	}
	found, err := jsonstream.Pick(request, []string{"fieldMask", "field_mask"}, maxMask)
	if err != nil {
		return false
	}
	mask := found.String("fieldMask") + found.String("field_mask")
	return mask == "" || slices.Contains(strings.Split(mask, ","), "text")
}

// maxMask bounds the mask of fields that is looked at, in bytes.
const maxMask = 4096
