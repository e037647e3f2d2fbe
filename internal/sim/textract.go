package sim

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

const (
	textractThrottleCode = "ProvisionedThroughputExceededException"
	textractContentType  = "application/x-amz-json-1.1"
	textractMaxBytes     = 10 << 20
	textractModel        = "1.0"
)

// textract speaks AWS JSON 1.1: every operation is POST / and its name stands in X-Amz-Target. Signatures are checked before it, if at all.
// A document of several pages is read whole although the real synchronous operations take one page of a PDF or TIFF.
type textract struct {
	scanner *scanner
	jobs    *textractJobs
}

func newTextract(s *scanner) *textract {
	return &textract{scanner: s, jobs: newTextractJobs()}
}

// textractError is an error code with its message; all of them have status 400.
type textractError struct {
	code, message string
}

func (e *textractError) Error() string { return e.code + ": " + e.message }

func (t *textract) operation(r *http.Request) string {
	name, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "Textract.")
	if !ok || r.Method != http.MethodPost || r.URL.Path != "/" {
		return opOther
	}
	switch name {
	case "DetectDocumentText", "AnalyzeDocument", "AnalyzeExpense", "AnalyzeID",
		"StartDocumentTextDetection", "StartDocumentAnalysis", "StartExpenseAnalysis",
		"GetDocumentTextDetection", "GetDocumentAnalysis", "GetExpenseAnalysis":
		return name
	default:
		return opOther
	}
}

// textractRequest has the fields of every operation that is simulated.
type textractRequest struct {
	Document           *textractDocument
	DocumentPages      []textractDocument
	DocumentLocation   *struct{ S3Object *s3Object }
	FeatureTypes       []string
	ClientRequestToken *string
	JobID              string `json:"JobId"`
}

type textractDocument struct {
	Bytes    *string
	S3Object *s3Object
}

type s3Object struct {
	Bucket, Name, Version string
}

func (o *s3Object) where() string { return "s3://" + o.Bucket + "/" + o.Name }

func (t *textract) answer(ctx context.Context, c *call) reply {
	if c.operation == opOther {
		return t.failure(http.StatusNotFound, "UnknownOperationException", "The operation is not one that is simulated.")
	}
	var req textractRequest
	if err := json.Unmarshal(c.body, &req); err != nil {
		return t.failure(http.StatusBadRequest, "SerializationException", "The request is not valid JSON of this operation.")
	}
	var body object
	var work reply
	var err error
	switch c.operation {
	case "AnalyzeID":
		body, work.pages, err = t.analyzeID(ctx, req, c.ids)
	case "DetectDocumentText", "AnalyzeDocument", "AnalyzeExpense":
		body, work.pages, err = t.analyze(ctx, c.operation, req, c.ids)
	case "StartDocumentTextDetection", "StartDocumentAnalysis", "StartExpenseAnalysis":
		body, work, err = t.start(ctx, c, req)
	default:
		body, err = t.jobs.result(strings.TrimPrefix(c.operation, "Get"), req.JobID)
	}
	if err != nil {
		return t.blame(err)
	}
	rep := jsonReply(http.StatusOK, textractContentType, body)
	rep.pages, rep.jobs = work.pages, work.jobs
	return rep
}

// blame turns an error into Textract's own.
func (t *textract) blame(err error) reply {
	if e, ok := errors.AsType[*textractError](err); ok {
		return t.failure(http.StatusBadRequest, e.code, e.message)
	}
	switch {
	case errors.Is(err, ErrUnsupported):
		return t.failure(http.StatusBadRequest, "UnsupportedDocumentException", "Request has unsupported document format")
	case errors.Is(err, ErrBroken):
		return t.failure(http.StatusBadRequest, "BadDocumentException", "Request has a document that cannot be read")
	default:
		return t.failure(http.StatusInternalServerError, "", "The simulator's engine failed.")
	}
}

// read scans one document of a request.
func (t *textract) read(ctx context.Context, d *textractDocument) ([]Page, error) {
	switch {
	case d == nil || (d.Bytes == nil) == (d.S3Object == nil):
		return nil, &textractError{"InvalidParameterException", "Request has invalid parameters: a document is Bytes or S3Object"}
	case d.S3Object != nil:
		if err := d.S3Object.validate(); err != nil {
			return nil, err
		}
		_, pages, err := t.scanner.reference(ctx, d.S3Object.where())
		return pages, err
	}
	data, err := decodeBase64(*d.Bytes)
	switch {
	case err != nil:
		return nil, &textractError{"SerializationException", "Bytes is not valid base64"}
	case len(data) == 0:
		return nil, &textractError{"InvalidParameterException", "Request has invalid parameters: Bytes is empty"}
	case len(data) > textractMaxBytes:
		return nil, &textractError{"DocumentTooLargeException", "The document is larger than 10 MB"}
	}
	_, pages, err := t.scanner.scan(ctx, data)
	return pages, err
}

