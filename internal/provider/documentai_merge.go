package provider

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// documentaiMerge puts the later pages in the order of their numbers and appends what was read on them to the text, where their anchors then
// point. A document that holds anything of which it is not known what it would mean in a larger one is not merged.
func documentaiMerge(answer, later []byte, pages []int) (merged []byte, got []int, err error) {
	first, err := readDocumentai(answer)
	if err != nil {
		return nil, nil, err
	}
	second, err := readDocumentai(later)
	if err != nil {
		return nil, nil, err
	}
	if err := second.asked(first.paged, pages); err != nil {
		return nil, nil, err
	}
	if len(second.numbers) == 0 {
		return answer, nil, nil
	}
	order := slices.Sorted(slices.Values(slices.Concat(first.numbers, second.numbers)))
	one := documentaiMove{document: first, order: order}
	if err := one.run(); err != nil {
		return nil, nil, err
	}
	two := documentaiMove{document: second, order: order, shift: first.runes + first.gap, taken: one.ids, later: true}
	if err := two.run(); err != nil {
		return nil, nil, err
	}
	whole, err := first.edited(one.edits)
	if err != nil {
		return nil, nil, err
	}
	part, err := second.edited(two.edits)
	if err != nil {
		return nil, nil, err
	}
	merged, err = whole.join(part, []string{"entities", "textStyles"}, "text", strings.Repeat(`\n`, first.gap))
	return merged, slices.Sorted(slices.Values(second.numbers)), err
}

// mergeable reports whether all that the document holds can become part of a larger one, or take one in.
func (d documentaiDocument) mergeable() error {
	for _, m := range d.members {
		value := d.text[m.start:m.end]
		switch m.name {
		case "uri", "docid", "mimeType", "content", "text", "pages", "entities", "textStyles":
			continue
		case "shardInfo":
			if strings.Join(strings.Fields(strings.ReplaceAll(string(value), `"`, "")), "") == "{shardCount:1}" {
				continue // the only one
			}
		}
		if !blank(value) {
			return fmt.Errorf("it is not known how to merge %s: %w", m.name, errItems)
		}
	}
	return nil
}

// documentaiMove makes a document's positions and ids those that they are in the merged one.
type documentaiMove struct {
	document documentaiDocument
	order    []int // numbers of the merged document's pages
	shift    int   // where the document's text begins in the merged one
	later    bool
	taken    []documentaiID // ids of the earlier document

	ids   []documentaiID
	edits edits
}

// documentaiID is the id of an entity, which is unique in its document.
type documentaiID struct {
	span
	text string
}

func (m *documentaiMove) run() error {
	if err := m.document.mergeable(); err != nil {
		return err
	}
	err := eachObject(m.document.text, func(o object) error {
		if len(o.path) == 0 {
			return nil
		}
		switch o.path[len(o.path)-1] {
		case "textSegments":
			return m.segment(o)
		case "pageRefs":
			return m.page(o)
		case "entities", "properties":
			if o.path[0] == "entities" {
				return m.entity(o)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.renumber()
}

// segment moves an anchor in the text. Its indexes count characters, which the reference calls "UTF-8 char index" and Google's own client code
// takes for code points. An index beyond the text as it is counted here was counted otherwise, or points into another document.
func (m *documentaiMove) segment(o object) error {
	start, startErr := m.number(o, "startIndex")
	end, endErr := m.number(o, "endIndex")
	if startErr != nil || endErr != nil || start > end || end > m.document.runes {
		return fmt.Errorf("an anchor outside of the text: %w", errItems)
	}
	if m.shift == 0 || end == 0 {
		return nil // nothing stands before it, or it is empty
	}
	m.set(o, "startIndex", start+m.shift)
	m.set(o, "endIndex", end+m.shift)
	return nil
}

// page moves an index in the list of pages.
func (m *documentaiMove) page(o object) error {
	n, err := m.number(o, "page")
	if err != nil || n >= len(m.document.numbers) {
		return fmt.Errorf("a reference to no page: %w", errItems)
	}
	if to := slices.Index(m.order, m.document.numbers[n]); to != n {
		m.set(o, "page", to)
	}
	return nil
}

// entity notes an id. An entity that is nowhere on the later pages says something about all that was read with it, which is not the document.
func (m *documentaiMove) entity(o object) error {
	if at, ok := o.members.find("id"); ok {
		m.ids = append(m.ids, documentaiID{at, strings.Trim(string(m.document.text[at.start:at.end]), `"`)})
	}
	_, inText := o.members.find("textAnchor")
	_, onPage := o.members.find("pageAnchor")
	if len(o.path) == 1 && m.later && !inText && !onPage {
		return fmt.Errorf("an entity without a place: %w", errItems)
	}
	return nil
}

// renumber gives all entities new ids where some are taken. Nothing else refers to them in a document that is mergeable.
func (m *documentaiMove) renumber() error {
	taken := map[string]bool{}
	for _, id := range m.taken {
		taken[id.text] = true
	}
	if !slices.ContainsFunc(m.ids, func(id documentaiID) bool { return taken[id.text] }) {
		return nil
	}
	top := 0
	for _, id := range slices.Concat(m.taken, m.ids) {
		n, err := strconv.Atoi(id.text)
		if err != nil || n < 0 || n > maxID {
			return fmt.Errorf("entity id %q is taken: %w", id.text, errItems)
		}
		top = max(top, n)
	}
	for _, id := range m.ids {
		n, err := strconv.Atoi(id.text)
		if err != nil {
			return err
		}
		m.edits = append(m.edits, edit{id.span, strconv.Quote(strconv.Itoa(top + 1 + n))})
	}
	return nil
}

// maxID bounds the ids of entities that are counted on.
const maxID = 1 << 30

// number reads a count, which may stand in a string, as 64-bit numbers do. One that is not there is 0.
func (m *documentaiMove) number(o object, name string) (int, error) {
	at, ok := o.members.find(name)
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseUint(strings.Trim(string(m.document.text[at.start:at.end]), `"`), 10, 31)
	return int(n), err
}

// set writes a count in the form that it has.
func (m *documentaiMove) set(o object, name string, n int) {
	value := strconv.Itoa(n)
	if at, ok := o.members.find(name); !ok || bytes.HasPrefix(m.document.text[at.start:at.end], []byte(`"`)) {
		value = strconv.Quote(value)
	}
	m.edits.put(o, name, value)
}
