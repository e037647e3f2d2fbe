package grpcwire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// WireType says how a field's value is written.
type WireType uint8

// The wire types of protobuf. Groups, which nobody has written for many years, are malformed here.
const (
	Varint  WireType = 0
	Fixed64 WireType = 1
	Bytes   WireType = 2
	Fixed32 WireType = 5
)

// ErrMalformed says that bytes are no protobuf message.
var ErrMalformed = errors.New("the message is malformed")

// Field is one field of a message.
type Field struct {
	Number int
	Type   WireType
	// Value is the number of a Varint, Fixed64 or Fixed32, in its raw bits, and the length of Bytes.
	Value uint64
}

// Reader reads a message field by field. What is not asked for is skipped; nothing is held.
type Reader struct {
	source *source
	end    int64 // of the message
	next   int64 // end of the current field
}

// source is a stream that knows where it is.
type source struct {
	buf *bufio.Reader
	at  int64
}

// NewReader reads the message that r is, to its end.
func NewReader(r io.Reader) *Reader {
	return &Reader{source: &source{buf: bufio.NewReader(r)}, end: math.MaxInt64}
}

// Next goes to the next field, past what was not read of the one before. The error is io.EOF at the end of the message, ErrMalformed where it
// is none, io.ErrUnexpectedEOF where it breaks off, or what kept the stream from being read.
func (r *Reader) Next() (Field, error) {
	if err := r.source.skip(r.next - r.source.at); err != nil {
		return Field{}, err
	}
	if r.source.at >= r.end {
		return Field{}, io.EOF
	}
	if _, err := r.source.buf.Peek(1); err != nil {
		if errors.Is(err, io.EOF) && r.end == math.MaxInt64 {
			return Field{}, io.EOF
		}
		return Field{}, cutShort(err)
	}
	tag, err := r.source.varint()
	if err != nil {
		return Field{}, err
	}
	f := Field{Number: int(tag >> 3 & math.MaxInt32), Type: WireType(tag & 7)}
	if tag>>3 == 0 || tag>>3 > 1<<29-1 {
		return Field{}, ErrMalformed
	}
	switch f.Type {
	case Varint:
		f.Value, err = r.source.varint()
	case Fixed64:
		f.Value, err = r.source.fixed(8)
	case Fixed32:
		f.Value, err = r.source.fixed(4)
	case Bytes:
		f.Value, err = r.source.varint()
	default:
		return Field{}, fmt.Errorf("%w: wire type %d", ErrMalformed, f.Type)
	}
	if err != nil {
		return Field{}, err
	}
	r.next = r.source.at
	if r.next > r.end || f.Type == Bytes && f.Value > uint64(r.end-r.next) { //nolint:gosec // the difference is positive
		return Field{}, ErrMalformed
	}
	if f.Type == Bytes {
		r.next += int64(f.Value) //nolint:gosec // at most end
	}
	return f, nil
}

// Message reads the current field, which is Bytes, as a message.
func (r *Reader) Message() *Reader {
	return &Reader{source: r.source, end: r.next, next: r.source.at}
}

// Read gives the current field's bytes, to their end.
func (r *Reader) Read(p []byte) (int, error) {
	left := r.next - r.source.at
	if left <= 0 {
		return 0, io.EOF
	}
	n, err := r.source.buf.Read(p[:min(int64(len(p)), left)])
	r.source.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, cutShort(err)
}

// Text is the current field's bytes as text that is valid UTF-8, cut to limit bytes.
func (r *Reader) Text(limit int) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(limit)))
	return strings.ToValidUTF8(string(text), "\uFFFD"), err
}

func (s *source) skip(n int64) error {
	for n > 0 {
		part, err := s.buf.Discard(int(min(n, 1<<30)))
		s.at += int64(part)
		n -= int64(part)
		if err != nil {
			return cutShort(err)
		}
	}
	return nil
}

func (s *source) varint() (uint64, error) {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		b, err := s.buf.ReadByte()
		if err != nil {
			return 0, cutShort(err)
		}
		s.at++
		if shift == 63 && b > 1 {
			return 0, ErrMalformed
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, ErrMalformed
}

func (s *source) fixed(size int) (uint64, error) {
	var v uint64
	for i := range size {
		b, err := s.buf.ReadByte()
		if err != nil {
			return 0, cutShort(err)
		}
		s.at++
		v |= uint64(b) << (8 * i)
	}
	return v, nil
}

// cutShort tells the end of a stream inside a message from the end of a message.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
