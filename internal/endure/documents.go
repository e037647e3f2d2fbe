package main

import (
	"crypto/sha256"
	"encoding/binary"
)

// filler is a body of that size that does not compress to nothing.
func filler(size int) []byte {
	b := make([]byte, size)
	x := uint32(size) + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// stamp makes a body another document.
func stamp(body []byte, n int64) { binary.BigEndian.PutUint64(body, uint64(n)) }

// stampedSums gives the hashes of the documents by their number.
func stampedSums(size int) func(n int64) sum {
	body := filler(size)
	return func(n int64) sum {
		stamp(body, n)
		return sha256.Sum256(body)
	}
}
