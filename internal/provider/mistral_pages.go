package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// mistralPages asks for pages by their index, which counts from 0. Each page is billed by itself.
func mistralPages() *Pages {
	return &Pages{
		Operation: "ocr",
		Missing:   func(asked Asked, answer []byte) []int { return mistralMissing(asked.Body, answer) },
		Select: func(asked Asked, pages []int) (Asked, error) {
			value, err := json.Marshal(pages)
			if err != nil {
				return asked, err
			}
			asked.Body, err = WithMember(asked.Body, "pages", value)
			return asked, err
		},
		Merge: mistralMerge,
	}
}

// mistralMissing compares the pages of an answer with those that were asked for; where the request does not say, with all from the first to
// the last that came or that the answer says were processed.
func mistralMissing(request, answer []byte) []int {
	asked, all, ok := mistralAsked(request)
	if !ok {
		return nil
	}
	came, err := mistralRead(answer)
	if err != nil {
		return nil
	}
	good := 0
	last := -1
	for page, text := range came {
		last = max(last, page)
		if text != nil {
			good++
		}
	}
	if good == 0 {
		return nil // the call brought nothing: to make it again is not to repair it
	}
	isGood := func(page int) bool { return came[page] != nil }
	if !all {
		return slices.DeleteFunc(asked, isGood)
	}
	found, err := jsonstream.Pick(bytes.NewReader(answer), []string{"usage_info.pages_processed"}, maxPages)
	if err != nil {
		return nil
	}
	processed, _ := found.Int("usage_info.pages_processed")
	return inferred(0, max(last, int(min(processed, maxPages))-1), isGood)
}

// mistralAsked lists the pages that a request asks for, ascending, or says that it asks for all. It reports false for what it does not
// understand.
func mistralAsked(request []byte) (pages []int, all, ok bool) {
	found, err := jsonstream.Pick(bytes.NewReader(request), []string{"pages", "pages[]"}, maxPages)
	if err != nil {
		return nil, false, false
	}
	asked := map[int]bool{}
	switch values := found["pages"]; {
	case len(values) > 1:
		return nil, false, false
	case len(values) == 1 && values[0].Type == jsonstream.String:
		if !addRanges(asked, values[0].Text) {
			return nil, false, false
		}
	case len(values) == 1 && values[0].Type != jsonstream.Null:
		return nil, false, false
	}
	for _, v := range found["pages[]"] {
		n, whole := v.Int()
		if !whole || n < 0 || n >= maxPages {
			return nil, false, false
		}
		asked[int(n)] = true
	}
	return slices.Sorted(maps.Keys(asked)), len(asked) == 0, true
}

// addRanges reads "0-2,5".
func addRanges(into map[int]bool, ranges string) bool {
	for part := range strings.SplitSeq(ranges, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.Atoi(strings.TrimSpace(from))
		last, err2 := strconv.Atoi(strings.TrimSpace(to))
		if err1 != nil || err2 != nil || first < 0 || last < first || last >= maxPages {
			return false
		}
		for page := first; page <= last; page++ {
			into[page] = true
		}
	}
	return true
}

// mistralRead gives the pages of an answer by their index; nil stands for one that is marked as failed.
func mistralRead(answer []byte) (map[int][]byte, error) {
	if !json.Valid(answer) {
		return nil, fmt.Errorf("no whole JSON: %w", errItems) // elements would not look beyond the pages
	}
	all, err := elements(answer, "pages")
	if err != nil {
		return nil, err
	}
	pages := make(map[int][]byte, len(all))
	for _, s := range all {
		text := answer[s.start:s.end]
		body := classify.ReadBody(text)
		page, ok := body.At("index").Int()
		if _, twice := pages[page]; !ok || twice || page < 0 || page >= maxPages {
			return nil, fmt.Errorf("a page without a number of its own: %w", errItems)
		}
		if classify.First(body.At("error").Text(), body.At("error", "message").Text()) != "" {
			text = nil
		}
		pages[page] = text
	}
	return pages, nil
}

func mistralMerge(answer, later []byte, pages []int) (merged []byte, got []int, err error) {
	place, err := elements(answer, "pages")
	if err != nil {
		return nil, nil, err
	}
	have, err := mistralRead(answer)
	if err != nil || len(place) == 0 {
		return nil, nil, fmt.Errorf("%w: %w", errItems, err)
	}
	fresh, err := mistralRead(later)
	if err != nil {
		return nil, nil, err
	}
	for page, text := range fresh {
		if !slices.Contains(pages, page) {
			return nil, nil, fmt.Errorf("page %d was not asked for: %w", page, errItems)
		}
		if text != nil {
			have[page] = text
			got = append(got, page)
		}
	}
	slices.Sort(got)
	if len(got) == 0 {
		return answer, nil, nil
	}
	var texts [][]byte
	for _, s := range place { // what is still marked as failed stays as it was
		page, _ := classify.ReadBody(answer[s.start:s.end]).At("index").Int()
		if have[page] == nil {
			have[page] = answer[s.start:s.end]
		}
	}
	for _, page := range slices.Sorted(maps.Keys(have)) {
		texts = append(texts, have[page])
	}
	return slices.Concat(answer[:place[0].start], bytes.Join(texts, []byte(",")), answer[place[len(place)-1].end:]), got, nil
}
