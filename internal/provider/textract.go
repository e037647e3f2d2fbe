package provider

import (
	"net/http"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
)

// textract is AWS Textract: AWS JSON 1.1, every call a POST to "/", the operation named in X-Amz-Target alone.
func textract() *Provider {
	operations := textractOperations()
	return &Provider{
		Name:       "textract",
		Operations: names(operations),
		Portable: []string{
			"DetectDocumentText", "AnalyzeDocument", "AnalyzeExpense", "AnalyzeID",
			"StartDocumentTextDetection", "StartDocumentAnalysis", "StartExpenseAnalysis", "StartLendingAnalysis",
		},
		Operation: func(r *http.Request) Operation {
			_, name, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
			return find(operations, name, r.Method)
		},
		Layout: fingerprint.Layout{
			Inline: []string{"Document.Bytes", "DocumentPages[].Bytes"},
			Refs:   []string{"Document.S3Object", "DocumentPages[].S3Object", "DocumentLocation.S3Object"},
			Ignore: []string{"ClientRequestToken"},
		},
		Checks:     textractChecks(),
		TokenField: "ClientRequestToken",
		Fault:      awsFault,
		Watch:      []string{"JobStatus", "StatusMessage"},
		Judge: func(_ string, v jsonstream.Found) (classify.Fault, bool) {
			if v.String("JobStatus") != "FAILED" {
				return classify.Fault{}, false
			}
			return classify.Fault{Codes: []string{"FAILED"}, Message: v.String("StatusMessage"), Job: true}, true
		},
		Words:     textractScores(),
		Documents: textractDocuments(),
		Result: &Result{
			Operations: []string{"DetectDocumentText", "AnalyzeDocument", "GetDocumentTextDetection", "GetDocumentAnalysis"},
			Text:       []string{"Blocks[].Text"},
			Watch:      []string{"JobStatus", "NextToken"},
			Whole: func(v jsonstream.Found) bool { // of a job's result, the first part may be an empty one of several
				return v.String("NextToken") == "" && (!v.Has("JobStatus") || v.String("JobStatus") == "SUCCEEDED")
			},
		},
		Signs:   []Sign{{Path: "JobStatus", Values: []string{"PARTIAL_SUCCESS"}, Means: Partial}},
		Charged: textractCharged,
		Jobs:    textractJobs(),
		Table:   awsTable(),
		Problem: awsProblem,
		CallID:  "Amz-Sdk-Invocation-Id",
		Again: func(h http.Header) bool { // attempt=2; max=3
			request := h.Get("Amz-Sdk-Request")
			return strings.Contains(request, "attempt=") && !strings.Contains(request+";", "attempt=1;")
		},
		RequestID: []string{"X-Amzn-Requestid"},
	}
}

// textractScores are among the blocks of pages, lines, cells and layout, some of which have scores of their own.
func textractScores() *Words {
	return &Words{
		At: []string{
			"Blocks[]", "ExpenseDocuments[].Blocks[]", "IdentityDocuments[].Blocks[]",
			"Results[].Extractions[].ExpenseDocument.Blocks[]", "Results[].Extractions[].IdentityDocument.Blocks[]",
		},
		Score: "Confidence", Most: 100, Kind: "BlockType", Word: "WORD",
	}
}

// textractDocuments are expenses, with the fields of their lines, and identity documents. A field may come more than once.
func textractDocuments() *Documents {
	list := func(at string) FieldList {
		return FieldList{At: at, Name: "Type.Text", Score: "ValueDetection.Confidence", Values: []string{"ValueDetection.Text"}}
	}
	var at []DocumentPlace
	for _, within := range [...]string{"", "Results[].Extractions[]."} {
		expenses, identities := within+"ExpenseDocuments[]", within+"IdentityDocuments[]"
		if within != "" {
			expenses, identities = within+"ExpenseDocument", within+"IdentityDocument"
		}
		at = append(at,
			DocumentPlace{At: expenses, Fixed: "expense", Lists: []FieldList{list("SummaryFields[]"), list("LineItemGroups[].LineItems[].LineItemExpenseFields[]")}},
			DocumentPlace{At: identities, Fixed: "identity", Lists: []FieldList{list("IdentityDocumentFields[]")}})
	}
	// A lending field may have several values. Its score is that of the least of them.
	at = append(at, DocumentPlace{At: "Results[].Extractions[].LendingDocument", Fixed: "lending", Lists: []FieldList{
		{At: "LendingFields[]", Name: "Type", Score: "ValueDetections[].Confidence", Values: []string{"ValueDetections[].Text"}},
	}})
	return &Documents{At: at, Most: 100}
}

// textractChecks are the limits of calls that carry their document; jobs name theirs.
func textractChecks() map[string]Checks {
	synchronous := Checks{Limits: precheck.Limits{
		Types: []precheck.Type{precheck.PDF, precheck.PNG, precheck.JPEG, precheck.TIFF}, Bytes: 10 << 20, Pages: 1, MostSide: 10_000,
	}}
	return map[string]Checks{
		"DetectDocumentText": synchronous, "AnalyzeDocument": synchronous, "AnalyzeExpense": synchronous, "AnalyzeID": synchronous,
	}
}

