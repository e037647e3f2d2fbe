package provider

import (
	"io"
	"slices"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// textractCharged: the synchronous operations take one page; a job's pages are not in its start.
func textractCharged(operation string, body io.Reader) int {
	switch operation {
	case "DetectDocumentText", "AnalyzeDocument", "AnalyzeExpense":
		return 1
	case "AnalyzeID":
		return countItems(body, "DocumentPages[].Bytes", "DocumentPages[].S3Object.Name")
	}
	return 0
}

// visionCharged: every image of a batch is a unit; the pages of a file are not in the request.
func visionCharged(operation string, body io.Reader) int {
	if operation != "images:annotate" {
		return 0
	}
	return countItems(body, "requests[].features[].type")
}

// mistralCharged: the pages that are asked for, where they are named.
func mistralCharged(operation string, body io.Reader) int {
	if operation != "ocr" {
		return 0
	}
	return countItems(body, "pages[]")
}

// documentaiCharged: the pages that a call about one document selects, where it does; a batch names documents of any length.
func documentaiCharged(operation string, body io.Reader) int {
	if operation != "process" {
		return 0
	}
	var lists, ends []string
	for _, options := range []string{"processOptions.", "process_options."} {
		lists = append(lists, options+"individualPageSelector.pages[]", options+"individual_page_selector.pages[]")
		ends = append(ends, options+"fromStart", options+"from_start", options+"fromEnd", options+"from_end")
	}
	found, err := jsonstream.Pick(body, slices.Concat(lists, ends), maxPages)
	if err != nil {
		return 0
	}
	n := 0
	for _, path := range lists {
		n += len(found[path])
	}
	for _, path := range ends {
		for _, v := range found[path] {
			if pages, whole := v.Int(); whole && pages > 0 && pages <= maxPages {
				n += int(pages)
			}
		}
	}
	return n
}

// countItems counts the elements of a list in which one of the paths leads somewhere; 0 where the text cannot be read.
func countItems(body io.Reader, paths ...string) int {
	n, last := 0, -1
	err := jsonstream.Each(body, paths, 1, func(_ string, v jsonstream.Value) {
		if len(v.Index) > 0 && v.Index[0] != last {
			n, last = n+1, v.Index[0]
		}
	})
	if err != nil {
		return 0
	}
	return n
}
