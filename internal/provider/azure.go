package provider

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
)

// azure is Azure Document Intelligence in all its generations (v4, v3.x, v2.1) and the OCR of Azure AI Vision: a POST starts an analysis
// without any idempotency token, and its result is polled under the address that the answer names.
func azure() *Provider {
	routes := azureRoutes()
	return &Provider{
		Name:       "azure",
		Operations: operations(routes),
		Portable:   []string{"analyze", "analyzeBatch", "classify", "classifyBatch", "read", "analyzeImage", "ocr"},
		Operation:  recogniser(routes),
		// Batches name a container and a list of files, which no single reference stands for: their document is the whole body.
		Layout: fingerprint.Layout{
			Inline: []string{"base64Source"},
			Refs:   []string{"urlSource", "url", "source"},
		},
		Checks: azureChecks(),
		Fault:  azureFault,
		Watch: []string{
			"status", "error.code", "error.message", "error.details[].code", "error.details[].message",
			"error.innererror.code", "error.innererror.message", "error.innererror.innererror.code", "error.innererror.innererror.message",
			"analyzeResult.errors[].code", "analyzeResult.errors[].message", "result.details[].error.code", "result.details[].error.message",
		},
		Judge:     azureJudge,
		Words:     azureScores(),
		Documents: azureDocuments(),
		Result: &Result{
			Operations: []string{"getAnalyzeResult"},
			Text:       []string{"analyzeResult.content", "analyzeResult.readResults[].lines[].text"},
			Pages:      []string{"analyzeResult.pages[]{}", "analyzeResult.readResults[]{}"},
			SomePages:  azureSelects,
			Watch:      []string{"status"},
			Whole:      func(v jsonstream.Found) bool { return strings.EqualFold(v.String("status"), "succeeded") },
		},
		Jobs:                 azureJobs(),
		Pages:                azurePages(),
		Table:                azureTable(),
		Problem:              azureProblem,
		CallID:               "X-Ms-Client-Request-Id",
		RequestID:            []string{"Apim-Request-Id", "X-Ms-Request-Id"},
		Credentials:          []string{"Ocp-Apim-Subscription-Key"},
		RepeatsAnyRetryAfter: true,
	}
}

// azureScores are below the pages in the newer generations, and below the lines of pages in v2.1 and in Vision's.
func azureScores() *Words {
	return &Words{
		At:    []string{"analyzeResult.pages[].words[]", "analyzeResult.readResults[].lines[].words[]"},
		Score: "confidence", Most: 1,
	}
}

// azureDocuments name their types, such as invoice, in v2.1 prebuilt:invoice. A field that the model knows and did not find is null or left out.
func azureDocuments() *Documents {
	return &Documents{
		At: []DocumentPlace{
			{At: "analyzeResult.documents[]", Type: "docType", Map: "fields"},
			{At: "analyzeResult.documentResults[]", Type: "docType", Map: "fields"},
		},
		Most: 1,
	}
}

// azureChecks are the limits of the paid tier: the free one's cannot be told from a request. A document of which some pages are asked for may be
// longer.
// azureSelects reports whether a call asks for some pages only.
func azureSelects(rawQuery string, _ io.Reader) bool {
	query, err := url.ParseQuery(rawQuery)
	return err != nil || query.Has("pages")
}

func azureChecks() map[string]Checks {
	const most, pages = 500 << 20, 2000
	analyze := Checks{Itself: true, Selects: azureSelects, Limits: precheck.Limits{Bytes: most, Pages: pages, Types: []precheck.Type{
		precheck.PDF, precheck.JPEG, precheck.PNG, precheck.TIFF, precheck.BMP, precheck.HEIF, precheck.HTML, precheck.DOCX, precheck.XLSX, precheck.PPTX,
	}}}
	return map[string]Checks{
		"analyze": analyze, "classify": analyze,
		"read":         {Itself: true, Selects: azureSelects, Limits: precheck.Limits{Bytes: most, Pages: pages, LeastSide: 50, MostSide: 10_000}},
		"analyzeImage": {Itself: true},
		"ocr":          {Itself: true},
	}
}

