package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// documentaiPages asks for pages by their number, which counts from 1 and which pages keep in an answer about some of them only.
func documentaiPages() *Pages {
	return &Pages{
		Operation: "process",
		Missing:   func(asked Asked, answer []byte) []int { return documentaiMissing(asked.Body, answer) },
		Select: func(asked Asked, pages []int) (_ Asked, err error) {
			asked.Body, err = documentaiSelect(asked.Body, pages)
			return asked, err
		},
		Merge: documentaiMerge,
	}
}

// documentaiMissing compares the pages of an answer with those that were asked for. Only a list of pages says which there must be: fromStart
// and fromEnd take what a shorter document has, and no answer tells how many pages the document has. Elsewhere a gap in the numbers tells.
func documentaiMissing(request, answer []byte) []int {
	asked, ok := documentaiAsked(request)
	if !ok {
		return nil
	}
	d, err := readDocumentai(answer)
	if err != nil || len(d.numbers) == 0 {
		return nil // the call brought nothing: to make it again is not to repair it
	}
	missing := slices.DeleteFunc(asked.pages, d.came)
	if asked.pages == nil {
		first := 1
		if asked.fromEnd {
			first = slices.Min(d.numbers)
		}
		missing = inferred(first, slices.Max(d.numbers), d.came)
	}
	if move := (documentaiMove{document: d, order: d.numbers}); len(missing) == 0 || move.run() != nil {
		return nil // pages that could not be put in are not paid for
	}
	return missing
}

// documentaiWanted is what a request says about the pages it asks for.
type documentaiWanted struct {
	pages   []int // ascending; nil: no list names them
	fromEnd bool
}

// documentaiOptions are the members of processOptions that say which pages are asked for, in the spellings that are taken.
func documentaiOptions() []string {
	return []string{"individualPageSelector", "individual_page_selector", "fromStart", "from_start", "fromEnd", "from_end"}
}

// documentaiAsked reports false for a request that it does not understand.
func documentaiAsked(request []byte) (wanted documentaiWanted, ok bool) {
	var lists, ends []string
	for _, options := range []string{"processOptions.", "process_options."} {
		lists = append(lists, options+"individualPageSelector.pages[]", options+"individual_page_selector.pages[]")
		ends = append(ends, options+"fromEnd", options+"from_end")
	}
	found, err := jsonstream.Pick(bytes.NewReader(request), slices.Concat(lists, ends), maxPages)
	if err != nil {
		return wanted, false
	}
	for _, path := range ends {
		wanted.fromEnd = wanted.fromEnd || found.Has(path)
	}
	pages := map[int]bool{}
	for _, path := range lists {
		for _, v := range found[path] {
			n, whole := v.Int()
			if !whole || n < 1 || n > maxPages {
				return wanted, false
			}
			pages[int(n)] = true
		}
	}
	wanted.pages = slices.Sorted(maps.Keys(pages))
	return wanted, true
}

// documentaiSelect makes a list of pages the only thing that a request's options say about pages.
func documentaiSelect(request []byte, pages []int) ([]byte, error) {
	all, err := membersOf(request)
	if err != nil {
		return nil, err
	}
	name, options := "processOptions", []byte("{}")
	if value, ok := all.find("process_options"); ok {
		name, options = "process_options", request[value.start:value.end]
	}
	if value, ok := all.find("processOptions"); ok {
		if name != "processOptions" {
			return nil, errTwice(name)
		}
		options = request[value.start:value.end]
	}
	if string(options) == "null" {
		options = []byte("{}")
	}
	inner, err := membersOf(options)
	if err != nil {
		return nil, err
	}
	list, err := json.Marshal(map[string]any{"pages": pages})
	if err != nil {
		return nil, err
	}
	made := [][]byte{fmt.Appendf(nil, `"individualPageSelector":%s`, list)}
	for _, m := range inner {
		if slices.Contains(documentaiOptions(), m.name) {
			continue
		}
		key, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		made = append(made, fmt.Appendf(key, ":%s", options[m.start:m.end]))
	}
	return WithMember(request, name, slices.Concat([]byte("{"), bytes.Join(made, []byte(",")), []byte("}")))
}

// documentaiDocument is the document in an answer.
type documentaiDocument struct {
	*paged
	runes int // length of what was read, in the unit of its anchors
	gap   int // 1 where a line end has to be put behind it, so that its last word does not run into what follows
}

func readDocumentai(answer []byte) (d documentaiDocument, err error) {
	if d.paged, err = readPaged(answer, "document"); err != nil {
		return d, err
	}
	read := d.string("text")
	d.runes = utf8.RuneCountInString(read)
	if read != "" && !strings.HasSuffix(read, "\n") {
		d.gap = 1
	}
	return d, nil
}
