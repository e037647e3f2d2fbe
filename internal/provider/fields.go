package provider

import (
	"slices"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// Documents says where good answers of a kind hold the documents that were understood, with their fields.
type Documents struct {
	// At are the paths of the objects that stand for documents.
	At []DocumentPlace
	// Most is the score of what is certain: 1, or 100.
	Most float64
	// DropsZero is that of Words, for the fields of one document.
	DropsZero bool
}

// DocumentPlace is a path of documents and what is to be found below it.
type DocumentPlace struct {
	At string
	// Type is the member that names a document's type; "": all are of the type Fixed.
	Type, Fixed string
	// Lists are the lists of fields.
	Lists []FieldList
	// Map is the member whose members are the fields; "": there is none. Fields of lists and objects below them are named with a dot: Items.Amount.
	Map string
}

// FieldList is a list of fields, each an object: where the list is, and where an item has its name, its score and its values.
type FieldList struct {
	At, Name, Score string
	Values          []string
}

// Field is what a document says of one field, all its places together.
type Field struct {
	Present bool    // it has a value
	Scored  bool    // it has a score
	Least   float64 // of its scores, from 0 to 1
}

// notFound is the value that says that there is none.
const notFound = "NOT_FOUND"

func isValue(v jsonstream.Value) bool {
	return v.Type != jsonstream.Null && v.Type != jsonstream.Ended && strings.TrimSpace(v.Text) != "" && !strings.EqualFold(v.Text, notFound)
}

type fieldRole uint8

const (
	documentEnds fieldRole = iota
	documentType
	fieldEnds
	fieldName
	fieldScore
	fieldValue
	fieldMember
)

// fieldPath is what a path tells: of which place, and of which of all lists.
type fieldPath struct {
	role        fieldRole
	place, list int
}

// DocumentReader takes the documents out of one answer while it is read. Of each it keeps the wanted fields alone.
type DocumentReader struct {
	documents *Documents
	wanted    map[string]bool
	done      func(kind string, fields map[string]Field)
	paths     map[string]fieldPath

	kind   string
	fields map[string]Field
	silent map[string]bool // fields without a score
	scored bool            // some field of the document has a score
	items  []listItem      // that are being read, one of each list: a list may lie within an item of another
}

// listItem is the object of a list that is being read.
type listItem struct {
	name            string
	score           float64
	scored, present bool
}

// take notes a score; of several the least counts.
func (i *listItem) take(v jsonstream.Value) {
	if score, ok := v.Float(); ok && (!i.scored || score < i.score) {
		i.score, i.scored = score, true
	}
}

// Reader makes what reads the documents of one answer, and names the paths that it has to be told of. Wanted are names of fields in lower case. It calls
// done at the end of each document, with the type and the fields in lower case; the map is its own until the next one.
func (d *Documents) Reader(wanted map[string]bool, done func(kind string, fields map[string]Field)) (r *DocumentReader, paths []string) {
	r = &DocumentReader{documents: d, wanted: wanted, done: done, paths: map[string]fieldPath{}, fields: map[string]Field{}, silent: map[string]bool{}}
	add := func(path string, p fieldPath) {
		r.paths[path] = p
		paths = append(paths, path)
	}
	for i, place := range d.At {
		add(place.At+"{}", fieldPath{role: documentEnds, place: i})
		if place.Type != "" {
			add(place.At+"."+place.Type, fieldPath{role: documentType, place: i})
		}
		for _, list := range place.Lists {
			j := len(r.items)
			r.items = append(r.items, listItem{})
			at := place.At + "." + list.At
			add(at+"{}", fieldPath{fieldEnds, i, j})
			add(at+"."+list.Name, fieldPath{fieldName, i, j})
			add(at+"."+list.Score, fieldPath{fieldScore, i, j})
			for _, value := range list.Values {
				add(at+"."+value, fieldPath{fieldValue, i, j})
			}
		}
		if place.Map != "" {
			for _, below := range memberPaths("", mapLevels) {
				add(place.At+"."+place.Map+below, fieldPath{role: fieldMember, place: i})
			}
		}
	}
	return r, paths
}

// mapLevels is how deep the fields of a map are looked into: a statement has accounts, which have transactions, which have amounts.
const mapLevels = 3

// memberPaths are the paths, below some object of fields, of what says something about one of them. A field holds a value, such as valueString or
// the parts of valueCurrency, or a list of such values, or further fields, by themselves or in rows.
func memberPaths(below string, levels int) (paths []string) {
	if levels == 0 {
		return nil
	}
	paths = []string{below + ".*.*", below + ".*.*.*", below + ".*.valueArray[].*", below + ".*.valueArray[].*.*"}
	return slices.Concat(paths, memberPaths(below+".*.valueObject", levels-1), memberPaths(below+".*.valueArray[].valueObject", levels-1))
}

// Take is told of a value in the order of the answer; false: its path is none of the reader's.
func (r *DocumentReader) Take(path string, v jsonstream.Value) bool {
	p, ok := r.paths[path]
	if !ok {
		return false
	}
	switch p.role {
	case documentType:
		r.kind = strings.ToLower(v.Text)
	case fieldName:
		r.items[p.list].name = strings.ToLower(v.Text)
	case fieldScore:
		r.items[p.list].take(v)
	case fieldValue:
		r.items[p.list].present = r.items[p.list].present || isValue(v)
	case fieldEnds:
		r.note(r.items[p.list].name, r.items[p.list])
		r.items[p.list] = listItem{}
	case fieldMember:
		r.member(strings.Count(r.documents.At[p.place].At, ".")+2, v)
	case documentEnds:
		r.end(r.documents.At[p.place].Fixed)
	}
	return true
}

// member notes a member of a field in a map, whose name is that many names down.
func (r *DocumentReader) member(at int, v jsonstream.Value) {
	name, what := strings.ToLower(v.Names[at]), ""
	var around []string // the fields in which it lies
	for i := at + 1; i < len(v.Names) && what == ""; i++ {
		switch {
		case v.Names[i] == "valueArray" && i+1 < len(v.Names):
		case v.Names[i] == "valueObject" && i+1 < len(v.Names):
			i++
			around = append(around, name)
			name += "." + strings.ToLower(v.Names[i])
		default:
			what = v.Names[i]
		}
	}
	item := listItem{}
	switch {
	case what == "confidence":
		item.take(v)
	case what == "content" || what == "text" || strings.HasPrefix(what, "value"):
		item.present = isValue(v)
	default:
		return
	}
	if item.present {
		for _, field := range around {
			r.note(field, listItem{present: true})
		}
	}
	r.note(name, item)
}

func (r *DocumentReader) note(name string, item listItem) {
	r.scored = r.scored || item.scored
	if !r.wanted[name] {
		return
	}
	f := r.fields[name]
	f.Present = f.Present || item.present
	switch score := item.score / r.documents.Most; {
	case !item.scored:
		r.silent[name] = true
	case !f.Scored || score < f.Least:
		f.Scored, f.Least = true, score
	}
	r.fields[name] = f
}

func (r *DocumentReader) end(fixed string) {
	if fixed != "" {
		r.kind = fixed
	}
	if r.documents.DropsZero && r.scored {
		for name := range r.silent {
			f := r.fields[name]
			f.Scored, f.Least = true, 0
			r.fields[name] = f
		}
	}
	r.done(r.kind, r.fields)
	r.kind, r.scored = "", false
	clear(r.fields)
	clear(r.silent)
}