func azureRoutes() []route {
	start := func(name string) Operation { return Operation{Name: name, Repeat: IfUnsent} }
	poll := func(name string) Operation { return Operation{Name: name, Repeat: Always, Judged: true} }
	plain := func(name string) Operation { return Operation{Name: name, Repeat: Always} }
	return []route{
		{http.MethodPost, "documentModels/*:analyze", start("analyze")},
		{http.MethodPost, "layout/analyze", start("analyze")},
		{http.MethodPost, "prebuilt/*/analyze", start("analyze")},
		{http.MethodPost, "custom/models/*/analyze", start("analyze")},
		{http.MethodPost, "documentModels/*:analyzeBatch", start("analyzeBatch")},
		{http.MethodPost, "documentClassifiers/*:analyze", start("classify")},
		{http.MethodPost, "documentClassifiers/*:analyzeBatch", start("classifyBatch")},
		{http.MethodPost, "read/analyze", start("read")},

		{http.MethodGet, "documentModels/*/analyzeResults/*", poll("getAnalyzeResult")},
		{http.MethodGet, "layout/analyzeResults/*", poll("getAnalyzeResult")},
		{http.MethodGet, "prebuilt/*/analyzeResults/*", poll("getAnalyzeResult")},
		{http.MethodGet, "custom/models/*/analyzeResults/*", poll("getAnalyzeResult")},
		{http.MethodGet, "documentModels/*/analyzeBatchResults/*", poll("getAnalyzeBatchResult")},
		{http.MethodGet, "documentClassifiers/*/analyzeResults/*", poll("getClassifyResult")},
		{http.MethodGet, "documentClassifiers/*/analyzeBatchResults/*", poll("getClassifyBatchResult")},
		{http.MethodGet, "read/analyzeResults/*", poll("getReadResult")},
		{http.MethodGet, "operations/*", poll("getOperation")},

		{http.MethodPost, "imageanalysis:analyze", poll("analyzeImage")}, // synchronous: the answer is the result
		{http.MethodPost, "vision/*/ocr", poll("ocr")},

		{http.MethodGet, "analyzeResults/*/pdf", plain("getAnalyzeResultPdf")},
		{http.MethodGet, "analyzeResults/*/figures/*", plain("getAnalyzeResultFigure")},
		{http.MethodDelete, "documentModels/*/analyzeResults/*", plain("deleteAnalyzeResult")},
		{http.MethodDelete, "documentModels/*/analyzeBatchResults/*", plain("deleteAnalyzeBatchResult")},
		{http.MethodGet, "documentModels/*/analyzeBatchResults", plain("listAnalyzeBatchResults")},

		{http.MethodPost, "documentModels:build", start("buildModel")},
		{http.MethodPost, "documentModels:compose", start("composeModel")},
		{http.MethodPost, "documentModels:authorizeCopy", start("authorizeModelCopy")},
		{http.MethodPost, "documentModels/*:copyTo", start("copyModelTo")},
		{http.MethodPost, "documentClassifiers:build", start("buildClassifier")},
		{http.MethodPost, "documentClassifiers:authorizeCopy", start("authorizeClassifierCopy")},
		{http.MethodPost, "documentClassifiers/*:copyTo", start("copyClassifierTo")},
		{http.MethodPost, "custom/models", start("buildModel")},
		{http.MethodPost, "custom/models/compose", start("composeModel")},
		{http.MethodPost, "custom/models/copyAuthorization", start("authorizeModelCopy")},
		{http.MethodPost, "custom/models/*/copy", start("copyModelTo")},
		{http.MethodGet, "custom/models/*/copyResults/*", poll("getCopyResult")},
		{http.MethodGet, "custom/models/*", plain("getModel")},
		{http.MethodGet, "documentModels/*", plain("getModel")},
		{http.MethodGet, "custom/models", plain("listModels")},
		{http.MethodGet, "documentModels", plain("listModels")},
		{http.MethodDelete, "custom/models/*", plain("deleteModel")},
		{http.MethodDelete, "documentModels/*", plain("deleteModel")},
		{http.MethodGet, "documentClassifiers/*", plain("getClassifier")},
		{http.MethodGet, "documentClassifiers", plain("listClassifiers")},
		{http.MethodDelete, "documentClassifiers/*", plain("deleteClassifier")},
		{http.MethodGet, "documentintelligence/operations", plain("listOperations")},
		{http.MethodGet, "formrecognizer/operations", plain("listOperations")},
		{http.MethodGet, "documentintelligence/info", plain("getInfo")},
		{http.MethodGet, "formrecognizer/info", plain("getInfo")},
	}
}

// azureDepth bounds how far a chain of innererror is followed; three is the most that the service is known to send.
const azureDepth = 16

// azureFault reads the service's shape {"error": {"code", "innererror": {"code", …}}}, whose innermost code says most, and the flat
// {"statusCode", "message"} of the gateway before it. Codes may be strings or numbers.
func azureFault(a classify.Attempt) classify.Fault {
	body := classify.ReadBody(a.Body)
	outer := body.At("error")
	var codes, messages []string
	for at, depth := outer.At("innererror"), 0; depth < azureDepth; at, depth = at.At("innererror"), depth+1 {
		codes = append(codes, at.At("code").Text())
		messages = append(messages, at.At("message").Text())
	}
	slices.Reverse(codes)
	slices.Reverse(messages)
	return classify.Fault{
		Codes: classify.Codes(append(codes, outer.At("details").At("code").Text(), outer.At("code").Text(), body.At("code").Text(),
			body.At("statusCode").Text(), a.Header.Get("Ms-Azure-Ai-Errorcode"))...),
		Message: classify.First(append(messages, outer.At("message").Text(), body.At("message").Text(), outer.Text())...),
	}
}

