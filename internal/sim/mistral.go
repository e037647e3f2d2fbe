package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

const (
	mistralOCR         = "ocr"
	mistralContentType = "application/json"
	mistralModel       = "mistral-ocr-latest"
)

// mistral speaks Mistral's OCR endpoint. Keys are not checked, and every page is read whatever pages the request names.
type mistral struct {
	scanner *scanner
}

type mistralRequest struct {
	Model    *string `json:"model"`
	Document *struct {
		Type        string          `json:"type"`
		DocumentURL string          `json:"document_url"`
		ImageURL    json.RawMessage `json:"image_url"`
		FileID      string          `json:"file_id"`
	} `json:"document"`
	Granularity string `json:"confidence_scores_granularity"`
}

func (m *mistral) operation(r *http.Request) string {
	if r.Method == http.MethodPost && r.URL.Path == "/v1/ocr" {
		return mistralOCR
	}
	return opOther
}

func (m *mistral) answer(ctx context.Context, c *call) reply {
	if c.operation != mistralOCR {
		return m.failure(http.StatusNotFound, "", "The simulator has only POST /v1/ocr.")
	}
	var req mistralRequest
	if err := json.Unmarshal(c.body, &req); err != nil {
		return m.invalid("json_invalid", "JSON decode error", "body")
	}
	if req.Document == nil {
		return m.invalid("missing", "Field required", "body", "document")
	}
	where := req.where()
	if where == "" {
		return m.invalid("missing", "Field required", "body", "document", "document_url")
	}
	var doc Document
	var pages []Page
	var err error
	if content, ok := strings.CutPrefix(where, "data:"); ok {
		doc, pages, err = m.scanDataURI(ctx, content)
	} else {
		where, _, _ = strings.Cut(where, "?") // A signature in it is none of the answer's business.
		doc, pages, err = m.scanner.reference(ctx, where)
	}
	switch {
	case err == nil:
	case documentsFault(err):
		return jsonReply(http.StatusBadRequest, mistralContentType, mistralError(
			"Document content could not be read.", "document_parser_invalid_file", "3740"))
	default:
		return m.failure(http.StatusInternalServerError, "", "The simulator's engine failed.")
	}
	model := mistralModel
	if req.Model != nil && *req.Model != "" {
		model = *req.Model
	}
	out := make([]object, 0, len(pages))
	for i, page := range pages {
		out = append(out, mistralPage(i, page, req.Granularity))
	}
	rep := jsonReply(http.StatusOK, mistralContentType, object{
		"pages": out, "model": model, "document_annotation": nil,
		"usage_info": object{"pages_processed": len(pages), "doc_size_bytes": len(doc.Data)},
	})
	rep.pages = len(pages)
	return rep
}

// where is the place of the document, in whichever field the request gives it.
func (r mistralRequest) where() string {
	switch {
	case r.Document.DocumentURL != "":
		return r.Document.DocumentURL
	case r.Document.FileID != "":
		return "file:" + r.Document.FileID
	}
	var plain string
	if json.Unmarshal(r.Document.ImageURL, &plain) == nil {
		return plain
	}
	var wrapped struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(r.Document.ImageURL, &wrapped) == nil {
		return wrapped.URL
	}
	return ""
}

// scanDataURI reads what follows "data:". Anything but base64 is a document that cannot be read.
func (m *mistral) scanDataURI(ctx context.Context, uri string) (Document, []Page, error) {
	head, content, ok := strings.Cut(uri, ",")
	if !ok || !strings.HasSuffix(head, ";base64") {
		return Document{}, nil, fmt.Errorf("%w: the data URI is not base64", ErrUnsupported)
	}
	data, err := decodeBase64(content)
	if err != nil {
		return Document{}, nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return m.scanner.scan(ctx, data)
}

func mistralPage(index int, page Page, granularity string) object {
	var markdown strings.Builder
	words := []object{}
	lowest := 1.0
	runes := 0
	for i, line := range page.Lines {
		if i > 0 {
			markdown.WriteByte('\n')
			runes++
		}
		for j, w := range line.Words {
			if j > 0 {
				markdown.WriteByte(' ')
				runes++
			}
			markdown.WriteString(w.Text)
			words = append(words, object{"text": w.Text, "confidence": w.Confidence, "start_index": runes})
			runes += len([]rune(w.Text))
			lowest = min(lowest, w.Confidence)
		}
	}
	out := object{
		"index": index, "markdown": markdown.String(), "images": []object{},
		"dimensions": object{"dpi": renderDPI, "width": page.Width, "height": page.Height},
	}
	if granularity != "" && len(words) > 0 { // Off by default, as at the real service.
		scores := object{
			"average_page_confidence_score": meanConfidence(page.words()),
			"minimum_page_confidence_score": lowest,
		}
		if granularity == "word" {
			scores["word_confidence_scores"] = words
		}
		out["confidence_scores"] = scores
	}
	return out
}

// invalid is the answer to a request that does not have the form of an OCR call.
func (m *mistral) invalid(kind, message string, loc ...string) reply {
	return jsonReply(http.StatusUnprocessableEntity, mistralContentType, object{
		"detail": []object{{"type": kind, "loc": loc, "msg": message}},
	})
}

func mistralError(message, kind string, code any) object {
	return object{"object": "error", "message": message, "type": kind, "param": nil, "code": code}
}

// failure takes code as the error's number; the type follows from the status.
func (m *mistral) failure(status int, code, message string) reply {
	var number any
	if code != "" {
		number = code
	}
	kind := "invalid_request_error"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limited"
	case status == http.StatusServiceUnavailable:
		kind = "service_unavailable"
	case status >= http.StatusInternalServerError:
		kind = "internal_server_error"
	}
	return jsonReply(status, mistralContentType, mistralError(message, kind, number))
}

func (m *mistral) throttled(int) reply {
	return m.failure(http.StatusTooManyRequests, "1300", "Rate limit exceeded")
}

func (m *mistral) dress(http.Header, string) {} // No request id is known for this endpoint.
