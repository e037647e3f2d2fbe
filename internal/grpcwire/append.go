package grpcwire

import (
	"encoding/binary"
	"math"
)

// AppendVarint adds a field that is a number, a truth value or an enum.
func AppendVarint(b []byte, number int, v uint64) []byte {
	return binary.AppendUvarint(appendTag(b, number, Varint), v)
}

// AppendBytes adds a field that is text, bytes or a message.
func AppendBytes(b []byte, number int, data []byte) []byte {
	b = binary.AppendUvarint(appendTag(b, number, Bytes), uint64(len(data)))
	return append(b, data...)
}

// AppendFloat adds a field of protobuf's type float.
func AppendFloat(b []byte, number int, v float32) []byte {
	return binary.LittleEndian.AppendUint32(appendTag(b, number, Fixed32), math.Float32bits(v))
}

func appendTag(b []byte, number int, t WireType) []byte {
	return binary.AppendUvarint(b, uint64(number)<<3|uint64(t)) //nolint:gosec // field numbers are constants above zero
}