// azureJudge finds jobs that failed. A job that succeeded is a success although some of its pages have errors; a batch in which whole
// documents failed is not, because nobody else would tell of them.
func azureJudge(operation string, v jsonstream.Found) (classify.Fault, bool) {
	status := strings.ToLower(v.String("status"))
	if status == "failed" || status == "canceled" || status == "cancelled" {
		return classify.Fault{
			Codes: classify.Codes(word(v, "error.innererror.innererror.code"), word(v, "error.innererror.code"), word(v, "error.details[].code"),
				word(v, "error.code"), word(v, "analyzeResult.errors[].code"), status),
			Message: classify.First(word(v, "error.innererror.innererror.message"), word(v, "error.innererror.message"),
				word(v, "error.message"), word(v, "analyzeResult.errors[].message")),
			Job: true,
		}, true
	}
	failed := words(v, "result.details[].error.code")
	if status != "succeeded" || len(failed) == 0 || operation != "getAnalyzeBatchResult" && operation != "getClassifyBatchResult" {
		return classify.Fault{}, false
	}
	// A skipped document has its output from before, so that one that really failed is the better news.
	if i := slices.IndexFunc(failed, func(code string) bool { return code != "OutputExists" }); i > 0 {
		failed = failed[i:]
	}
	return classify.Fault{Codes: classify.Codes(failed[0]), Message: classify.First(words(v, "result.details[].error.message")...), Job: true}, true
}

func azureTable() classify.Table {
	const outOfQuota = "out of call volume quota"
	t := classify.Table{
		{Status: http.StatusForbidden, Text: outOfQuota, Class: classify.Quota},
		{Status: http.StatusTooManyRequests, Text: outOfQuota, Class: classify.Quota},
		{Status: http.StatusTooManyRequests, Class: classify.Throttle}, // from the gateway, whose codes are no codes of the service
	}
	t = append(t, codes(classify.Quota, "DocumentModelLimit", "DocumentModelLimitNeural", "DocumentModelLimitComposed")...)
	t = append(t, codes(classify.Auth, "AuthorizationFailed", "InvalidDataProtectionKey", "OutboundAccessForbidden", "InvalidSasToken",
		"Forbidden")...)
	// Answers of status 400 that pass: the source did not answer in time, often under load, or a model is still being built.
	t = append(t, codes(classify.Transient, "ContentSourceNotAccessible", "ContentSourceTimeout", "ModelNotReady")...)
	// Codes of the Vision service, whose status is not documented.
	t = append(t, codes(classify.Transient, "Timeout", "StorageException", "FailedToProcess", "CancelledRequest", "Unspecified")...)
	t = append(t, codes(classify.Permanent, "InvalidImageFormat", "InvalidImageUrl", "InvalidImageSize", "NotSupportedFeature",
		"NotSupportedImage", "NotSupportedLanguage", "InvalidModel", "BadArgument")...)
	t = append(t, codes(classify.Permanent, "InvalidContent", "InvalidContentDimensions", "InvalidContentLength", "InvalidContentSourceFormat",
		"UnsupportedContent", "UnsupportedMediaType", "InvalidParameter", "InvalidParameterLength", "ParameterMissing", "NotSupportedApiVersion",
		"InvalidFieldsDefinition", "InvalidTrainingContentLength", "InvalidTrainingContentPageCount", "TrainingContentMissing",
		"ModelAnalyzeError", "ModelBuildError", "ModelComposeError", "ModelReadOnly", "ModelExists", "ModelNotFound", "OperationNotFound",
		"OperationNotCancellable")...)
	return append(t, codes(classify.Transient, "InternalServerError", "ServiceUnavailable")...)
}

func azureProblem(p Problem) (http.Header, []byte) {
	code := "InternalServerError"
	switch p.Status {
	case http.StatusServiceUnavailable:
		code = "ServiceUnavailable"
	case http.StatusGatewayTimeout:
		code = "Timeout"
	case http.StatusRequestEntityTooLarge:
		code = "InvalidContentLength"
	case http.StatusUnprocessableEntity:
		code = "InvalidContent"
	case http.StatusBadRequest:
		code = "InvalidRequest"
	}
	return jsonProblem(map[string]any{"error": map[string]any{
		"code": code, "message": p.Message, "target": "ocr-proxy", "innererror": map[string]any{"code": p.Reason, "message": p.Message},
	}})
}
