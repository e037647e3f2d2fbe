package spool

import (
	"fmt"
	"io"
	"net"
)

// reader reads a body from its first byte and holds a reference to it. One call of
// Read at a time; Close may come at any moment.
type reader struct {
	body *Body
	off  int64 // guarded by body.mu
	err  error // guarded by body.mu; nil while open, then it holds no reference
}

// Read fills p as far as bytes are there and waits only if there is none.
func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b := r.body
	b.mu.Lock()
	for r.err == nil && r.off == b.written && !b.done {
		b.more.Wait()
	}
	switch {
	case r.err != nil:
		defer b.mu.Unlock()
		return 0, r.err
	case r.off == b.written:
		defer b.mu.Unlock()
		if b.err != nil {
			return 0, b.err
		}
		return 0, io.EOF
	case b.file.File == nil:
		defer b.mu.Unlock()
		n := b.copyAt(p, r.off)
		r.off += int64(n)
		return n, nil
	}
	file, off, end := b.file, r.off, b.written
	b.mu.Unlock() // no disk access under the lock; a Close meanwhile only closes the file after it

	n, err := file.ReadAt(p[:min(int64(len(p)), end-off)], off)
	b.mu.Lock()
	defer b.mu.Unlock()
	r.off += int64(n)
	switch {
	case r.err != nil:
		return 0, r.err
	case n > 0:
		return n, nil
	case err == io.EOF: //nolint:errorlint // The contract of io.ReaderAt is plain io.EOF.
		err = io.ErrUnexpectedEOF // somebody cut the file: it must not look complete
	}
	return 0, fmt.Errorf("read spilled body: %w", err)
}

// Len returns how many bytes are left to read; false while it is not known, or when they do not lie in memory.
func (r *reader) Len() (int64, bool) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written - r.off, r.err == nil && b.whole() && b.file.File == nil
}

// WriteTo writes the rest of a complete body that lies in memory without copying it, all pieces in one system call where w is a connection.
// Any other body it copies.
func (r *reader) WriteTo(w io.Writer) (int64, error) {
	b := r.body
	b.mu.Lock()
	if r.err != nil || !b.whole() || b.file.File != nil {
		b.mu.Unlock()
		return io.Copy(w, struct{ io.Reader }{r})
	}
	b.refs++ // keeps the pieces, also when the reader is closed meanwhile
	pieces := b.rest(r.off)
	r.off = b.written
	b.mu.Unlock()
	defer b.drop()
	return pieces.WriteTo(w)
}

// rest lists what lies in memory from off on. The lock is held and the body is complete.
func (b *Body) rest(off int64) net.Buffers {
	pieces := make(net.Buffers, 0, len(b.pieces))
	start := int64(0)
	for _, p := range b.pieces {
		end := min(start+int64(len(p)), b.written)
		if off < end {
			pieces = append(pieces, p[max(0, off-start):end-start])
		}
		start = end
	}
	return pieces
}

// Close gives the reader's hold on the body back and wakes a Read that waits.
func (r *reader) Close() error {
	b := r.body
	b.mu.Lock()
	open := r.err == nil
	r.err = errReaderClosed
	b.more.Broadcast()
	b.mu.Unlock()
	if open {
		b.drop()
	}
	return nil
}

// copyAt copies from memory. The lock is held and off is below written.
func (b *Body) copyAt(p []byte, off int64) int {
	p = p[:min(int64(len(p)), b.written-off)]
	n := 0
	for n < len(p) {
		at := off + int64(n)
		n += copy(p[n:], b.pieces[at/chunkSize][at%chunkSize:])
	}
	return n
}

// ReadAt reads a complete body from any place, as io.ReaderAt says. It returns ErrUnfinished before the end, the error that ended the body
// early, or ErrReleased.
func (b *Body) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errNegativeOffset
	}
	b.mu.Lock()
	switch {
	case b.released:
		defer b.mu.Unlock()
		return 0, ErrReleased
	case !b.whole():
		defer b.mu.Unlock()
		if b.err != nil {
			return 0, b.err
		}
		return 0, ErrUnfinished
	case off >= b.written:
		defer b.mu.Unlock()
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	wanted := len(p)
	p = p[:min(int64(len(p)), b.written-off)]
	var n int
	var err error
	if b.file.File == nil {
		n = b.copyAt(p, off)
		b.mu.Unlock()
	} else {
		file := b.file
		b.refs++ // keeps the file open
		b.mu.Unlock()
		n, err = file.ReadAt(p, off)
		b.drop()
		switch {
		case n == len(p):
			err = nil
		case err == io.EOF: //nolint:errorlint // The contract of io.ReaderAt is plain io.EOF.
			err = io.ErrUnexpectedEOF // somebody cut the file: it must not look complete
		}
		if err != nil {
			return n, fmt.Errorf("read spilled body: %w", err)
		}
	}
	if n < wanted {
		return n, io.EOF
	}
	return n, nil
}
