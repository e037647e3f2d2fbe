package webhook

import (
	"bufio"
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"strconv"
	"time"
)

// A line of the outbox is one event: checksum, number, Unix time, id and body, with a space between them. A number is one more than the one before.
type line struct {
	number uint64
	at     time.Time // When it was written, to the second.
	id     string
	body   []byte
}

const (
	sumDigits = 8 // The checksum is a CRC-32 of everything behind it, in hexadecimal digits.
	// maxLine bounds a line, in bytes; what is longer is damaged.
	maxLine = maxEvent + 4<<10
	// maxNumber bounds a number: no stream comes to it, and adding to it does not overflow.
	maxNumber = 1 << 62
)

// encodeLine writes an event as a line, its end included.
func encodeLine(number uint64, at time.Time, id string, e event) []byte {
	b := make([]byte, sumDigits+1, sumDigits+len(e.head)+len(e.data)+128)
	b = strconv.AppendUint(b, number, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, at.Unix(), 10)
	b = append(b, ' ')
	b = append(b, id...)
	b = append(b, ' ')
	b = e.appendBody(b, number)
	copy(b, checksum(b[sumDigits+1:]))
	b[sumDigits] = ' '
	return append(b, '\n')
}

// decodeLine reads a line without its end. The result shares the memory of text. It is false for anything that encodeLine does not write.
func decodeLine(text []byte) (line, bool) {
	if len(text) < sumDigits+1 || text[sumDigits] != ' ' {
		return line{}, false
	}
	sum, rest := text[:sumDigits], text[sumDigits+1:]
	if !bytes.Equal(sum, checksum(rest)) {
		return line{}, false
	}
	digits, rest, _ := bytes.Cut(rest, []byte(" "))
	seconds, rest, _ := bytes.Cut(rest, []byte(" "))
	id, body, _ := bytes.Cut(rest, []byte(" "))
	number, err := strconv.ParseUint(string(digits), 10, 64)
	at, atErr := strconv.ParseInt(string(seconds), 10, 64)
	if err != nil || atErr != nil || number == 0 || number > maxNumber || len(id) == 0 || len(body) == 0 {
		return line{}, false
	}
	return line{number: number, at: time.Unix(at, 0), id: string(id), body: body}, true
}

func checksum(b []byte) []byte {
	digits := strconv.AppendUint(nil, uint64(crc32.ChecksumIEEE(b)), 16)
	return append(bytes.Repeat([]byte("0"), sumDigits-len(digits)), digits...)
}

// readLine reads up to the next line break, which it leaves out, and gives the line in a buffer of its own. A line that is too long comes as
// nil: it was read over. What is behind the last line break is no line, and the error is then [io.EOF].
func readLine(r *bufio.Reader) ([]byte, error) {
	var text []byte
	tooLong := false
	for {
		piece, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if tooLong = tooLong || len(text)+len(piece) > maxLine; !tooLong {
			text = append(text, piece...)
		}
		if err == nil {
			break
		}
	}
	if tooLong {
		return nil, nil
	}
	return text[:len(text)-1], nil
}

// scan reads a segment to its end. It tells the number of its last line, or what that number must be if the line is damaged; before is the
// number of the line before the segment. Without a whole line the result is before.
func scan(r io.Reader, before uint64) (last uint64, err error) {
	last = before
	lines := bufio.NewReader(r)
	for {
		text, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		if l, ok := decodeLine(text); ok && l.number > last {
			last = l.number
		} else {
			last++
		}
	}
}
