package jsonstream

// number reads a number whose first byte is the next one.
func (s *scanner) number() error {
	if n := wholeNumber(s.buf[s.pos:s.end]); n > 0 && n <= MaxToken {
		if !s.quiet {
			s.handler.Literal(s.buf[s.pos:s.pos+n], true)
		}
		s.pos += n
		return nil
	}
	return s.brokenNumber()
}

// wholeNumber returns the length of the number that b starts with, or 0 when it is malformed or may go on after b.
func wholeNumber(b []byte) int {
	i := 0
	if b[0] == '-' {
		i++
	}
	switch first := i; {
	case i < len(b) && b[i] == '0':
		i++
	default:
		if i = digits(b, i); i == first {
			return 0
		}
	}
	if i < len(b) && b[i] == '.' {
		first := i + 1
		if i = digits(b, first); i == first {
			return 0
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		first := i + 1
		if first < len(b) && (b[first] == '+' || b[first] == '-') {
			first++
		}
		if i = digits(b, first); i == first {
			return 0
		}
	}
	if i == len(b) {
		return 0
	}
	return i
}

// digits returns the index of the first byte from i on that is no digit.
func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' < 10 {
		i++
	}
	return i
}

// place is a position within the grammar of a number.
type place byte

const (
	atStart place = iota
	afterMinus
	afterZero
	inInteger
	afterPoint
	inFraction
	afterE
	afterSign
	inExponent
	notHere // The byte belongs to no number at this place.
)

// brokenNumber reads a number that may be of any length, lie on both sides of a refill, or be malformed.
func (s *scanner) brokenNumber() error {
	at, start := atStart, s.pos
	for {
		if s.pos == s.end {
			if !s.quiet {
				s.deliver(literalToken, s.buf[start:s.pos], false)
			}
			more := s.fill()
			start = s.pos
			if !more {
				break
			}
		}
		next := at.step(s.buf[s.pos])
		if next == notHere {
			break
		}
		at = next
		s.pos++
	}
	switch at {
	case afterZero, inInteger, inFraction, inExponent:
	case atStart, afterMinus, afterPoint, afterE, afterSign, notHere:
		if s.pos == s.end {
			return s.ended()
		}
		return s.fault("expected a digit")
	}
	if !s.quiet {
		s.deliver(literalToken, s.buf[start:s.pos], true)
	}
	return nil
}

// step is where a number stands after one more byte.
func (p place) step(c byte) place {
	switch digit := c-'0' < 10; p {
	case atStart, afterMinus:
		switch {
		case c == '0':
			return afterZero
		case digit:
			return inInteger
		case c == '-' && p == atStart:
			return afterMinus
		}
	case afterZero, inInteger:
		switch {
		case digit && p == inInteger:
			return inInteger
		case c == '.':
			return afterPoint
		case c|0x20 == 'e':
			return afterE
		}
	case afterPoint, inFraction:
		switch {
		case digit:
			return inFraction
		case c|0x20 == 'e' && p == inFraction:
			return afterE
		}
	case afterE, afterSign, inExponent:
		switch {
		case digit:
			return inExponent
		case (c == '+' || c == '-') && p == afterE:
			return afterSign
		}
	case notHere:
	}
	return notHere
}
