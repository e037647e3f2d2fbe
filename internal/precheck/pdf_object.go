package precheck

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The objects of a PDF, as far as they are looked at: nil is null, and beside the types below there are bool, int64 and float64.
type (
	pdfName   string
	pdfString string // its bytes
	pdfArray  []any
	pdfDict   map[pdfName]any
	pdfRef    struct{ number, generation int64 }
	pdfWord   string // a keyword, such as obj or an operator
)

// pdfText reads objects out of text. It has no state but its place, and gives up, with ok false, where the text ends or makes no sense.
type pdfText struct {
	text  []byte
	pos   int
	nodes int // objects that have been read: a bound for what a hostile text costs
}

const (
	pdfDepth = 32
	pdfNodes = 200_000
)

func isPDFSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isPDFDelimiter(c byte) bool { return bytes.IndexByte([]byte("()<>[]{}/%"), c) >= 0 }

// space skips white space and comments.
func (t *pdfText) space() {
	for t.pos < len(t.text) {
		switch c := t.text[t.pos]; {
		case isPDFSpace(c):
			t.pos++
		case c == '%':
			end := bytes.IndexAny(t.text[t.pos:], "\r\n")
			if end < 0 {
				t.pos = len(t.text)
				return
			}
			t.pos += end
		default:
			return
		}
	}
}

// object reads the next object; a number that begins a reference becomes the reference.
func (t *pdfText) object(depth int) (any, bool) {
	if t.nodes++; t.nodes > pdfNodes || depth > pdfDepth {
		return nil, false
	}
	t.space()
	if t.pos >= len(t.text) {
		return nil, false
	}
	switch c := t.text[t.pos]; {
	case c == '/':
		return t.name(), true
	case c == '(':
		return t.literal()
	case c == '<' && t.pos+1 < len(t.text) && t.text[t.pos+1] == '<':
		t.pos += 2
		return t.dict(depth)
	case c == '<':
		return t.hexadecimal()
	case c == '[':
		t.pos++
		return t.array(depth)
	case isPDFDelimiter(c):
		return nil, false
	}
	word := t.word()
	return t.number(word)
}

// word is a run of regular characters.
func (t *pdfText) word() string {
	start := t.pos
	for t.pos < len(t.text) && !isPDFSpace(t.text[t.pos]) && !isPDFDelimiter(t.text[t.pos]) {
		t.pos++
	}
	return string(t.text[start:t.pos])
}

func (t *pdfText) number(word string) (any, bool) {
	switch word {
	case "true":
		return true, true
	case "false":
		return false, true
	case "null":
		return nil, true
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		if f, err := strconv.ParseFloat(word, 64); err == nil {
			return f, true
		}
		return pdfWord(word), true
	}
	if n < 0 {
		return n, true
	}
	back := t.pos
	t.space()
	generation, err := strconv.ParseInt(t.word(), 10, 32)
	if err == nil && generation >= 0 {
		t.space()
		if t.word() == "R" {
			return pdfRef{n, generation}, true
		}
	}
	t.pos = back
	return n, true
}

func (t *pdfText) name() pdfName {
	t.pos++
	raw := t.word()
	if !strings.Contains(raw, "#") {
		return pdfName(raw)
	}
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		if raw[i] == '#' && i+2 < len(raw) {
			if c, err := strconv.ParseUint(raw[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(raw[i])
	}
	return pdfName(b.String())
}

func (t *pdfText) dict(depth int) (any, bool) {
	d := pdfDict{}
	for {
		t.space()
		if bytes.HasPrefix(t.text[t.pos:], []byte(">>")) {
			t.pos += 2
			return d, true
		}
		if t.pos >= len(t.text) || t.text[t.pos] != '/' {
			return nil, false
		}
		name := t.name()
		value, ok := t.object(depth + 1)
		if !ok {
			return nil, false
		}
		d[name] = value
	}
}

func (t *pdfText) array(depth int) (any, bool) {
	a := pdfArray{}
	for {
		t.space()
		if t.pos < len(t.text) && t.text[t.pos] == ']' {
			t.pos++
			return a, true
		}
		value, ok := t.object(depth + 1)
		if !ok {
			return nil, false
		}
		a = append(a, value)
	}
}

func (t *pdfText) hexadecimal() (any, bool) {
	end := bytes.IndexByte(t.text[t.pos:], '>')
	if end < 0 {
		return nil, false
	}
	digits := slices.DeleteFunc(slices.Clone(t.text[t.pos+1:t.pos+end]), isPDFSpace)
	if len(digits)%2 == 1 {
		digits = append(digits, '0')
	}
	t.pos += end + 1
	value := make([]byte, len(digits)/2)
	if _, err := hex.Decode(value, digits); err != nil {
		return nil, false
	}
	return pdfString(value), true
}

// literal reads a string in parentheses, in which balanced ones may stand.
func (t *pdfText) literal() (any, bool) {
	var b []byte
	open := 0
	for ; t.pos < len(t.text); t.pos++ {
		switch c := t.text[t.pos]; c {
		case '(':
			if open++; open > 1 {
				b = append(b, c)
			}
		case ')':
			if open--; open == 0 {
				t.pos++
				return pdfString(b), true
			}
			b = append(b, c)
		case '\\':
			b = t.escape(b)
		case '\r': // every end of a line is one line feed
			if t.pos+1 < len(t.text) && t.text[t.pos+1] == '\n' {
				t.pos++
			}
			b = append(b, '\n')
		default:
			b = append(b, c)
		}
	}
	return nil, false
}

// escape reads what follows a backslash and stays on its last character.
func (t *pdfText) escape(b []byte) []byte {
	if t.pos++; t.pos >= len(t.text) {
		return b
	}
	c := t.text[t.pos]
	if i := strings.IndexByte("nrtbf", c); i >= 0 {
		return append(b, "\n\r\t\b\f"[i])
	}
	switch {
	case c == '\r':
		if t.pos+1 < len(t.text) && t.text[t.pos+1] == '\n' {
			t.pos++
		}
		return b
	case c == '\n':
		return b
	case '0' <= c && c <= '7':
		value := 0
		digits := 0
		for ; digits < 3 && t.pos+digits < len(t.text) && '0' <= t.text[t.pos+digits] && t.text[t.pos+digits] <= '7'; digits++ {
			value = value*8 + int(t.text[t.pos+digits]-'0')
		}
		t.pos += digits - 1
		return append(b, byte(value&0xFF)) // the high bit of three octal digits is to be ignored
	}
	return append(b, c)
}

// writePDF writes an object so that it reads back as what it is.
func writePDF(b *bytes.Buffer, object any) {
	switch v := object.(type) {
	case nil:
		b.WriteString("null")
	case pdfName:
		b.WriteByte('/')
		for i := range len(v) {
			if c := v[i]; c <= ' ' || c > '~' || c == '#' || isPDFDelimiter(c) {
				fmt.Fprintf(b, "#%02X", c)
			} else {
				b.WriteByte(c)
			}
		}
	case pdfString:
		fmt.Fprintf(b, "<%X>", string(v))
	case pdfArray:
		b.WriteByte('[')
		for _, item := range v {
			writePDF(b, item)
			b.WriteByte(' ')
		}
		b.WriteByte(']')
	case pdfDict:
		b.WriteString("<<")
		for name, value := range v {
			writePDF(b, name)
			b.WriteByte(' ')
			writePDF(b, value)
			b.WriteByte('\n')
		}
		b.WriteString(">>")
	case pdfRef:
		fmt.Fprintf(b, "%d %d R", v.number, v.generation)
	default: // bool, numbers, words
		fmt.Fprint(b, v)
	}
}
