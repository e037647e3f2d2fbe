package sim

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

const documentAIProcess = "ProcessDocument"

var documentAIPath = regexp.MustCompile(`^/v1/projects/[^/]+/locations/[^/]+/processors/[^/:]+(/processorVersions/[^/:]+)?:process$`)

// documentAI speaks the REST form of Google Document AI's online processing. Tokens are not checked.
type documentAI struct {
	scanner *scanner
}

func (d *documentAI) operation(r *http.Request) string {
	if r.Method == http.MethodPost && documentAIPath.MatchString(r.URL.Path) {
		return documentAIProcess
	}
	return opOther
}

func (d *documentAI) answer(ctx context.Context, c *call) reply {
	if c.operation != documentAIProcess {
		return d.failure(http.StatusNotFound, "", "Method not found.")
	}
	var req struct {
		RawDocument, InlineDocument *struct {
			Content  string `json:"content"`
			MimeType string `json:"mimeType"`
		}
		GCSDocument *struct {
			URI      string `json:"gcsUri"`
			MimeType string `json:"mimeType"`
		}
	}
	if err := json.Unmarshal(c.body, &req); err != nil {
		return d.failure(http.StatusBadRequest, "", "Invalid JSON payload received.")
	}
	raw := req.RawDocument
	if raw == nil {
		raw = req.InlineDocument
	}
	var pages []Page
	var mimeType string
	var err error
	switch {
	case raw != nil:
		var data []byte
		if data, err = decodeBase64(raw.Content); err != nil {
			return d.invalid("raw_document.content", "Base64 decoding failed.")
		}
		if len(data) == 0 {
			return d.invalid("raw_document.content", "The document is empty.")
		}
		mimeType = raw.MimeType
		_, pages, err = d.scanner.scan(ctx, data)
	case req.GCSDocument != nil && strings.HasPrefix(req.GCSDocument.URI, "gs://"):
		mimeType = req.GCSDocument.MimeType
		_, pages, err = d.scanner.reference(ctx, req.GCSDocument.URI)
	default:
		return d.invalid("raw_document", "A document is needed.")
	}
	switch {
	case err == nil:
	case documentsFault(err):
		return d.invalid("raw_document.content", "Unsupported input file format.")
	default:
		return d.failure(http.StatusInternalServerError, "", "The simulator's engine failed.")
	}
	document := documentAIDocument(pages)
	document["mimeType"] = mimeType
	rep := jsonReply(http.StatusOK, googleContentType, object{
		"document": document, "humanReviewStatus": object{"state": "SKIPPED"},
	})
	rep.pages = len(pages)
	return rep
}

func documentAIDocument(pages []Page) object {
	var text strings.Builder
	at := 0 // In Unicode characters, as text anchors count.
	out := []object{}
	for n, page := range pages {
		begin := at
		tokens, lines := []object{}, []object{}
		for _, line := range page.Lines {
			start := at
			for i, w := range line.Words {
				separator, kind := " ", "SPACE"
				if i == len(line.Words)-1 {
					separator, kind = "\n", "HARD_BREAK"
				}
				text.WriteString(w.Text + separator)
				end := at + utf8.RuneCountInString(w.Text) + 1
				tokens = append(tokens, object{
					"layout":        documentAILayout(w.Box, page, at, end, w.Confidence),
					"detectedBreak": object{"type": kind},
				})
				at = end
			}
			lines = append(lines, object{"layout": documentAILayout(line.box(), page, start, at, line.confidence())})
		}
		whole := documentAILayout(Box{Width: 1, Height: 1}, page, begin, at, meanConfidence(page.words()))
		out = append(out, object{
			"pageNumber": n + 1,
			"dimension":  object{"width": page.Width, "height": page.Height, "unit": "pixels"},
			"layout":     whole, "tokens": tokens, "lines": lines, "paragraphs": lines, "blocks": lines,
			"detectedLanguages": []object{{"languageCode": "en", "confidence": 1}},
		})
	}
	return object{"text": text.String(), "pages": out, "entities": []object{}}
}

func documentAILayout(b Box, page Page, start, end int, confidence float64) object {
	segment := object{"endIndex": strconv.Itoa(end)}
	if start > 0 { // The zero value is left out, as in every JSON made from protocol buffers.
		segment["startIndex"] = strconv.Itoa(start)
	}
	layout := object{
		"textAnchor":   object{"textSegments": []object{segment}},
		"boundingPoly": object{"vertices": googleVertices(b, page), "normalizedVertices": googleNormalized(b)},
		"orientation":  "PAGE_UP",
	}
	if confidence > 0 {
		layout["confidence"] = confidence
	}
	return layout
}

// invalid blames one field of the request.
func (d *documentAI) invalid(field, message string) reply {
	return googleFailure(http.StatusBadRequest, "", message, object{
		"@type":           "type.googleapis.com/google.rpc.BadRequest",
		"fieldViolations": []object{{"field": field, "description": message}},
	})
}

func (d *documentAI) failure(status int, code, message string) reply {
	return googleFailure(status, code, message)
}

func (d *documentAI) throttled(retryAfter int) reply {
	return googleThrottled("documentai.googleapis.com", retryAfter)
}

func (d *documentAI) dress(http.Header, string) {} // Google sends no request id.
