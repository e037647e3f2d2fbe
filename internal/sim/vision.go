package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

const (
	visionAnnotate  = "BatchAnnotateImages"
	visionMaxImages = 16
)

var visionPath = regexp.MustCompile(`^/v1/(projects/[^/]+/(locations/[^/]+/)?)?images:annotate$`)

// vision speaks the REST form of Google Cloud Vision for batches of images. What is wrong with one image is said inside the
// answer of 200; the images beside it are read.
type vision struct {
	scanner *scanner
}

type visionRequest struct {
	Image struct {
		Content string `json:"content"`
		Source  *struct {
			ImageURI string `json:"imageUri"`
			GCSURI   string `json:"gcsImageUri"`
		} `json:"source"`
	} `json:"image"`
	Features []struct {
		Type any `json:"type"`
	} `json:"features"`
	Context struct {
		TextDetection struct {
			Confidence bool `json:"enableTextDetectionConfidenceScore"`
		} `json:"textDetectionParams"`
	} `json:"imageContext"`
}

func (v *vision) operation(r *http.Request) string {
	if r.Method == http.MethodPost && visionPath.MatchString(r.URL.Path) {
		return visionAnnotate
	}
	return opOther
}

func (v *vision) answer(ctx context.Context, c *call) reply {
	if c.operation != visionAnnotate {
		return v.failure(http.StatusNotFound, "", "Method not found.")
	}
	var batch struct {
		Requests []visionRequest `json:"requests"`
	}
	if err := json.Unmarshal(c.body, &batch); err != nil {
		return v.failure(http.StatusBadRequest, "", "Invalid JSON payload received.")
	}
	if n := len(batch.Requests); n < 1 || n > visionMaxImages {
		return v.failure(http.StatusBadRequest, "", fmt.Sprintf("Give from 1 to %d images per request.", visionMaxImages))
	}
	responses := make([]object, 0, len(batch.Requests))
	charged := 0
	for _, req := range batch.Requests {
		if c.ids.chance() < c.plan.itemErrorRate {
			responses = append(responses, visionError(googleUnavailable, "The simulator was told to fail this image."))
			continue
		}
		item, pages := v.annotate(ctx, req)
		charged += pages
		responses = append(responses, item)
	}
	rep := jsonReply(http.StatusOK, googleContentType, object{"responses": responses})
	rep.pages = charged
	return rep
}

// annotate reads one image of the batch.
func (v *vision) annotate(ctx context.Context, req visionRequest) (object, int) {
	wanted, confidence := false, req.Context.TextDetection.Confidence
	for _, f := range req.Features {
		switch fmt.Sprint(f.Type) {
		case "TEXT_DETECTION", "5": // Some clients send enums as numbers.
			wanted = true
		case "DOCUMENT_TEXT_DETECTION", "11":
			wanted, confidence = true, true
		}
	}
	if len(req.Features) == 0 {
		return visionError(googleInvalid, "Request must specify image and features."), 0
	}
	doc, pages, err := v.read(ctx, req)
	switch {
	case err == nil && doc.Format == FormatPDF, documentsFault(err):
		return visionError(googleInvalid, "Bad image data."), 0
	case err != nil:
		return visionError(googleInternal, "The simulator's engine failed."), 0
	case !wanted:
		return object{}, len(pages)
	}
	return visionAnnotations(pages, confidence), len(pages)
}

func (v *vision) read(ctx context.Context, req visionRequest) (Document, []Page, error) {
	if source := req.Image.Source; req.Image.Content == "" && source != nil {
		where := source.ImageURI
		if where == "" {
			where = source.GCSURI
		}
		where, _, _ = strings.Cut(where, "?") // A signature in it is none of the answer's business.
		if where == "" {
			return Document{}, nil, ErrUnsupported
		}
		return v.scanner.reference(ctx, where)
	}
	data, err := decodeBase64(req.Image.Content)
	if err != nil {
		return Document{}, nil, ErrUnsupported
	}
	return v.scanner.scan(ctx, data)
}

func visionError(code int, message string) object {
	return object{"error": object{"code": code, "message": message}}
}

// visionAnnotations is the text in both of Vision's forms: a flat list that begins with the whole, and the tree of pages.
func visionAnnotations(pages []Page, confidence bool) object {
	score := func(o object, value float64) object {
		if confidence {
			o["confidence"] = value
		}
		return o
	}
	var text strings.Builder
	flat, tree := []object{}, []object{}
	for _, page := range pages {
		blocks := []object{}
		for _, line := range page.Lines {
			words := []object{}
			for i, w := range line.Words {
				last := i == len(line.Words)-1
				separator, kind := " ", "SPACE"
				if last {
					separator, kind = "\n", "LINE_BREAK"
				}
				text.WriteString(w.Text + separator)
				box := object{"vertices": googleVertices(w.Box, page)}
				flat = append(flat, object{"description": w.Text, "boundingPoly": box})
				words = append(words, score(object{"boundingBox": box, "symbols": visionSymbols(w, box, kind, score)}, w.Confidence))
			}
			box := object{"vertices": googleVertices(line.box(), page)}
			paragraph := score(object{"boundingBox": box, "words": words}, line.confidence())
			blocks = append(blocks, score(object{
				"boundingBox": box, "blockType": "TEXT", "paragraphs": []object{paragraph},
			}, line.confidence()))
		}
		tree = append(tree, score(object{"width": page.Width, "height": page.Height, "blocks": blocks}, meanConfidence(page.words())))
	}
	if len(flat) == 0 {
		return object{} // Vision says nothing about an image without text.
	}
	whole := object{"locale": "en", "description": text.String(), "boundingPoly": visionFrame(pages[0])}
	return object{
		"textAnnotations":    append([]object{whole}, flat...),
		"fullTextAnnotation": object{"text": text.String(), "pages": tree},
	}
}

func visionFrame(p Page) object {
	return object{"vertices": googleVertices(Box{Width: 1, Height: 1}, p)}
}

// visionSymbols are the characters of a word; the last one carries the break behind the word.
func visionSymbols(w Word, box object, kind string, score func(object, float64) object) []object {
	var symbols []object
	for _, r := range w.Text {
		symbols = append(symbols, score(object{"text": string(r), "boundingBox": box}, w.Confidence))
	}
	if len(symbols) > 0 {
		symbols[len(symbols)-1]["property"] = object{"detectedBreak": object{"type": kind}}
	}
	return symbols
}

func (v *vision) failure(status int, code, message string) reply {
	return googleFailure(status, code, message)
}

func (v *vision) throttled(retryAfter int) reply {
	return googleThrottled("vision.googleapis.com", retryAfter)
}

func (v *vision) dress(http.Header, string) {} // Google sends no request id.
