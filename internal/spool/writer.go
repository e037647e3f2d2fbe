package spool

import (
	"fmt"
	"io"
)

// maxEmptyReads is how often in a row a source may return nothing at all.
const maxEmptyReads = 100

// ReadFrom fills the body from r to its end and finishes it. It returns the body's
// size and
//   - *TooLargeError when the body is larger than its limit, without reading
//     anything if the declared size says so,
//   - io.ErrUnexpectedEOF, wrapped, when r ends before the declared size, and
//     ErrLonger when it does not end there,
//   - *WriteError for trouble with the spool's own file,
//   - any other error of r, wrapped,
//   - ErrReleased or ErrFinished when the body takes no bytes any more.
//
// Readers see the same error after the bytes that arrived.
func (b *Body) ReadFrom(r io.Reader) (int64, error) {
	if err := b.Intake(r); err != nil {
		return 0, err
	}
	return b.Arrive()
}

// Write appends to the body, for a writer that has the bytes in pieces. It returns
// how many it kept and the errors of ReadFrom, bar those of the source; any error
// ends the body.
func (b *Body) Write(p []byte) (int, error) {
	if err := b.start(); err != nil {
		return 0, err
	}
	n, err := b.append(p)
	defer b.drop()
	b.pause()
	if err != nil {
		err = b.finish(err)
	}
	return n, err
}

// Finish ends the body after the last Write: with nil or io.EOF it is complete, if
// it has its declared size; any other error is what readers get after the bytes that
// arrived. Only the first end counts. A Finish that overtakes a running write cuts it
// off, and the body then ends with an error in any case.
func (b *Body) Finish(err error) {
	_ = b.finish(err) // the caller knows the error
}

// start lets a writer in and keeps the storage in place while it writes.
func (b *Body) start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.mayWrite(); err != nil {
		return err
	}
	b.writing = true
	b.refs++
	return nil
}

// mayWrite says why nobody may begin to write; nil: one may. The lock is held.
func (b *Body) mayWrite() error {
	switch {
	case b.done && b.err == nil:
		return ErrFinished
	case b.done:
		return b.err
	case b.declared > b.limit:
		b.done, b.err = true, &TooLargeError{Limit: b.limit, Size: b.declared}
		b.more.Broadcast()
		return b.err
	case b.writing || b.source != nil:
		return errSecondWriter
	}
	return nil
}

// pause says that the writer touches the storage no more until the next start.
func (b *Body) pause() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writing = false
}

// finish ends the body and returns the error with which it ended, which is an earlier one if there is one.
func (b *Body) finish(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end(err)
	return b.err
}

// end is finish with the lock held.
func (b *Body) end(err error) {
	if b.done {
		return
	}
	if err == io.EOF { //nolint:errorlint // A wrapped EOF tells of a source that broke off.
		err = nil
	}
	if err == nil && b.written < b.declared {
		err = fmt.Errorf("body ended after %d of %d bytes: %w", b.written, b.declared, io.ErrUnexpectedEOF)
	}
	if err == nil && (b.writing || b.source != nil) {
		err = ErrUnfinished // bytes are still on their way in
	}
	b.done, b.err = true, err
	if err == nil {
		b.settle()
	}
	b.more.Broadcast()
}

// settle gives back what the finished body does not need: a last chunk without a byte
// in it and, when the body is small, the chunk for a slice of its own size. Readers
// are safe: they copy under the lock.
func (b *Body) settle() {
	if last := len(b.pieces) - 1; last > 0 && b.written <= int64(last)*chunkSize {
		b.pool.memory.exchange(b.pieces[last], 0)
		b.pieces[last] = nil
		b.pieces = b.pieces[:last]
	}
	if b.own || len(b.pieces) != 1 || b.written > ownSliceMax {
		return
	}
	chunk := b.pieces[0]
	slice := make([]byte, b.written)
	copy(slice, chunk)
	b.pieces[0], b.own = slice, true
	b.pool.memory.exchange(chunk, b.written)
}

