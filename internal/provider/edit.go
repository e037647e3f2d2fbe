package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// member is one member of a JSON object: its name, and where its value lies.
type member struct {
	name string
	span
}

// members are those of one object, in the order of the text.
type members []member

// find gives the value of a member; false: there is none.
func (all members) find(name string) (span, bool) {
	for _, m := range all {
		if m.name == name {
			return m.span, true
		}
	}
	return span{}, false
}

// errTwice says that a member stands twice, which means different things to different readers.
func errTwice(name string) error { return fmt.Errorf("%s stands there twice: %w", name, errItems) }

// object is one object of a JSON text.
type object struct {
	path    []string // the names that lead to it; places in lists are left out
	start   int      // right after its brace
	members members
}

// eachObject calls do for every object of a JSON text, inner ones before the one that they are in. What do is given holds until it returns.
func eachObject(text []byte, do func(o object) error) error {
	w := walker{text: text, decoder: json.NewDecoder(bytes.NewReader(text)), do: do}
	_, err := w.value()
	return err
}

type walker struct {
	text    []byte
	decoder *json.Decoder
	do      func(o object) error
	path    []string
	open    members // of all objects that have begun
}

func (w *walker) value() (span, error) {
	start := int(w.decoder.InputOffset())
	start += len(w.text[start:]) - len(bytes.TrimLeft(w.text[start:], " \t\r\n,:"))
	t, err := w.decoder.Token()
	if err != nil {
		return span{}, err
	}
	switch t {
	case json.Delim('{'):
		err = w.object(start + 1)
	case json.Delim('['):
		for w.decoder.More() && err == nil {
			_, err = w.value()
		}
		if err == nil {
			_, err = w.decoder.Token()
		}
	}
	return span{start, int(w.decoder.InputOffset())}, err
}

func (w *walker) object(start int) error {
	base := len(w.open)
	for w.decoder.More() {
		t, err := w.decoder.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		w.path = append(w.path, name)
		value, err := w.value()
		if err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
		if _, twice := w.open[base:].find(name); twice {
			return errTwice(name)
		}
		w.open = append(w.open, member{name, value})
	}
	if _, err := w.decoder.Token(); err != nil {
		return err
	}
	err := w.do(object{w.path, start, w.open[base:]})
	w.open = w.open[:base]
	return err
}

// membersOf lists the members of the object that a JSON text is.
func membersOf(text []byte) (members, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("no JSON object: %w", errItems)
	}
	var all members
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		name, _ := t.(string)
		if _, twice := all.find(name); twice {
			return nil, errTwice(name)
		}
		end := int(d.InputOffset())
		all = append(all, member{name, span{end - len(value), end}})
	}
	if _, err := d.Token(); err != nil { // its end
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more than one JSON value: %w", errItems)
	}
	return all, nil
}

// edit is a new text for a part of one.
type edit struct {
	span
	text string
}

// edits are those of one text. No two of the parts overlap.
type edits []edit

// put gives a member of an object a value, or puts it in before the others where there is none. Into an empty object it puts one at most.
func (e *edits) put(o object, name, value string) {
	if s, ok := o.members.find(name); ok {
		*e = append(*e, edit{s, value})
		return
	}
	value = strconv.Quote(name) + ":" + value
	if len(o.members) > 0 {
		value += ","
	}
	*e = append(*e, edit{span{o.start, o.start}, value})
}

// apply makes the edited text; what is not edited stays byte for byte.
func (e edits) apply(text []byte) []byte {
	slices.SortStableFunc(e, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	var out bytes.Buffer
	at := 0
	for _, one := range e {
		out.Write(text[at:one.start])
		out.WriteString(one.text)
		at = one.end
	}
	out.Write(text[at:])
	return out.Bytes()
}

// WithMember gives a member of a JSON object a value, or puts it in before the others where there is none; all else stays byte for byte. The
// error says that the text is not one JSON object, or that a member stands in it twice.
func WithMember(text []byte, name string, value []byte) ([]byte, error) {
	all, err := membersOf(text)
	if err != nil {
		return nil, err
	}
	var e edits
	e.put(object{start: bytes.IndexByte(text, '{') + 1, members: all}, name, string(value))
	return e.apply(text), nil
}
