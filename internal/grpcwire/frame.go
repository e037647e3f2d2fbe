// Package grpcwire reads and writes what gRPC puts on the wire beside HTTP/2: the frame around a message, the status in the trailers, the
// deadline in a header, and protobuf messages, which are read as a stream without their schema and without being held.
package grpcwire

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// HeaderSize is the number of bytes before each message: a flag that says whether it is compressed, and its length.
const HeaderSize = 5

var (
	// ErrFrame says that a body is no whole message.
	ErrFrame = errors.New("the body is no whole gRPC message")
	// ErrSeveral says that a body holds more than one message, as the calls of streaming methods do.
	ErrSeveral = errors.New("the body holds more than one gRPC message")
	// ErrCoding says that a message is compressed in a way that is not read here.
	ErrCoding = errors.New("the message is compressed in an unknown way")
	// ErrTooLarge says that a message is larger than the caller takes.
	ErrTooLarge = errors.New("the message is too large to be held")
)

// Check reports whether a body of size bytes, of which r gives the beginning, is exactly one message: nil, ErrFrame or ErrSeveral, or what
// kept r from being read.
func Check(r io.Reader, size int64) error {
	_, length, err := readHeader(r)
	if err != nil {
		return err
	}
	return fits(size, length)
}

// fits compares the size of a body with that of its first message.
func fits(size, length int64) error {
	switch whole := HeaderSize + length; {
	case size < whole:
		return ErrFrame
	case size > whole:
		return ErrSeveral
	}
	return nil
}

// Plain is the one message of a body of size bytes in a frame without compression: the body itself where its message is not compressed. The
// error is one of Check's or Message's, ErrTooLarge for a message of more than limit bytes, or says that it cannot be unpacked.
func Plain(body io.Reader, size int64, coding string, limit int64) ([]byte, error) {
	compressed, length, err := readHeader(body)
	if err == nil {
		err = fits(size, length)
	}
	if err != nil {
		return nil, err
	}
	message, err := unpack(body, compressed, length, coding)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(message, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unpack a gRPC message: %w", err)
	case int64(len(text)) > limit:
		return nil, ErrTooLarge
	}
	return Frame(text), nil
}

// Message opens the first message of a body. coding is the value of the header Grpc-Encoding, by which a compressed one is undone: gzip is
// known, anything else is ErrCoding.
func Message(body io.Reader, coding string) (io.Reader, error) {
	compressed, length, err := readHeader(body)
	if err != nil {
		return nil, err
	}
	return unpack(body, compressed, length, coding)
}

func unpack(body io.Reader, compressed bool, length int64, coding string) (io.Reader, error) {
	message := io.LimitReader(body, length)
	if !compressed {
		return message, nil
	}
	if !strings.EqualFold(coding, "gzip") {
		return nil, ErrCoding
	}
	return gzip.NewReader(message)
}

// Frame puts the header of an uncompressed message before it. A message of 4 GiB and more does not fit in one.
func Frame(message []byte) []byte {
	out := make([]byte, HeaderSize, HeaderSize+len(message))
	binary.BigEndian.PutUint32(out[1:], uint32(len(message))) //nolint:gosec // no caller has such a message
	return append(out, message...)
}

func readHeader(r io.Reader) (compressed bool, length int64, err error) {
	var head [HeaderSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, 0, ErrFrame
		}
		return false, 0, fmt.Errorf("read a gRPC message: %w", err)
	}
	if head[0] > 1 {
		return false, 0, ErrFrame // reserved flags: no message that anybody sends today
	}
	return head[0] == 1, int64(binary.BigEndian.Uint32(head[1:])), nil
}
