package fingerprint

// decoder turns the text of an embedded document into its bytes, part by part.
type decoder struct {
	percent *unescaper // Nil when the text is no URI.
	base64  *unbase64  // Nil when the text is not base64.
	out     func([]byte)
	buf     []byte
}

func newDecoder(percent, encoded bool, out func([]byte)) *decoder {
	d := &decoder{out: out}
	if percent {
		d.percent = &unescaper{}
	}
	if encoded {
		d.base64 = newUnbase64()
	}
	return d
}

func (d *decoder) write(part []byte) {
	if d.percent != nil {
		part = d.percent.resolve(part)
	}
	d.unwrapped(part)
}

func (d *decoder) unwrapped(part []byte) {
	if d.base64 == nil {
		d.out(part)
		return
	}
	// In slices, so that the buffer stays small whatever the part.
	for len(part) > 0 {
		n := min(len(part), 8<<10)
		d.buf = d.base64.decode(d.buf[:0], part[:n])
		d.out(d.buf)
		part = part[n:]
	}
}

// close ends the text and reports whether all of it could be decoded.
func (d *decoder) close() bool {
	if d.percent != nil {
		d.unwrapped(d.percent.rest())
	}
	if d.base64 == nil {
		return true
	}
	tail, ok := d.base64.close()
	if ok {
		d.out(tail)
	}
	return ok
}

// spaced reports whether the base64 had spaces.
func (d *decoder) spaced() bool { return d.base64 != nil && d.base64.spaced }

// unescaper resolves percent escapes, which may lie on both sides of a cut. What is no escape stays as it is.
type unescaper struct {
	plus    bool   // A plus is a space, as in forms.
	pending []byte // The beginning of an escape.
	buf     []byte
}

// resolve returns the resolved bytes, valid until the next call.
func (u *unescaper) resolve(part []byte) []byte {
	if len(u.pending) == 0 && u.run(part) == len(part) {
		return part
	}
	u.buf = u.buf[:0]
	for len(part) > 0 {
		if len(u.pending) == 0 {
			n := u.run(part)
			u.buf = append(u.buf, part[:n]...)
			if part = part[n:]; len(part) == 0 {
				break
			}
			if part[0] == '+' {
				u.buf = append(u.buf, ' ')
			} else {
				u.pending = append(u.pending, '%')
			}
			part = part[1:]
			continue
		}
		digit := hexDigit(part[0])
		switch {
		case digit < 0:
			u.buf = append(u.buf, u.pending...)
			u.pending = u.pending[:0]
			continue
		case len(u.pending) == 1:
			u.pending = append(u.pending, part[0])
		default:
			u.buf = append(u.buf, byte(hexDigit(u.pending[1])<<4|digit)) //nolint:gosec // Two hexadecimal digits are a byte.
			u.pending = u.pending[:0]
		}
		part = part[1:]
	}
	return u.buf
}

// run counts the bytes that stand for themselves.
func (u *unescaper) run(part []byte) int {
	for i, c := range part {
		if c == '%' || c == '+' && u.plus {
			return i
		}
	}
	return len(part)
}

// rest returns an escape that was begun and not ended, and starts afresh.
func (u *unescaper) rest() []byte {
	rest := u.pending
	u.pending = u.pending[:0]
	return rest
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// unbase64 decodes base64 as lenient readers do: both alphabets, with or without padding, white space anywhere.
type unbase64 struct {
	table  [256]byte
	group  [4]byte // Digits of a group that is not complete.
	digits int     // In group, 0 to 3.
	pads   int
	broken bool
	spaced bool // There was a space, which in a form may have been a plus.
}

// Table values that are no digit have a bit of notDigit.
const (
	notDigit = 0xC0
	invalid  = 0xFF
	space    = 0xFE
	pad      = 0xFD
)

func newUnbase64() *unbase64 {
	b := &unbase64{}
	for i := range b.table {
		b.table[i] = invalid
	}
	for i := range byte(26) {
		b.table['A'+i], b.table['a'+i] = i, i+26
	}
	for i := range byte(10) {
		b.table['0'+i] = i + 52
	}
	b.table['+'], b.table['-'], b.table['/'], b.table['_'] = 62, 62, 63, 63
	b.table[' '], b.table['\t'], b.table['\r'], b.table['\n'], b.table['='] = space, space, space, space, pad
	return b
}

func (b *unbase64) decode(dst, src []byte) []byte {
	for i := 0; i < len(src) && !b.broken; i++ {
		for b.digits == 0 && b.pads == 0 && i+4 <= len(src) {
			q0, q1, q2, q3 := b.table[src[i]], b.table[src[i+1]], b.table[src[i+2]], b.table[src[i+3]]
			if (q0|q1|q2|q3)&notDigit != 0 {
				break
			}
			dst = append(dst, q0<<2|q1>>4, q1<<4|q2>>2, q2<<6|q3)
			i += 4
		}
		if i == len(src) {
			break
		}
		switch v := b.table[src[i]]; v {
		case space:
			b.spaced = b.spaced || src[i] == ' '
		case pad:
			b.pads++
			b.broken = b.pads > 2
		case invalid:
			b.broken = true
		default:
			if b.pads > 0 {
				b.broken = true // Something after the end.
				break
			}
			b.group[b.digits] = v
			if b.digits++; b.digits == 4 {
				dst = append(dst, octets(b.group)...)
				b.digits = 0
			}
		}
	}
	return dst
}

// close returns the bytes of the last, incomplete group. It is false when the text was no base64.
func (b *unbase64) close() (tail []byte, ok bool) {
	switch {
	case b.broken || b.pads > 0 && b.digits+b.pads != 4 || b.digits == 1:
		return nil, false
	case b.digits == 0:
		return nil, true
	}
	return octets(b.group)[:b.digits-1], true
}

// octets returns the three bytes of four digits.
func octets(q [4]byte) []byte {
	return []byte{q[0]<<2 | q[1]>>4, q[1]<<4 | q[2]>>2, q[2]<<6 | q[3]}
}
