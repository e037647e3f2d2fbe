package dlq

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
)

// uid is a letter's id in 16 bytes. Its order is that of the written form:
// ids made by Put begin with the time.
type uid struct{ hi, lo uint64 }

// uidLength is that of an id as it is written.
const uidLength = 36

// parseUID reads the one spelling of an id that [validID] admits.
func parseUID(s string) (u uid, ok bool) {
	if len(s) != uidLength {
		return uid{}, false
	}
	var words [2]uint64
	digits := 0
	for i := range uidLength {
		c := s[i]
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return uid{}, false
			}
			continue
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return uid{}, false
		}
		words[digits/16] = words[digits/16]<<4 | uint64(c)
		digits++
	}
	return uid{words[0], words[1]}, true
}

func (u uid) bytes() (b [16]byte) {
	binary.BigEndian.PutUint64(b[:8], u.hi)
	binary.BigEndian.PutUint64(b[8:], u.lo)
	return b
}

func uidOf(b []byte) uid { return uid{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])} }

func (u uid) String() string {
	b := u.bytes()
	var s [uidLength]byte
	hex.Encode(s[:8], b[:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:], b[10:])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}

func (u uid) compare(o uid) int { return cmp.Or(cmp.Compare(u.hi, o.hi), cmp.Compare(u.lo, o.lo)) }

// hash spreads ids that differ in few bits.
func (u uid) hash() uint64 { return spread(u.hi ^ spread(u.lo)) }

func spread(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
