package provider

import (
	"io"
	"net/http"
	"slices"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// visionPartial is a code of our own that follows Google's: the batch holds good items or permanently failed ones beside those that failed,
// so that repeating the whole of it would pay for pages twice.
const visionPartial = "PARTIAL_BATCH"

// vision is Google Cloud Vision: batches of images, or the pages of one file, in which each item fails by itself inside a good answer.
func vision() *Provider {
	routes := visionRoutes()
	return &Provider{
		Name:       "vision",
		Operations: operations(routes),
		Portable:   []string{"images:annotate", "files:annotate", "images:asyncBatchAnnotate", "files:asyncBatchAnnotate"},
		Operation:  recogniser(routes),
		Layout: fingerprint.Layout{
			Inline: []string{"requests[].image.content", "requests[].inputConfig.content", "requests[].input_config.content"},
			Refs: []string{
				"requests[].image.source.imageUri", "requests[].image.source.image_uri",
				"requests[].image.source.gcsImageUri", "requests[].image.source.gcs_image_uri",
				"requests[].inputConfig.gcsSource.uri", "requests[].input_config.gcs_source.uri",
			},
		},
		Checks: map[string]Checks{"images:annotate": {}, "files:annotate": {}, "images:asyncBatchAnnotate": {}, "files:asyncBatchAnnotate": {}},
		Fault:  googleFault,
		Watch: append(googleOperationPaths(),
			"responses[].error.code", "responses[].error.message", "responses[].fullTextAnnotation.text",
			"responses[].responses[].error.code", "responses[].responses[].error.message", "responses[].responses[].context.pageNumber"),
		Judge: visionJudge,
		Words: visionScores(),
		Result: &Result{
			Operations: []string{"images:annotate", "files:annotate"},
			Text: []string{
				"responses[].fullTextAnnotation.text", "responses[].textAnnotations[].description",
				"responses[].responses[].fullTextAnnotation.text",
			},
			Asked: visionWantsText,
		},
		Batch:       visionBatch(),
		Charged:     visionCharged,
		Jobs:        visionJobs(),
		Table:       visionTable(),
		Problem:     googleProblem,
		Credentials: []string{"X-Goog-Api-Key"},
		Shapes:      []string{"X-Goog-Fieldmask"},
		GRPC:        visionGRPC(),
	}
}

func visionJobs() *Jobs { return googleJobs("images:asyncBatchAnnotate", "files:asyncBatchAnnotate") }

// visionScores are those of images and those of the pages of a file. Words that were read without scores come without them.
func visionScores() *Words {
	const words = ".fullTextAnnotation.pages[].blocks[].paragraphs[].words[]"
	return &Words{At: []string{"responses[]" + words, "responses[].responses[]" + words}, Score: "confidence", Most: 1, DropsZero: true}
}

func visionRoutes() []route {
	judged := func(name string) Operation { return Operation{Name: name, Repeat: Always, Judged: true} }
	return append([]route{
		{http.MethodPost, "images:annotate", judged("images:annotate")},
		{http.MethodPost, "files:annotate", judged("files:annotate")},
		{http.MethodPost, "images:asyncBatchAnnotate", Operation{Name: "images:asyncBatchAnnotate", Repeat: IfUnsent}},
		{http.MethodPost, "files:asyncBatchAnnotate", Operation{Name: "files:asyncBatchAnnotate", Repeat: IfUnsent}},
	}, googleOperationRoutes()...)
}

func visionTable() classify.Table {
	return append(classify.Table{
		{Status: http.StatusOK, Code: visionPartial, Class: classify.Permanent},
		// Inside a batch this is about one image that Google may not fetch, and not about the caller's credentials.
		{Status: http.StatusOK, Code: "PERMISSION_DENIED", Class: classify.Permanent},
		{Status: http.StatusOK, Code: "UNAUTHENTICATED", Class: classify.Permanent},
	}, googleTable()...)
}

func visionJudge(_ string, v jsonstream.Found) (classify.Fault, bool) {
	if f, failed := googleOperation(v); failed {
		return f, true
	}
	if f, failed := visionItems(v, "responses[].error", "responses[].fullTextAnnotation.text"); failed {
		return f, true
	}
	return visionItems(v, "responses[].responses[].error", "responses[].responses[].context.pageNumber")
}

// visionItems judges the items with errors at a path. When all of them failed for reasons that pass, the call as a whole may be repeated.
// The mark is a path that items have which did not fail, and perhaps those that failed too: it shows that there are items without an error.
// Only a blank image at the end of a batch has neither error nor mark.
func visionItems(v jsonstream.Found, path, mark string) (classify.Fault, bool) {
	failed := map[item]bool{}
	var passing, lasting struct {
		code string
		at   item
	}
	for _, value := range v[path+".code"] {
		code, bad := nested(value)
		if !bad {
			continue
		}
		at := itemOf(value)
		failed[at] = true
		switch code {
		case "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE":
			if passing.code == "" || code == "RESOURCE_EXHAUSTED" && code != passing.code {
				passing.code, passing.at = code, at
			}
		default:
			if lasting.code == "" {
				lasting.code, lasting.at = code, at
			}
		}
	}
	if len(failed) == 0 {
		return classify.Fault{}, false
	}
	worst, whole := lasting, false
	if lasting.code == "" {
		worst, whole = passing, !hasGood(failed, v[mark])
	}
	f := classify.Fault{Codes: classify.Codes(worst.code)}
	if !whole {
		f.Codes = append(f.Codes, visionPartial)
	}
	for _, message := range v[path+".message"] {
		if itemOf(message) == worst.at {
			f.Message = classify.First(message.Text)
			break
		}
	}
	return f, true
}

// item is the place of an image in a batch, or of a file and a page in it.
type item struct{ outer, inner int }

func itemOf(v jsonstream.Value) item {
	at := item{outer: v.Index[0]}
	if len(v.Index) > 1 {
		at.inner = v.Index[1]
	}
	return at
}

// hasGood reports whether there are items that did not fail: marked ones, or such as must stand before one that failed.
func hasGood(failed map[item]bool, marks []jsonstream.Value) bool {
	for at := range failed {
		if at.inner > 0 && !failed[item{at.outer, at.inner - 1}] || at.inner == 0 && at.outer > 0 && !failed[item{at.outer - 1, 0}] {
			return true
		}
	}
	return slices.ContainsFunc(marks, func(m jsonstream.Value) bool { return !failed[itemOf(m)] })
}

// visionWantsText reports whether a call asks for text, for every image or file.
func visionWantsText(rawQuery string, request io.Reader) bool {
	if googleMasks(rawQuery) {
		return false
	}
	asked, text := map[int]bool{}, map[int]bool{}
	err := jsonstream.Each(request, []string{"requests[].features[].type"}, maxWord, func(_ string, v jsonstream.Value) {
		asked[v.Index[0]] = true
		if v.Text == "TEXT_DETECTION" || v.Text == "DOCUMENT_TEXT_DETECTION" {
			text[v.Index[0]] = true
		}
	})
	return err == nil && len(text) > 0 && len(text) == len(asked)
}
