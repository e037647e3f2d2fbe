// Package jsonstream reads a JSON text of any size once, in bounded memory.
//
// Ordinary decoders hold a whole string in memory, and a request to an OCR provider may carry a document of hundreds of megabytes in
// one string. Walk hands the text to a Handler piece by piece instead, Valid only checks it, and Pick and Each find the few scalars that
// a caller asks for. The grammar is RFC 8259, and the texts accepted are exactly those that encoding/json accepts: strings may hold bytes
// that are not UTF-8, and nesting deeper than MaxDepth is an error.
package jsonstream

import "io"

const (
	// MaxDepth is how many objects and arrays may be open at one time, which is also the limit of encoding/json.
	MaxDepth = 10_000
	// MaxToken is the length in bytes up to which member names and numbers arrive in one part.
	MaxToken = 4096
)

// Kind says what opens with Begin.
type Kind byte

// The kinds of container.
const (
	Object Kind = '{'
	Array  Kind = '['
)

// Handler receives the events of Walk in the order of the text. The bytes it is given are valid until it returns.
type Handler interface {
	// Begin opens an object or an array. When it returns false the rest of this value is checked but not reported, its End included.
	Begin(kind Kind) bool
	// End closes the innermost open object or array.
	End()
	// Key gives the name of a member, escapes resolved. A name longer than MaxToken comes in parts of MaxToken bytes; last is false for
	// all but its final one. When the final call returns false the member's value is checked but not reported at all.
	Key(part []byte, last bool) bool
	// String gives the next part of a string value, escapes resolved: a surrogate without its partner becomes U+FFFD, bytes that are not
	// UTF-8 stay as they are. Parts may have any length, and the last one may be empty.
	String(part []byte, last bool)
	// Literal gives a number, true, false or null as it is written. A number longer than MaxToken comes in parts of MaxToken bytes.
	Literal(part []byte, last bool)
}

// Valid reads r to its end and reports whether it is one JSON text, with the errors of Walk.
func Valid(r io.Reader) error { return Walk(r, nil) }

// Walk reads r to its end, which has to be one JSON text, and reports its parts to h; a nil h makes it a mere check.
// The error is a *SyntaxError for what is no JSON, of which errors.Is says io.ErrUnexpectedEOF when only the end is missing (an empty
// text included). An error of r is returned as it is.
func Walk(r io.Reader, h Handler) error {
	s := newScanner(r, h)
	return s.walk()
}

func newScanner(r io.Reader, h Handler) scanner {
	return scanner{input: input{src: r, buf: make([]byte, bufferFor(r))}, handler: h, quiet: h == nil, quietDepth: -1}
}

// byteOrderMark is what some writers put before a text in UTF-8.
const byteOrderMark = "\xEF\xBB\xBF"

// scanner is the state of one Walk.
type scanner struct {
	input
	handler Handler

	quiet      bool // Nothing is reported …
	quietDepth int  // … until a value ends at this depth; -1 is never.
	marked     bool // A byte order mark may stand before the text.

	depth    int
	inObject bool // What the innermost open container is.
	objects  [MaxDepth/64 + 1]uint64

	held []byte // The part of a name or number that the buffer no longer holds.
}

// walk is the grammar. Each turn of the outer loop reads one value, the inner loop what may follow a value.
func (s *scanner) walk() error {
	for {
		opened, err := s.value()
		if err != nil {
			return err
		}
		for !opened {
			if s.quiet && s.depth == s.quietDepth {
				s.quiet = false
			}
			if s.depth == 0 {
				return s.tail()
			}
			c, ok := s.token()
			switch {
			case !ok:
				return s.ended()
			case c == ',':
				s.pos++
				if s.inObject {
					if err := s.name(); err != nil {
						return err
					}
				}
				opened = true
			case c == '}' && s.inObject, c == ']' && !s.inObject:
				s.pos++
				s.close()
			case s.inObject:
				return s.fault("expected a comma or a closing brace")
			default:
				return s.fault("expected a comma or a closing bracket")
			}
		}
	}
}

// mark steps over a byte order mark at the beginning, where there may be one.
func (s *scanner) mark() bool {
	at := s.base + int64(s.pos)
	if !s.marked || at > 0 || !s.need(len(byteOrderMark)) || string(s.buf[s.pos:s.pos+len(byteOrderMark)]) != byteOrderMark {
		return false
	}
	s.pos += len(byteOrderMark)
	return true
}

// value reads a scalar, an empty container, or the opening of a container up to its first value; then opened is true.
func (s *scanner) value() (opened bool, err error) {
	c, ok := s.token()
	if !ok {
		return false, s.ended()
	}
	switch {
	case c == '"':
		s.pos++
		if s.quiet {
			return false, s.skipString()
		}
		return false, s.text(stringToken)
	case c == '-' || c-'0' < 10:
		return false, s.number()
	case c == '{' || c == '[':
		return s.open(Kind(c))
	case c == byteOrderMark[0] && s.mark():
		return s.value()
	default:
		return false, s.word(c)
	}
}

func (s *scanner) open(kind Kind) (opened bool, err error) {
	if s.depth == MaxDepth {
		return false, s.fault("nested too deeply")
	}
	s.pos++
	if !s.quiet && !s.handler.Begin(kind) {
		s.quiet, s.quietDepth = true, s.depth
	}
	s.inObject = kind == Object
	word, bit := s.depth/64, uint64(1)<<(s.depth%64)
	if s.inObject {
		s.objects[word] |= bit
	} else {
		s.objects[word] &^= bit
	}
	s.depth++

	c, ok := s.token()
	switch {
	case !ok:
		return false, s.ended()
	case c == '}' && s.inObject, c == ']' && !s.inObject:
		s.pos++
		s.close()
		return false, nil
	case s.inObject:
		return true, s.name()
	default:
		return true, nil
	}
}

func (s *scanner) close() {
	s.depth--
	if s.depth > 0 {
		s.inObject = s.objects[(s.depth-1)/64]>>((s.depth-1)%64)&1 == 1
	}
	if !s.quiet {
		s.handler.End()
	}
}

// name reads the name of a member and the colon after it.
func (s *scanner) name() error {
	c, ok := s.token()
	if !ok {
		return s.ended()
	}
	if c != '"' {
		return s.fault("expected a member name in quotes")
	}
	s.pos++
	var err error
	if s.quiet {
		err = s.skipString()
	} else {
		err = s.text(keyToken)
	}
	if err != nil {
		return err
	}
	if c, ok = s.token(); !ok {
		return s.ended()
	}
	if c != ':' {
		return s.fault("expected a colon after a member name")
	}
	s.pos++
	return nil
}

// tail accepts nothing but white space up to the end.
func (s *scanner) tail() error {
	if _, ok := s.token(); ok {
		return s.fault("expected nothing after the top-level value")
	}
	if s.err != io.EOF { //nolint:errorlint // An error that wraps io.EOF is a read error.
		return s.err
	}
	return nil
}
