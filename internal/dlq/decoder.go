package dlq

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"time"
)

// decoder reads the records of one segment.
type decoder struct {
	r      *bufio.Reader
	words  []string
	bytes  int // Of all words.
	facets map[combination]*facets
	pass   int // Bytes of the record that was read last.
}

// newDecoder reads the head. Without it the segment is torn, or of another version.
func newDecoder(r io.Reader) (*decoder, error) {
	d := &decoder{r: bufio.NewReaderSize(r, logBuffer), facets: map[combination]*facets{}}
	head := make([]byte, len(segmentHead))
	if _, err := io.ReadFull(d.r, head); err != nil || string(head) != segmentHead {
		return nil, errTorn
	}
	return d, nil
}

// next gives the next record, which is good until the next call. The error is
// [io.EOF] at the end and errTorn where nothing more can be read.
func (d *decoder) next(into *record) error {
	for {
		content, err := d.content()
		if err != nil {
			return err
		}
		c := cursor{rest: content}
		kind := c.byte()
		switch kind {
		case recordWord:
			d.define(&c)
		case recordForget:
			d.words, d.bytes = d.words[:0], 0
			clear(d.facets)
		case recordLetter, recordGone, recordSize:
			d.fill(into, kind, &c)
		default:
			return errTorn // Of a later version: its writer knows what the rest means.
		}
		if c.bad || len(c.rest) > 0 {
			return errTorn
		}
		if kind != recordWord && kind != recordForget {
			return nil
		}
	}
}

// content gives the content of the next frame, which is good until the next call.
func (d *decoder) content() ([]byte, error) {
	_, _ = d.r.Discard(d.pass) // It was there.
	d.pass = 0
	start, err := d.r.Peek(binary.MaxVarintLen32)
	if len(start) == 0 {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, errTorn
	}
	n, width := binary.Uvarint(start)
	if width <= 0 || n == 0 || n > maxRecordBytes {
		return nil, errTorn
	}
	whole := width + int(n) + checksumBytes
	frame, err := d.r.Peek(whole)
	if err != nil {
		return nil, errTorn
	}
	content := frame[width : width+int(n)]
	if binary.BigEndian.Uint32(frame[whole-checksumBytes:]) != checksum(content) {
		return nil, errTorn
	}
	d.pass = whole
	return content, nil
}

func (d *decoder) define(c *cursor) {
	word := string(c.take(uint64(len(c.rest))))
	if d.bytes += len(word); len(d.words) == maxWords || d.bytes > maxWordBytes {
		c.bad = true
		return
	}
	d.words = append(d.words, word)
}

// combine gives the facets that have these words, mostly the same for the same words.
func (d *decoder) combine(numbers combination) *facets {
	if f := d.facets[numbers]; f != nil {
		return f
	}
	if len(d.facets) == maxFacets {
		clear(d.facets)
	}
	f := &facets{}
	for i, word := range f.words() {
		if numbers[i] >= uint32(len(d.words)) { //nolint:gosec // No more than maxWords.
			return nil
		}
		*word = d.words[numbers[i]]
	}
	d.facets[numbers] = f
	return f
}

func (d *decoder) fill(into *record, kind byte, c *cursor) {
	*into = record{gone: kind == recordGone, sized: kind == recordSize}
	if into.sized {
		into.bytes = c.amount()
		return
	}
	var flags byte
	if !into.gone {
		flags = c.byte()
	}
	if id := c.take(16); len(id) == 16 {
		into.id = uidOf(id)
	}
	if into.gone {
		return
	}
	into.named, into.hashed, into.classChanged, into.unsized = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0
	into.key, into.document, into.stamp = c.uint64(), c.uint64(), c.uint32()
	into.first, into.failed = c.time(), c.time()
	into.occurrences = int(c.amount())
	into.bodyBytes = c.amount()
	var numbers combination
	for i := range numbers {
		number := c.uvarint()
		numbers[i] = uint32(min(number, maxWords)) // No word has that number.
	}
	if into.facets = d.combine(numbers); into.facets == nil {
		c.bad = true
	}
}

// cursor reads the content of a record from its beginning. What is not there is zero, and bad then.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) take(n uint64) []byte {
	if c.bad || n > uint64(len(c.rest)) {
		c.bad = true
		return nil
	}
	taken := c.rest[:n]
	c.rest = c.rest[n:]
	return taken
}

func (c *cursor) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) uint64() uint64 {
	if b := c.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) uint32() uint32 {
	if b := c.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.bad = true
		return 0
	}
	c.take(uint64(n))
	return v
}

// amount is a number that is never negative.
func (c *cursor) amount() int64 {
	v := c.uvarint()
	if v > math.MaxInt64 {
		c.bad = true
		return 0
	}
	return int64(v)
}

func (c *cursor) time() time.Time {
	seconds, n := binary.Varint(c.rest)
	if n <= 0 {
		c.bad = true
		return time.Time{}
	}
	c.take(uint64(n))
	nanoseconds := c.uvarint()
	if nanoseconds >= uint64(time.Second) || seconds < firstSecond || seconds > lastSecond {
		c.bad = true
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanoseconds)).UTC()
}
