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
	for l := (loan{buf: p, own: true}); r.err == nil && r.off == b.written && !b.done; {
		got := b.pull(&l, len(p))
		if len(got) > 0 && r.err == nil { // nobody else wrote meanwhile: these are the next ones
			defer b.mu.Unlock()
			r.off += int64(len(got))
			return copy(p, got), nil
		}
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
	case b.file == nil:
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

// Len returns how many bytes are left to read; false while it is not known, and when WriteTo would be no better than Read.
func (r *reader) Len() (int64, bool) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.err != nil:
		return 0, false
	case b.passesOn():
		return b.declared - r.off, true
	}
	return b.written - r.off, b.whole() && b.file == nil
}

// passesOn reports whether what is read from the source can be given on from where it lies, because no piece of memory of this body moves. The
// lock is held.
func (b *Body) passesOn() bool { return b.source != nil && !b.done && b.declared > ownSliceMax }

// WriteTo writes the rest of a complete body that lies in memory without copying it, all pieces in one system call where w is a connection.
// A large body that still arrives it writes piece by piece as they come, each from where it was read to. Any other body it copies.
func (r *reader) WriteTo(w io.Writer) (int64, error) {
	b := r.body
	b.mu.Lock()
	if r.err == nil && b.passesOn() {
		b.mu.Unlock()
		return r.passOn(w)
	}
	if r.err != nil || !b.whole() || b.file != nil {
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

// passOn is WriteTo for a body that arrives.
func (r *reader) passOn(w io.Writer) (sent int64, err error) {
	var l loan
	defer l.back(r.body)
	for {
		piece, err := r.next(&l)
		if err == io.EOF { //nolint:errorlint // next returns it bare
			return sent, nil
		}
		if err != nil {
			return sent, err
		}
		n, err := w.Write(piece)
		sent += int64(n)
		if err != nil {
			return sent, err
		}
	}
}

// next returns the next bytes: where they lie in memory, or in the loan's buffer. It waits for them, and returns io.EOF after the last one.
func (r *reader) next(l *loan) ([]byte, error) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	for r.err == nil && r.off == b.written && !b.done {
		if got := b.pull(l, bufferSize); len(got) > 0 && r.err == nil {
			r.off += int64(len(got))
			return got, nil
		}
	}
	switch {
	case r.err != nil:
		return nil, r.err
	case r.off < b.written && b.file == nil:
		piece := b.pieces[r.off/chunkSize][r.off%chunkSize:]
		piece = piece[:min(int64(len(piece)), b.written-r.off)]
		r.off += int64(len(piece))
		return piece, nil
	case r.off < b.written:
		b.mu.Unlock()
		n, err := r.Read(l.buffer(b))
		b.mu.Lock()
		return l.buf[:n], err
	case b.err != nil:
		return nil, b.err
	}
	return nil, io.EOF
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
	if b.file == nil {
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
