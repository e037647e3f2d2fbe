package provider

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// azureMerge puts the later pages in the order of their numbers and all that was found on them behind what was found first. Spans follow the
// content, which is appended, and pointers follow their elements. A result that holds anything of which it is not known what it would mean in
// a larger one is not merged.
func azureMerge(answer, later []byte, pages []int) (merged []byte, got []int, err error) {
	first, err := readAzure(answer)
	if err != nil {
		return nil, nil, err
	}
	second, err := readAzure(later)
	if err != nil {
		return nil, nil, err
	}
	if err := second.asked(first.paged, pages); err != nil {
		return nil, nil, err
	}
	if len(second.numbers) == 0 {
		return answer, nil, nil
	}
	for _, name := range azureSame() {
		if first.string(name) != second.string(name) {
			return nil, nil, fmt.Errorf("the results differ in %s: %w", name, errItems)
		}
	}
	if err := (&azureMove{result: first}).run(); err != nil {
		return nil, nil, err
	}
	two := azureMove{result: second, shift: first.shift, before: map[string]int{}}
	if second.length == 0 {
		two.shift = first.length // nothing is appended
	}
	for _, name := range azureLists() {
		all, err := first.list(name)
		if err != nil {
			return nil, nil, err
		}
		two.before[name] = len(all)
	}
	if err := two.run(); err != nil {
		return nil, nil, err
	}
	part, err := second.edited(two.edits)
	if err != nil {
		return nil, nil, err
	}
	merged, err = first.join(part, azureLists(), "content", first.separator)
	return merged, slices.Sorted(slices.Values(second.numbers)), err
}

// azureSame are the members of a result that two of them must agree on.
func azureSame() []string {
	return []string{"apiVersion", "modelId", "stringIndexType", "contentFormat"}
}

// azureLists are the members of a result, beside its pages, whose elements stand behind one another.
func azureLists() []string {
	return []string{
		"paragraphs", "tables", "figures", "sections", "keyValuePairs", "documents", "styles", "languages", "entities", "warnings",
	}
}

// azureMove makes a result's positions those that they are in the merged one.
type azureMove struct {
	result azureResult
	shift  int            // where the result's content begins in the merged one
	before map[string]int // how many elements stand before those of each list

	end   int // of the last span
	edits edits
}

func (m *azureMove) run() error {
	r := m.result
	for _, known := range r.members {
		if known.name != "content" && known.name != "pages" && !slices.Contains(azureSame(), known.name) && !slices.Contains(azureLists(), known.name) &&
			!blank(r.text[known.start:known.end]) {
			return fmt.Errorf("it is not known how to merge %s: %w", known.name, errItems)
		}
	}
	err := eachObject(r.text, func(o object) error {
		if at, ok := o.members.find("elements"); ok {
			if err := m.pointers(at); err != nil {
				return err
			}
		}
		if n := len(o.path); n > 0 && (o.path[n-1] == "span" || o.path[n-1] == "spans") {
			return m.span(o)
		}
		return nil
	})
	if err == nil && (m.end > r.length || r.exact && m.end != r.length) {
		err = fmt.Errorf("the content has another length in %s: %w", r.string("stringIndexType"), errItems)
	}
	return err
}

// span moves a place in the content.
func (m *azureMove) span(o object) error {
	at, _ := o.members.find("offset")
	long, _ := o.members.find("length")
	offset, err := strconv.ParseUint(string(m.result.text[at.start:at.end]), 10, 31)
	length, lengthErr := strconv.ParseUint(string(m.result.text[long.start:long.end]), 10, 31)
	if err != nil || lengthErr != nil {
		return fmt.Errorf("a span without a place: %w", errItems)
	}
	m.end = max(m.end, int(offset+length))
	if m.shift > 0 {
		m.edits.put(o, "offset", strconv.Itoa(int(offset)+m.shift))
	}
	return nil
}

// pointers moves the pointers to elements, such as "/paragraphs/7". One to a page, whose place changes, or into an element is not known to
// occur.
func (m *azureMove) pointers(at span) error {
	var all []string
	if err := json.Unmarshal(m.result.text[at.start:at.end], &all); err != nil {
		return err
	}
	for i, pointer := range all {
		rest, rooted := strings.CutPrefix(pointer, "/")
		name, place, _ := strings.Cut(rest, "/")
		n, err := strconv.ParseUint(place, 10, 31)
		if err != nil || !rooted || !slices.Contains(azureLists(), name) {
			return fmt.Errorf("a pointer %q: %w", pointer, errItems)
		}
		all[i] = "/" + name + "/" + strconv.Itoa(int(n)+m.before[name])
	}
	if m.before == nil {
		return nil
	}
	text, err := json.Marshal(all)
	m.edits = append(m.edits, edit{at, string(text)})
	return err
}
