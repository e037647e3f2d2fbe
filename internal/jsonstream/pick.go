package jsonstream

import (
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Type says what a Value is.
type Type byte

// The types; the zero value is null.
const (
	Null Type = iota
	String
	Number
	Bool
	Ended // no scalar: the object at a path with "{}" has ended
)

// Value is one scalar of a text, or the news that an object has ended.
type Value struct {
	// Type says how to read Text.
	Type Type
	// Text is the string with its escapes resolved and made valid UTF-8, or the number, true, false or null as written.
	Text string
	// Cut says that Text is only the beginning, because the string was longer than the limit or the number longer than MaxToken.
	Cut bool
	// Index holds the positions in the arrays on the way to the value, outermost first, from 0; one for every "[]" of the path.
	Index []int
	// Names holds the names of all members on the way to the value, outermost first. It is nil unless the path contains a "*".
	Names []string
}

// Float returns the number, or false when the value is none or none that fits.
func (v Value) Float() (float64, bool) {
	if v.Type != Number || v.Cut {
		return 0, false
	}
	f, err := strconv.ParseFloat(v.Text, 64)
	return f, err == nil && !math.IsNaN(f) // a message of protobuf can hold what is no number
}

// Int returns the number, or false when the value is no number or none that is whole and fits. 14.0 and 1e3 are whole.
func (v Value) Int() (int64, bool) {
	if v.Type != Number || v.Cut {
		return 0, false
	}
	if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
		return n, true
	}
	const limit = 1 << 53 // Beyond it a float does not hold every whole number.
	f, err := strconv.ParseFloat(v.Text, 64)
	if n := int64(f); err == nil && -limit <= f && f <= limit && float64(n) == f {
		return n, true
	}
	return 0, false
}

// Found is what Pick found. The zero value is nothing.
type Found map[string][]Value

// Has reports whether there is a scalar at a path, null included.
func (f Found) Has(path string) bool { return len(f[path]) > 0 }

// String returns the first value at a path if it is a string, else "".
func (f Found) String(path string) string {
	if v := f.first(path); v.Type == String {
		return v.Text
	}
	return ""
}

// Bool returns whether the first value at a path is true; ok is false when it is neither true nor false.
func (f Found) Bool(path string) (value, ok bool) {
	v := f.first(path)
	return v.Text == "true" && v.Type == Bool, v.Type == Bool
}

// Int returns the first value at a path if it is a whole number.
func (f Found) Int(path string) (int64, bool) { return f.first(path).Int() }

// Float returns the first value at a path if it is a number.
func (f Found) Float(path string) (float64, bool) { return f.first(path).Float() }

func (f Found) first(path string) Value {
	if values := f[path]; len(values) > 0 {
		return values[0]
	}
	return Value{}
}

// Pick reads r to its end and returns the scalars at paths (see Compile), under the path they were asked for and in the order of the text.
// Strings are cut to at most limit bytes, without breaking a character. Objects and arrays at a path are not values.
// The whole text is checked; with an error of Walk comes what was found before it, so that the code of a truncated error body is not lost.
// Memory grows with what is found: for lists of any length use Each.
func Pick(r io.Reader, paths []string, limit int) (Found, error) {
	found := Found{}
	// The indexes of all values lie in one slice, a few allocations instead of one a value.
	var indexes []int
	err := Each(r, paths, limit, func(path string, v Value) {
		if len(v.Index) > 0 {
			from := len(indexes)
			indexes = append(indexes, v.Index...)
			v.Index = slices.Clip(indexes[from:])
		}
		v.Names = slices.Clone(v.Names)
		found[path] = append(found[path], v)
	})
	return found, err
}

