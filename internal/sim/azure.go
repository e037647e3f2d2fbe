package sim

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"
)

const (
	azureAnalyze = "AnalyzeDocument"
	azureGet     = "GetAnalyzeResult"
	azureDelete  = "DeleteAnalyzeResult"
	azureVersion = "2024-11-30"
	jsonType     = "application/json; charset=utf-8"
)

var (
	azureSubmitPath = regexp.MustCompile(`^/(documentintelligence|formrecognizer)/documentModels/([^/:]+):analyze$`)
	azureResultPath = regexp.MustCompile(`^/(?:documentintelligence|formrecognizer)/documentModels/([^/:]+)/analyzeResults/([^/]+)$`)
)

// azure speaks Document Intelligence from version 3 on: an analysis is submitted, then polled. Keys are not checked. A
// document is read when it is submitted, so a slow engine shows there and not in the polls.
type azure struct {
	scanner *scanner
	results *ledger[azureJob]
}

type azureJob struct {
	model          string
	created, ready time.Time
	result         object
	deleted        bool
}

func newAzure(s *scanner) *azure {
	return &azure{scanner: s, results: newLedger[azureJob]()}
}

func (a *azure) operation(r *http.Request) string {
	switch {
	case r.Method == http.MethodPost && azureSubmitPath.MatchString(r.URL.Path):
		return azureAnalyze
	case r.Method == http.MethodGet && azureResultPath.MatchString(r.URL.Path):
		return azureGet
	case r.Method == http.MethodDelete && azureResultPath.MatchString(r.URL.Path):
		return azureDelete
	default:
		return opOther
	}
}

func (a *azure) answer(ctx context.Context, c *call) reply {
	switch c.operation {
	case azureAnalyze:
		return a.submit(ctx, c)
	case azureGet:
		return a.poll(c)
	case azureDelete:
		return a.remove(c)
	default:
		return a.failure(http.StatusNotFound, "404", "Resource not found")
	}
}

func (a *azure) submit(ctx context.Context, c *call) reply {
	path := azureSubmitPath.FindStringSubmatch(c.request.URL.Path)
	family, model := path[1], path[2]
	doc, pages, rep, ok := a.read(ctx, c)
	if !ok {
		return rep
	}
	query := c.request.URL.Query()
	version := query.Get("api-version")
	if version == "" {
		version = azureVersion
	}
	id := c.ids.uuid()
	now := time.Now()
	result := azureResult{model: model, version: version, index: query.Get("stringIndexType"), inches: doc.Format == FormatPDF}
	a.results.put(id, azureJob{model: model, created: now, ready: now.Add(c.plan.jobTime), result: result.build(pages)})

	scheme := "http"
	if c.request.TLS != nil {
		scheme = "https"
	}
	location := scheme + "://" + c.request.Host + "/" + family + "/documentModels/" + url.PathEscape(model) +
		"/analyzeResults/" + id + "?api-version=" + url.QueryEscape(version)
	rep = reply{status: http.StatusAccepted, pages: len(pages), jobs: 1}
	rep.setHeader("Operation-Location", location)
	rep.setHeader("Retry-After", wholeSeconds(c.plan.jobTime))
	return rep
}

// wholeSeconds rounds a wait up for a Retry-After header, to 1 at least.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64(max(1, (d+time.Second-1)/time.Second)), 10)
}

// read finds the document in a submitted request; ok is false when rep already is the answer.
func (a *azure) read(ctx context.Context, c *call) (doc Document, pages []Page, rep reply, ok bool) {
	data := c.body
	if kind, _, err := mime.ParseMediaType(c.request.Header.Get("Content-Type")); err == nil && kind == "application/json" {
		var source struct {
			URL    *string `json:"urlSource"`
			Base64 *string `json:"base64Source"`
		}
		if err := json.Unmarshal(c.body, &source); err != nil {
			return doc, nil, a.deepFailure("InvalidRequest", "InvalidParameter", "The request body is not valid JSON."), false
		}
		switch {
		case (source.URL == nil) == (source.Base64 == nil):
			return doc, nil, a.deepFailure("InvalidArgument", "ParameterMissing", "Give one of urlSource and base64Source."), false
		case source.URL != nil:
			where, err := url.Parse(*source.URL)
			if err != nil || where.Host == "" {
				return doc, nil, a.deepFailure("InvalidArgument", "InvalidContentSourceFormat", "The urlSource is not a URL."), false
			}
			where.RawQuery, where.User, where.Fragment = "", nil, "" // A signature in it is none of the answer's business.
			doc, pages, err = a.scanner.reference(ctx, where.String())
			return doc, pages, a.blame(err), err == nil
		}
		var err error
		if data, err = decodeBase64(*source.Base64); err != nil {
			return doc, nil, a.deepFailure("InvalidArgument", "InvalidParameter", "The base64Source is not valid base64."), false
		}
	}
	doc, pages, err := a.scanner.scan(ctx, data)
	return doc, pages, a.blame(err), err == nil
}