func (o *s3Object) validate() error {
	if o.Bucket == "" || o.Name == "" {
		return &textractError{"InvalidS3ObjectException", "Unable to get object metadata from S3: Bucket and Name are needed"}
	}
	return nil
}

// checkFeatures refuses an analysis without features or with unknown ones.
func checkFeatures(operation string, features []string) error {
	if !strings.HasSuffix(operation, "AnalyzeDocument") && !strings.HasSuffix(operation, "DocumentAnalysis") {
		return nil
	}
	known := []string{"TABLES", "FORMS", "QUERIES", "SIGNATURES", "LAYOUT"}
	if len(features) == 0 || slices.ContainsFunc(features, func(f string) bool { return !slices.Contains(known, f) }) {
		return &textractError{"InvalidParameterException", "Request has invalid parameters: FeatureTypes"}
	}
	return nil
}

func (t *textract) analyze(ctx context.Context, operation string, req textractRequest, ids *identifiers) (object, int, error) {
	if err := checkFeatures(operation, req.FeatureTypes); err != nil {
		return nil, 0, err
	}
	pages, err := t.read(ctx, req.Document)
	if err != nil {
		return nil, 0, err
	}
	return textractResult(operation, pages, req.FeatureTypes, ids), len(pages), nil
}

// textractResult is the body of a finished analysis, of the synchronous operations and of the jobs alike.
func textractResult(operation string, pages []Page, features []string, ids *identifiers) object {
	body := object{"DocumentMetadata": object{"Pages": len(pages)}}
	switch operation {
	case "AnalyzeExpense", "ExpenseAnalysis":
		body["ExpenseDocuments"] = expenseDocuments(pages, ids)
	case "AnalyzeDocument", "DocumentAnalysis":
		body["Blocks"] = textractBlocks(pages, slices.Contains(features, "FORMS"), ids)
		body["AnalyzeDocumentModelVersion"] = textractModel
	default:
		body["Blocks"] = textractBlocks(pages, false, ids)
		body["DetectDocumentTextModelVersion"] = textractModel
	}
	return body
}

// analyzeID reads one or two pages as one identity document. No field is ever found, which is said as Textract says it.
func (t *textract) analyzeID(ctx context.Context, req textractRequest, ids *identifiers) (object, int, error) {
	if n := len(req.DocumentPages); n < 1 || n > 2 {
		return nil, 0, &textractError{"InvalidParameterException", "Request has invalid parameters: DocumentPages takes one or two"}
	}
	var pages []Page
	for i := range req.DocumentPages {
		read, err := t.read(ctx, &req.DocumentPages[i])
		if err != nil {
			return nil, len(pages), err
		}
		pages = append(pages, read...)
	}
	var fields []object
	for _, name := range []string{"FIRST_NAME", "LAST_NAME", "DOCUMENT_NUMBER", "DATE_OF_BIRTH", "EXPIRATION_DATE"} {
		fields = append(fields, object{
			"Type":           object{"Text": name},
			"ValueDetection": object{"Text": "", "Confidence": 99.0},
		})
	}
	return object{
		"DocumentMetadata":      object{"Pages": len(pages)},
		"AnalyzeIDModelVersion": textractModel,
		"IdentityDocuments": []object{{
			"DocumentIndex": 1, "IdentityDocumentFields": fields, "Blocks": textractBlocks(pages, false, ids),
		}},
	}, len(pages), nil
}

func (t *textract) failure(status int, code, message string) reply {
	if code == "" {
		code = textractCode(status)
	}
	return jsonReply(status, textractContentType, object{"__type": code, "Message": message})
}

func textractCode(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "AccessDeniedException"
	case http.StatusNotFound:
		return "UnknownOperationException"
	case http.StatusRequestTimeout:
		return "RequestTimeoutException"
	case http.StatusRequestEntityTooLarge:
		return "RequestEntityTooLargeException"
	case http.StatusTooManyRequests:
		return "ThrottlingException"
	case http.StatusInternalServerError:
		return "InternalServerError"
	}
	if status >= http.StatusInternalServerError {
		return "ServiceUnavailableException"
	}
	return "InvalidParameterException"
}

// throttled has status 400, as at the real service.
func (t *textract) throttled(int) reply {
	return t.failure(http.StatusBadRequest, textractThrottleCode, "Provisioned rate exceeded")
}

func (t *textract) dress(h http.Header, requestID string) {
	h["x-amzn-RequestId"] = []string{requestID} // Spelt as the service spells it.
}
