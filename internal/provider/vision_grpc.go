package provider

import "github.com/ocr-proxy/ocr-proxy/internal/fingerprint"

// visionGRPC is google.cloud.vision.v1.ImageAnnotator and the service of its long-running operations. Numbers are those of
// image_annotator.proto.
func visionGRPC() *GRPC {
	methods := map[string]string{
		"ImageAnnotator/BatchAnnotateImages":      "images:annotate",
		"ImageAnnotator/BatchAnnotateFiles":       "files:annotate",
		"ImageAnnotator/AsyncBatchAnnotateImages": "images:asyncBatchAnnotate",
		"ImageAnnotator/AsyncBatchAnnotateFiles":  "files:asyncBatchAnnotate",
	}
	words := Fields{3: {Name: "words[]", In: Fields{4: {Name: "confidence"}}}}
	pages := Fields{4: {Name: "blocks[]", In: Fields{3: {Name: "paragraphs[]", In: words}}}}
	item := Fields{
		9:  {Name: "error", In: googleErrorFields()},
		12: {Name: "fullTextAnnotation", In: Fields{1: {Name: "pages[]", In: pages}, 2: {Name: "text"}}},
	}
	page := Fields{
		9:  {Name: "error", In: googleErrorFields()},
		12: {Name: "fullTextAnnotation", In: Fields{1: {Name: "pages[]", In: pages}}},
		21: {Name: "context", In: Fields{2: {Name: "pageNumber"}}},
	}
	answers := map[string]Fields{
		"images:annotate": {1: {Name: "responses[]", In: item}},
		"files:annotate": {1: {Name: "responses[]", In: Fields{
			2: {Name: "responses[]", In: page},
			4: {Name: "error", In: googleErrorFields()},
		}}},
		"getOperation":  googleOperationFields(nil),
		"waitOperation": googleOperationFields(nil),
	}
	images := fingerprint.Places{
		Inline: [][]int{{1, 1, 1}},
		Refs:   [][]int{{1, 1, 2, 2}, {1, 1, 2, 1}},
		Maps:   []int{5},
	}
	files := fingerprint.Places{
		Inline: [][]int{{1, 1, 3}},
		Refs:   [][]int{{1, 1, 1, 1}},
		Maps:   []int{5},
	}
	documents := map[string]fingerprint.Places{
		"images:annotate": images, "images:asyncBatchAnnotate": images, "files:annotate": files, "files:asyncBatchAnnotate": files,
	}
	g := googleGRPC("ImageAnnotator", visionRoutes(), googleOperationMethods(methods), answers, documents)
	g.Batch, g.Jobs = visionMessageBatch(), inMessages(visionJobs())
	return g
}