// Each is Pick for results of any size: it calls do for every value instead of keeping it. Index and Names are valid until do returns.
// Like Pick it passes over a byte order mark, which a text should not have, and which its readers may ignore.
func Each(r io.Reader, paths []string, limit int, do func(path string, v Value)) error {
	p := picker{paths: paths, limit: limit, do: do, next: Compile(paths...)}
	p.starred = make([]bool, len(paths))
	for i, path := range paths {
		p.starred[i] = slices.ContainsFunc(strings.Split(path, "."), func(name string) bool {
			bare, _ := splitItems(strings.TrimSuffix(name, "{}"))
			return bare == "*"
		})
	}
	s := newScanner(r, &p)
	s.marked = true
	return s.walk()
}

// picker is the Handler of Each.
type picker struct {
	paths   []string
	starred []bool
	limit   int
	do      func(path string, v Value)

	next   *Node // Where the value that follows stands, unless it is an item of an array.
	levels []level
	index  []int
	names  []string

	longKey bool
	text    []byte
	cut     bool
	partial bool // A scalar has begun.
	at      *Node
}

type level struct {
	node *Node
	kind Kind
}

// arrive returns the node of the value that begins now.
func (p *picker) arrive() *Node {
	if len(p.levels) == 0 {
		return p.next
	}
	top := p.levels[len(p.levels)-1]
	if top.kind == Object {
		return p.next
	}
	p.index[len(p.index)-1]++
	return top.node.Item()
}

func (p *picker) Begin(kind Kind) bool {
	node := p.arrive()
	if !node.opens(kind) {
		return false
	}
	p.levels = append(p.levels, level{node, kind})
	if kind == Array {
		p.index = append(p.index, -1)
	} else {
		p.names = append(p.names, "")
	}
	return true
}

func (p *picker) End() {
	top := p.levels[len(p.levels)-1]
	p.levels = p.levels[:len(p.levels)-1]
	if top.kind == Array {
		p.index = p.index[:len(p.index)-1]
	} else {
		p.names = p.names[:len(p.names)-1]
		for _, path := range top.node.ends {
			v := Value{Type: Ended, Index: p.index}
			if p.starred[path] {
				v.Names = p.names
			}
			p.do(p.paths[path], v)
		}
	}
}

func (p *picker) Key(part []byte, last bool) bool {
	if !last || p.longKey {
		// No path asks for such a name, and what "*" stands for has bounds too.
		p.longKey = !last
		return false
	}
	node, name := p.levels[len(p.levels)-1].node.member(part)
	if node == nil {
		return false
	}
	if name == "" {
		name = valid(part)
	}
	p.next, p.names[len(p.names)-1] = node, name
	return true
}

func (p *picker) String(part []byte, last bool) { p.scalar(String, part, last) }

func (p *picker) Literal(part []byte, last bool) {
	kind := Number
	if !p.partial {
		switch part[0] {
		case 't', 'f':
			kind = Bool
		case 'n':
			kind = Null
		}
	}
	p.scalar(kind, part, last)
}

func (p *picker) scalar(kind Type, part []byte, last bool) {
	if !p.partial {
		p.at = p.arrive()
	}
	p.partial = !last
	if len(p.at.Matches()) == 0 {
		return
	}
	limit := p.limit
	if kind != String {
		limit = MaxToken
	}
	if room := limit - len(p.text); len(part) > room {
		part, p.cut = part[:max(room, 0)], true
	}
	p.text = append(p.text, part...)
	if !last {
		return
	}
	if p.cut {
		p.text = whole(p.text)
	}
	v := Value{Type: kind, Text: valid(p.text), Cut: p.cut, Index: p.index}
	for _, path := range p.at.Matches() {
		v.Names = nil
		if p.starred[path] {
			v.Names = p.names
		}
		p.do(p.paths[path], v)
	}
	p.text, p.cut = p.text[:0], false
}

// whole drops the beginning of a character at the end of a text that was cut.
func whole(text []byte) []byte {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}

// valid replaces every byte that is not UTF-8 by U+FFFD.
func valid(text []byte) string {
	if utf8.Valid(text) {
		return string(text)
	}
	return string([]rune(string(text)))
}