func (a *azure) blame(err error) reply {
	switch {
	case err == nil:
		return reply{}
	case documentsFault(err):
		return a.deepFailure("InvalidRequest", "InvalidContent", "The file is corrupted or format is unsupported. "+
			"Refer to documentation for the list of supported formats.")
	default:
		return a.failure(http.StatusInternalServerError, "", "The simulator's engine failed.")
	}
}

// find returns the job that a result's URL names.
func (a *azure) find(c *call) (string, azureJob, bool) {
	path := azureResultPath.FindStringSubmatch(c.request.URL.Path)
	job, ok := a.results.get(path[2])
	return path[2], job, ok && job.model == path[1] && !job.deleted
}

func (a *azure) poll(c *call) reply {
	_, job, ok := a.find(c)
	if !ok {
		return a.notFound()
	}
	now := time.Now()
	body := object{"status": "running", "createdDateTime": job.created.UTC().Format(time.RFC3339)}
	left := job.ready.Sub(now)
	if left <= 0 {
		body["status"], body["analyzeResult"] = "succeeded", job.result
		now = job.ready
	}
	body["lastUpdatedDateTime"] = now.UTC().Format(time.RFC3339)
	rep := jsonReply(http.StatusOK, jsonType, body)
	if left > 0 {
		rep.setHeader("Retry-After", wholeSeconds(left))
	}
	return rep
}

func (a *azure) remove(c *call) reply {
	id, _, ok := a.find(c)
	if !ok || !a.results.blank(id, azureJob{deleted: true}) {
		return a.notFound()
	}
	return reply{status: http.StatusNoContent}
}

func (a *azure) notFound() reply {
	return jsonReply(http.StatusNotFound, jsonType, object{"error": object{
		"code": "NotFound", "message": "Resource not found.",
		"innererror": object{"code": "OperationNotFound", "message": "The requested operation was not found, or its result has expired."},
	}})
}

// deepFailure is a 400 whose real code stands in innererror.
func (a *azure) deepFailure(code, inner, message string) reply {
	outer := "Invalid request."
	if code == "InvalidArgument" {
		outer = "Invalid argument."
	}
	return jsonReply(http.StatusBadRequest, jsonType, object{"error": object{
		"code": code, "message": outer, "innererror": object{"code": inner, "message": message},
	}})
}

func (a *azure) failure(status int, code, message string) reply {
	if code == "" {
		code = azureCode(status)
	}
	problem := object{"code": code, "message": message}
	if code == "InternalServerError" {
		problem["innererror"] = object{"code": "Unknown", "message": "Unknown error."}
	}
	return jsonReply(status, jsonType, object{"error": problem})
}

// azureCode is the service's own code where it has one; the gateway before it repeats the number.
func azureCode(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "InvalidRequest"
	case http.StatusForbidden:
		return "Forbidden"
	case http.StatusNotFound:
		return "NotFound"
	case http.StatusMethodNotAllowed:
		return "MethodNotAllowed"
	case http.StatusConflict:
		return "Conflict"
	case http.StatusUnsupportedMediaType:
		return "UnsupportedMediaType"
	case http.StatusInternalServerError:
		return "InternalServerError"
	case http.StatusServiceUnavailable:
		return "ServiceUnavailable"
	default:
		return strconv.Itoa(status)
	}
}

func (a *azure) throttled(retryAfter int) reply {
	return a.failure(http.StatusTooManyRequests, "", "Requests to this operation have exceeded the rate limit of your current tier. "+
		"Please retry after "+strconv.Itoa(max(1, retryAfter))+" seconds.")
}

func (a *azure) dress(h http.Header, requestID string) {
	h["apim-request-id"] = []string{requestID}
}
