package spool

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Body is a sequence of bytes that one writer fills and any number of readers read.
// It lies in memory or in a file, never partly in both. Make one with Pool.Body.
type Body struct {
	pool     *Pool
	declared int64 // -1: not known
	limit    int64
	probe    [1]byte // where the writer looks for a byte beyond the end

	mu       sync.Mutex
	more     sync.Cond  // the writer got on, the body ended, or a reader was closed
	pieces   [][]byte   // in memory: one slice of the body's own size, or chunks
	first    [1][]byte  // saves an allocation for the usual single piece
	own      bool       // pieces is one slice that is never reused
	lent     bool       // somebody may look at the storage after everybody has let go
	file     *spillFile // in a file, if not nil
	spilled  bool       // it is or was in a file
	written  int64      // what readers may read; grows until done
	writing  bool       // a write runs
	source   io.Reader  // from which bytes come; nil: none, or it is at its end. Only the running write reads it
	reading  time.Time  // since when the source is being waited for; zero: it is not
	awaited  time.Duration
	empty    int   // reads in a row that brought nothing; only the writer knows
	done     bool  // no more bytes come
	err      error // why it ended early
	refs     int   // owner, open readers and a running write; at 0 the storage goes back
	released bool  // the owner has let go

	sumMu  sync.Mutex // held while hashing: who else wants the hash waits for it
	summed bool
	sum    [sha256.Size]byte
}

// Limit sets the largest size of this body in bytes; zero or less stands for the
// pool's MaxBytes. It must be called before the first byte is written.
func (b *Body) Limit(n int64) {
	if n <= 0 {
		n = b.pool.maxBytes.Load()
	}
	b.limit = n
}

// Size returns how many bytes have been written so far. It is final once the body
// is finished, and stays available after Release.
func (b *Body) Size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.written
}

// Spilled reports whether the body has gone to a file.
func (b *Body) Spilled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spilled
}

// Bytes returns the whole body without a copy and true if it is finished without an
// error and lies in one piece of memory, which every body of up to 64 KiB that is
// not spilled does. The bytes must not be changed; they stay valid after Release.
func (b *Body) Bytes() ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.whole() || b.released || b.file != nil || len(b.pieces) > 1 {
		return nil, false
	}
	b.lent = true
	return b.piece(), true
}

// whole reports whether the body is finished and complete. The lock is held.
func (b *Body) whole() bool { return b.done && b.err == nil }

// piece returns the bytes of a body that has at most one piece. The lock is held.
func (b *Body) piece() []byte {
	if len(b.pieces) == 0 {
		return nil
	}
	return b.pieces[0][:b.written:b.written]
}

// Open returns a reader that starts at the first byte. While the body is being
// written it follows the writer and waits for more; after the last byte it returns
// io.EOF, or the error that ended the body. It must be closed; Close also wakes a
// Read that waits. After Release a new reader only returns ErrReleased.
//
// Of a complete body the reader is one that net/http treats specially: in memory
// and up to 64 KiB it is io.NopCloser of a bytes.Reader, and in a file, on Linux, a
// plain os.File.
func (b *Body) Open() io.ReadCloser {
	b.mu.Lock()
	if b.released {
		b.mu.Unlock()
		return &reader{body: b, err: ErrReleased}
	}
	if b.whole() && (b.own || b.written == 0) && b.file == nil {
		defer b.mu.Unlock()
		return io.NopCloser(bytes.NewReader(b.piece()))
	}
	b.refs++
	inFile := b.whole() && b.file != nil && b.pool.canReopen
	b.mu.Unlock()
	if inFile { // the reference keeps b.file as it is
		if f, err := b.reopen(); err == nil {
			b.drop()
			return f
		}
	}
	return &reader{body: b}
}

// reopen returns a descriptor for the kernel to send from. What it sends it may still be sending when everybody has let go, so that the file is
// never written again.
func (b *Body) reopen() (*os.File, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lent = true
	if b.file.length > b.written { // another body's bytes are behind it
		if err := b.file.Truncate(b.written); err != nil {
			return nil, err
		}
		b.file.length = b.written
	}
	return reopen(b.file.File)
}

// Sum256 returns the SHA-256 of the body, which is computed on the first call. It
// returns ErrUnfinished before the end, the error that ended the body early, or
// ErrReleased if the first call comes after Release.
func (b *Body) Sum256() ([sha256.Size]byte, error) {
	b.sumMu.Lock()
	defer b.sumMu.Unlock()
	if b.summed {
		return b.sum, nil
	}
	if err := b.hold(); err != nil {
		return b.sum, err
	}
	defer b.drop()

	// Complete and held: nothing moves any more, so no lock is needed.
	hash := sha256.New()
	if b.file != nil {
		buf := b.pool.memory.buffer(b.written)
		defer b.pool.memory.giveBuffer(buf)
		n, err := io.CopyBuffer(hash, io.NewSectionReader(b.file, 0, b.written), buf)
		if err == nil && n < b.written {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return b.sum, fmt.Errorf("hash spilled body: %w", err)
		}
	}
	left := b.written
	for _, p := range b.pieces {
		n := min(left, int64(len(p)))
		hash.Write(p[:n])
		left -= n
	}
	hash.Sum(b.sum[:0])
	b.summed = true
	return b.sum, nil
}

// hold takes a reference to a complete body.
func (b *Body) hold() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.released:
		return ErrReleased
	case !b.done:
		return ErrUnfinished
	case b.err != nil:
		return b.err
	}
	b.refs++
	return nil
}

// Release lets go of the body. Its memory goes back, and its file is closed, as
// soon as the last open reader is closed too: net/http may close a body after the
// request is over. Readers of own descriptors and slices, see Open, need nothing of
// the body and are not waited for. A body that is not finished ends with
// ErrReleased. Further calls do nothing.
func (b *Body) Release() {
	b.mu.Lock()
	if b.released {
		b.mu.Unlock()
		return
	}
	b.released = true
	if !b.done {
		b.done, b.err = true, ErrReleased
		b.more.Broadcast()
	}
	b.mu.Unlock()
	b.drop()
}

// drop gives a reference back; the last one returns the storage.
func (b *Body) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unref()
}

// unref is drop with the lock held.
func (b *Body) unref() {
	b.refs--
	if b.refs > 0 {
		return
	}
	pieces, file := b.pieces, b.file
	b.pieces, b.file = nil, nil
	b.pool.memory.give(pieces, !b.own && !b.lent)
	clear(pieces)
	if file != nil {
		b.pool.spilled.Add(-b.written)
		b.pool.files.give(file, !b.lent)
	}
}
