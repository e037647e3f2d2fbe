package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// paged is the object in an answer that holds the numbered pages of a document.
type paged struct {
	answer  []byte
	place   span // in the answer
	text    []byte
	members members
	numbers []int // of the pages, in their order
}

// readPaged finds that object by its name. A page without a number of its own is an error.
func readPaged(answer []byte, name string) (*paged, error) {
	top, err := membersOf(answer)
	if err != nil {
		return nil, err
	}
	place, ok := top.find(name)
	if !ok {
		return nil, fmt.Errorf("there is no %s: %w", name, errItems)
	}
	p := &paged{answer: answer, place: place, text: answer[place.start:place.end]}
	if p.members, err = membersOf(p.text); err != nil {
		return nil, err
	}
	pages, err := p.list("pages")
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		all, err := membersOf(page)
		if err != nil {
			return nil, err
		}
		at, _ := all.find("pageNumber")
		n, err := strconv.Atoi(string(page[at.start:at.end]))
		if err != nil || n < 1 || n > maxPages || slices.Contains(p.numbers, n) {
			return nil, fmt.Errorf("a page without a number of its own: %w", errItems)
		}
		p.numbers = append(p.numbers, n)
	}
	return p, nil
}

// value is a member's JSON text; nil: there is none, or it says nothing.
func (p *paged) value(name string) []byte {
	at, _ := p.members.find(name)
	if value := p.text[at.start:at.end]; !blank(value) {
		return value
	}
	return nil
}

// string is the text of a string member; "": there is none.
func (p *paged) string(name string) string {
	var s string
	if json.Unmarshal(p.value(name), &s) != nil {
		return ""
	}
	return s
}

// list gives the elements of an array member; one that is not there is empty.
func (p *paged) list(name string) (all []json.RawMessage, err error) {
	if value := p.value(name); value != nil {
		err = json.Unmarshal(value, &all)
	}
	return all, err
}

func (p *paged) came(page int) bool { return slices.Contains(p.numbers, page) }

// asked reports whether the pages are new to an earlier object, and among those that were asked for.
func (p *paged) asked(earlier *paged, pages []int) error {
	for _, n := range p.numbers {
		if !slices.Contains(pages, n) || earlier.came(n) {
			return fmt.Errorf("page %d was not asked for: %w", n, errItems)
		}
	}
	return nil
}

// edited is the object with some of its text changed, but not the numbers of its pages.
func (p paged) edited(e edits) (_ *paged, err error) {
	if len(e) > 0 {
		p.text = e.apply(p.text)
		p.members, err = membersOf(p.text)
	}
	return &p, err
}

// join makes the answer in which the object has a later one's pages too, in the order of their numbers, and behind what it has the elements of
// those lists and, after a separator in JSON, that text.
func (p *paged) join(later *paged, lists []string, text, separator string) ([]byte, error) {
	o := object{start: bytes.IndexByte(p.text, '{') + 1, members: p.members}
	var e edits
	for _, name := range append(lists, "pages") {
		more, err := later.list(name)
		if err != nil {
			return nil, err
		}
		all, err := p.list(name)
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			continue
		}
		all = append(all, more...)
		if name == "pages" {
			all = ordered(all, slices.Concat(p.numbers, later.numbers))
		}
		e.put(o, name, array(all))
	}
	before, after := p.value(text), later.value(text)
	for _, value := range [][]byte{before, after} {
		if value != nil && value[0] != '"' {
			return nil, fmt.Errorf("%s is no text: %w", text, errItems)
		}
	}
	switch {
	case after == nil:
	case before == nil:
		e.put(o, text, string(after))
	default:
		e.put(o, text, string(before[:len(before)-1])+separator+string(after[1:]))
	}
	return slices.Concat(p.answer[:p.place.start], e.apply(p.text), p.answer[p.place.end:]), nil
}

// ordered sorts pages by their numbers.
func ordered(pages []json.RawMessage, numbers []int) []json.RawMessage {
	sorted := make([]json.RawMessage, len(pages))
	order := slices.Sorted(slices.Values(numbers))
	for i, page := range pages {
		sorted[slices.Index(order, numbers[i])] = page
	}
	return sorted
}

// array is the JSON array of those elements.
func array(all []json.RawMessage) string {
	var b strings.Builder
	for i, element := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(element)
	}
	return "[" + b.String() + "]"
}

// blank reports whether a JSON value says nothing.
func blank(value []byte) bool {
	if len(value) > maxBlank {
		return false
	}
	switch strings.Join(strings.Fields(string(value)), "") {
	case "", "null", "[]", "{}", `""`:
		return true
	}
	return false
}

// maxBlank is how long an empty value may be, with the spaces in it, in bytes.
const maxBlank = 100