func (b *Body) keep(p []byte, inPlace bool) error {
	if inPlace {
		return b.advance(len(p))
	}
	_, err := b.append(p)
	return err
}

// append copies p to the end of the body, wherever that is, and returns how much of
// it was kept.
func (b *Body) append(p []byte) (int, error) {
	kept := 0
	for kept < len(p) {
		left := b.bound() - b.written
		if left == 0 {
			return kept, b.beyond()
		}
		rest := p[kept:]
		rest = rest[:min(int64(len(rest)), left)]
		n, err := b.store(rest)
		if advanceErr := b.advance(n); advanceErr != nil {
			return kept, advanceErr
		}
		kept += n
		if err != nil {
			return kept, &WriteError{Dir: b.pool.limits.Dir, Err: err}
		}
	}
	return kept, nil
}

// store copies as much of p as fits in one place; readers do not see it yet.
func (b *Body) store(p []byte) (int, error) {
	if dst := b.room(); len(dst) > 0 {
		return copy(dst, p), nil
	}
	if b.file == nil {
		if err := b.spill(); err != nil {
			return 0, err
		}
	}
	if err := b.pool.files.write(b.file, p, b.written); err != nil {
		return 0, err
	}
	return len(p), nil
}

// bound is the offset that no byte may pass.
func (b *Body) bound() int64 {
	if b.declared >= 0 {
		return b.declared
	}
	return b.limit
}

// beyond is the error for a byte that passes the end.
func (b *Body) beyond() error {
	if b.declared >= 0 {
		return ErrLonger
	}
	return &TooLargeError{Limit: b.limit, Size: -1}
}

// room returns the memory where the next bytes go, and nothing if they may not stay
// in memory or there is none. It reads without the lock what only the writer changes.
func (b *Body) room() []byte {
	perBody := b.pool.limits.MemoryPerBody
	left := min(b.bound(), perBody) - b.written
	if b.file != nil || b.declared > perBody || left == 0 {
		return nil
	}
	i := b.written / chunkSize
	if i == int64(len(b.pieces)) && !b.grow() {
		return nil
	}
	free := b.pieces[i][b.written%chunkSize:]
	return free[:min(int64(len(free)), left)]
}

// grow adds a piece of memory and reports false if the pool has none.
func (b *Body) grow() bool {
	own := b.declared >= 0 && b.declared <= ownSliceMax
	pieces, before := b.pieces, len(b.pieces)
	if pieces == nil {
		pieces = b.first[:0]
	}
	switch {
	case own:
		if slice := b.pool.memory.slice(b.declared); slice != nil {
			pieces = append(pieces, slice)
		}
	case b.declared > 0:
		// All at once: a body that finds no room on its way has to be moved to a file.
		pieces = b.pool.memory.take(pieces, int((b.declared+chunkSize-1)/chunkSize))
	default:
		pieces = b.pool.memory.take(pieces, 1)
	}
	if len(pieces) == before {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pieces, b.own = pieces, own
	return true
}

// spill moves the body from memory to a file.
func (b *Body) spill() error {
	f, err := b.pool.files.take()
	if err != nil {
		return err
	}
	left, off := b.written, int64(0)
	for _, p := range b.pieces {
		n := min(left, int64(len(p)))
		if err := b.pool.files.write(f, p[:n], off); err != nil {
			_ = f.discard() // the first error says it all
			return err
		}
		left, off = left-n, off+n
	}
	b.mu.Lock()
	pieces, own := b.pieces, b.own
	b.pieces, b.own, b.file, b.spilled = nil, false, f, true
	b.pool.spilled.Add(b.written)
	b.mu.Unlock()
	b.pool.memory.give(pieces, !own)
	clear(pieces)
	return nil
}

// advance shows n more bytes to the readers. It fails if the body was released
// meanwhile.
func (b *Body) advance(n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return b.err
	}
	b.written += int64(n)
	if b.file != nil {
		b.pool.spilled.Add(int64(n))
	}
	b.more.Broadcast()
	return nil
}