func textractOperations() []Operation {
	var all []Operation
	add := func(op Operation, list ...string) {
		for _, name := range list {
			op.Name = name
			all = append(all, op)
		}
	}
	add(Operation{Repeat: Always, Judged: true}, "DetectDocumentText", "AnalyzeDocument", "AnalyzeExpense", "AnalyzeID",
		"GetDocumentTextDetection", "GetDocumentAnalysis", "GetExpenseAnalysis", "GetLendingAnalysis", "GetLendingAnalysisSummary")
	add(Operation{Repeat: WithToken, Tokened: true},
		"StartDocumentTextDetection", "StartDocumentAnalysis", "StartExpenseAnalysis", "StartLendingAnalysis")
	// The SDKs fill in the token of these two themselves; one that the worker did not send is not ours to invent for a training run.
	add(Operation{Repeat: WithToken}, "CreateAdapter", "CreateAdapterVersion")
	add(Operation{Repeat: Always}, "GetAdapter", "GetAdapterVersion", "ListAdapters", "ListAdapterVersions", "ListTagsForResource",
		"DeleteAdapter", "DeleteAdapterVersion", "UpdateAdapter", "TagResource", "UntagResource")
	return all
}

// awsFault finds the code where the AWS SDKs do: the body's __type (namespace before '#' cut off), its code, and the header X-Amzn-Errortype (what
// follows ':' cut off, the first of several values).
func awsFault(a classify.Attempt) classify.Fault {
	body := classify.ReadBody(a.Body)
	header, _, _ := strings.Cut(a.Header.Get("X-Amzn-Errortype"), ",")
	return classify.Fault{
		Codes: classify.Codes(classify.First(
			awsCode(body.At("__type").Text()), awsCode(body.At("code").Text()), awsCode(body.At("Code").Text()), awsCode(header))),
		Message: classify.First(body.At("message").Text(), body.At("Message").Text()),
	}
}

func awsCode(s string) string {
	s, _, _ = strings.Cut(s, ":") // first, for what follows is an address that may hold a '#'
	if _, after, ok := strings.Cut(s, "#"); ok {
		s = after
	}
	return strings.TrimSpace(s)
}

func awsTable() classify.Table {
	var t classify.Table
	add := func(c classify.Class, list ...string) { t = append(t, codes(c, list...)...) }
	// The fourteen codes that the AWS SDKs agree on. LimitExceededException means too many open jobs and clears as they finish.
	add(classify.Throttle, "ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "ThrottledException",
		"RequestThrottledException", "RequestThrottled", "TooManyRequestsException", "RequestLimitExceeded", "BandwidthLimitExceeded",
		"LimitExceededException", "SlowDown", "TransactionInProgressException", "PriorRequestNotComplete", "EC2ThrottledException")
	add(classify.Transient, "InternalServerError", "InternalFailure", "InternalServerException", "ServiceUnavailable", "ServiceUnavailableException",
		"RequestTimeout", "RequestTimeoutException", "RequestAbortedException")
	add(classify.Quota, "ServiceQuotaExceededException", "HumanLoopQuotaExceededException")
	add(classify.Auth, "AccessDeniedException", "AccessDenied", "InvalidSignatureException", "SignatureDoesNotMatch", "RequestTimeTooSkewed",
		"RequestInTheFuture", "RequestExpired", "ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException", "InvalidClientTokenId",
		"MissingAuthenticationToken", "MissingAuthenticationTokenException", "IncompleteSignature", "IncompleteSignatureException",
		"NotAuthorized", "OptInRequired", "AuthFailure")
	add(classify.Permanent, "BadDocumentException", "UnsupportedDocumentException", "DocumentTooLargeException", "InvalidParameterException",
		"InvalidS3ObjectException", "InvalidKMSKeyException", "InvalidJobIdException", "IdempotentParameterMismatchException",
		"ConflictException", "ResourceNotFoundException", "ValidationException", "SerializationException", "UnknownOperationException",
		"ValidationError", "MalformedHttpRequestException", "RequestEntityTooLargeException")
	return t
}

func awsProblem(p Problem) (http.Header, []byte) {
	code := "InternalServerError"
	switch p.Status {
	case http.StatusServiceUnavailable:
		code = "ServiceUnavailableException"
	case http.StatusRequestEntityTooLarge:
		code = "DocumentTooLargeException"
	case http.StatusUnprocessableEntity:
		code = "BadDocumentException"
	case http.StatusBadRequest:
		code = "InvalidParameterException"
	}
	// Body and header carry the same code: boto reads only the body, the Go SDK the header first.
	return http.Header{"Content-Type": {"application/x-amz-json-1.1"}, "X-Amzn-Errortype": {code}},
		encode(map[string]any{"__type": code, "message": p.Message})
}
