package jsonstream

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// tokenKind says which method of the handler a token goes to.
type tokenKind byte

const (
	stringToken tokenKind = iota
	keyToken
	literalToken
)

// longestEscape is a surrogate pair.
const longestEscape = len(`\ud83d\ude00`)

// text reads a string whose opening quote is consumed. Escapes are resolved in place, in the part of the buffer that was read already, so
// that a string full of them (base64 with every slash escaped, say) still arrives in large parts.
func (s *scanner) text(kind tokenKind) error {
	start, w := s.pos, s.pos // buf[start:w] is resolved and not delivered.
	for {
		n := plain(s.buf[s.pos:s.end])
		if w != s.pos {
			copy(s.buf[w:], s.buf[s.pos:s.pos+n])
		}
		w += n
		s.pos += n
		switch {
		case s.pos == s.end:
			s.deliver(kind, s.buf[start:w], false)
			if !s.fill() {
				return s.ended()
			}
			start, w = s.pos, s.pos
		case s.buf[s.pos] == '"':
			s.pos++
			s.deliver(kind, s.buf[start:w], true)
			return nil
		case s.buf[s.pos] == '\\':
			if s.end-s.pos < longestEscape {
				s.deliver(kind, s.buf[start:w], false)
				s.need(longestEscape)
				start, w = s.pos, s.pos
			}
			r, n, err := s.escape()
			if err != nil {
				return err
			}
			w += utf8.EncodeRune(s.buf[w:], r)
			s.pos += n
		default:
			return s.fault("control character in a string")
		}
	}
}

// skipString is text for a string that nobody wants.
func (s *scanner) skipString() error {
	for {
		s.pos += plain(s.buf[s.pos:s.end])
		switch {
		case s.pos == s.end:
			if !s.fill() {
				return s.ended()
			}
		case s.buf[s.pos] == '"':
			s.pos++
			return nil
		case s.buf[s.pos] == '\\':
			s.need(longestEscape)
			_, n, err := s.escape()
			if err != nil {
				return err
			}
			s.pos += n
		default:
			return s.fault("control character in a string")
		}
	}
}

// escape resolves the escape sequence at the window's start, which is whole unless the text ends in it, and returns its length.
func (s *scanner) escape() (r rune, n int, err error) {
	b := s.buf[s.pos:s.end]
	if len(b) < 2 {
		return 0, 0, s.ended()
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2, nil
	case 'b':
		return '\b', 2, nil
	case 'f':
		return '\f', 2, nil
	case 'n':
		return '\n', 2, nil
	case 'r':
		return '\r', 2, nil
	case 't':
		return '\t', 2, nil
	case 'u':
	default:
		return 0, 0, s.fault("unknown escape in a string")
	}
	r, ok := unit(b)
	switch {
	case !ok && len(b) < 6:
		// The digits that are there may be wrong too; either way this is no JSON.
		return 0, 0, s.ended()
	case !ok:
		return 0, 0, s.fault("\\u without four hexadecimal digits")
	case !utf16.IsSurrogate(r):
		return r, 6, nil
	}
	if low, ok := unit(b[6:]); ok {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12, nil
		}
	}
	return utf8.RuneError, 6, nil
}

// unit reads one \uXXXX.
func unit(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// plain counts the bytes before the first quote, backslash or control character, eight at a time.
func plain(b []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, slash := x^('"'*ones), x^('\\'*ones)
		// A high bit is set for every zero byte of quote and slash and for every byte of x below a space. Borrows can set wrong ones, but
		// only above a right one, and only the lowest counts.
		if hit := ((quote-ones)&^quote | (slash-ones)&^slash | (x-' '*ones)&^x) & highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// word reads true, false or null, of which c is the first byte.
func (s *scanner) word(c byte) error {
	var want string
	switch c {
	case 't':
		want = "true"
	case 'f':
		want = "false"
	case 'n':
		want = "null"
	default:
		return s.fault("expected a value")
	}
	s.need(len(want))
	b := s.buf[s.pos:s.end]
	for i := range len(want) {
		if i == len(b) {
			return s.ended()
		}
		if b[i] != want[i] {
			return s.fault("expected true, false or null")
		}
	}
	if !s.quiet {
		s.handler.Literal(b[:len(want)], true)
	}
	s.pos += len(want)
	return nil
}

// deliver passes part of a token on. Strings go as they come, all else is put together up to MaxToken bytes.
func (s *scanner) deliver(kind tokenKind, part []byte, last bool) {
	if kind == stringToken {
		if last || len(part) > 0 {
			s.handler.String(part, last)
		}
		return
	}
	for len(s.held)+len(part) > MaxToken {
		room := MaxToken - len(s.held)
		s.report(kind, append(s.held, part[:room]...), false)
		s.held, part = s.held[:0], part[room:]
	}
	if !last || len(s.held) > 0 {
		s.held = append(s.held, part...)
		part = s.held
	}
	if last {
		s.report(kind, part, true)
		s.held = s.held[:0]
	}
}

func (s *scanner) report(kind tokenKind, part []byte, last bool) {
	if kind == literalToken {
		s.handler.Literal(part, last)
	} else if !s.handler.Key(part, last) && last {
		s.quiet, s.quietDepth = true, s.depth
	}
}
