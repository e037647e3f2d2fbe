package dlq

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// A segment of the log is its head and then records: the length of the content
// as a varint, the content, and its checksum. The content begins with its kind:
//
//	letter  the facts of an open letter, in the place of what was said of it before
//	gone    the letter is no longer open
//	word    gets the next number, by which the letters after it name it
//	forget  numbers of words begin anew, so that neither writer nor reader remembers more than maxWords and maxWordBytes
//	size    the bytes of the whole store at that time
const (
	segmentHead = "ocr-dlq2"

	recordLetter = 1
	recordGone   = 2
	recordWord   = 3
	recordForget = 4
	recordSize   = 5

	maxWords       = 16 << 10
	maxWordBytes   = 4 << 20
	maxFacets      = 16 << 10 // Combinations of words that a reader remembers.
	maxRecordBytes = 64 << 10
	logBuffer      = 256 << 10
	checksumBytes  = 4

	// The years 1 to 9999, in seconds since 1970: what an envelope can name.
	firstSecond = -62135596800
	lastSecond  = 253402300799
)

// errTorn says that a segment cannot be read any further: it was cut off in
// the middle of a record, or is damaged.
var errTorn = errors.New("the rest of the index is torn off")

// errTooLong says that something does not fit into a record.
var errTooLong = errors.New("too long for the index")

func checksum(content []byte) uint32 {
	return crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)) // The library makes it once.
}

// encoder writes the records of one segment.
type encoder struct {
	words  map[string]uint32
	bytes  int // Of all words.
	buffer []byte
}

// letter appends the record to the buffer, behind the words that it is the first with.
func (c *encoder) letter(f *facts) error {
	numbers, err := c.define(f.facets)
	if err != nil {
		return err
	}
	var flags byte
	for i, set := range []bool{f.named, f.hashed, f.classChanged, f.unsized} {
		if set {
			flags |= 1 << i
		}
	}
	id := f.id.bytes()
	content := append(append(make([]byte, 0, 96), recordLetter, flags), id[:]...)
	content = binary.BigEndian.AppendUint64(content, f.key)
	content = binary.BigEndian.AppendUint64(content, f.document)
	content = binary.BigEndian.AppendUint32(content, f.stamp)
	for _, t := range []time.Time{f.first, f.failed} {
		content = binary.AppendVarint(content, t.Unix())
		content = binary.AppendUvarint(content, uint64(t.Nanosecond())) //nolint:gosec // Never negative.
	}
	content = binary.AppendUvarint(content, uint64(max(f.occurrences, 0)))
	content = binary.AppendUvarint(content, uint64(max(f.bodyBytes, 0)))
	for _, number := range numbers {
		content = binary.AppendUvarint(content, uint64(number))
	}
	c.frame(content)
	return nil
}

// combination is the numbers of the words of facets.
type combination [6]uint32

func (f *facets) words() [6]*string {
	return [6]*string{&f.provider, &f.operation, &f.tenant, &f.outcome, &f.class, &f.code}
}

// define gives the numbers of all words, new ones where need be.
func (c *encoder) define(f *facets) (numbers combination, err error) {
	words := f.words()
	bytes := 0
	for _, word := range words {
		if len(*word) >= maxRecordBytes {
			return numbers, errTooLong
		}
		bytes += len(*word)
	}
	if c.words == nil {
		c.words = map[string]uint32{}
	}
	if len(c.words)+len(words) > maxWords || c.bytes+bytes > maxWordBytes { // There may not be room for all of them.
		c.frame([]byte{recordForget})
		c.bytes = 0
		clear(c.words)
	}
	for i, word := range words {
		number, known := c.words[*word]
		if !known {
			number = uint32(len(c.words)) //nolint:gosec // Bounded just now.
			c.words[*word] = number
			c.bytes += len(*word)
			c.frame(append([]byte{recordWord}, *word...))
		}
		numbers[i] = number
	}
	return numbers, nil
}

func (c *encoder) gone(id uid) {
	b := id.bytes()
	c.frame(append([]byte{recordGone}, b[:]...))
}

func (c *encoder) size(bytes int64) {
	c.frame(binary.AppendUvarint([]byte{recordSize}, uint64(max(bytes, 0))))
}

func (c *encoder) frame(content []byte) {
	c.buffer = binary.AppendUvarint(c.buffer, uint64(len(content)))
	c.buffer = append(c.buffer, content...)
	c.buffer = binary.BigEndian.AppendUint32(c.buffer, checksum(content))
}

// record is one thing that the log says: of a letter, that it is gone, or the store's size.
type record struct {
	facts      // Of a letter; of one that is gone the id alone.
	gone  bool // Neither means the size.
	sized bool
	bytes int64
}
