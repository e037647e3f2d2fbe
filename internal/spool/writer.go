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
	if err := b.start(); err != nil {
		return 0, err
	}
	err := b.fill(r)
	defer b.drop()
	b.pause()
	return b.finish(err)
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
		_, err = b.finish(err)
	}
	return n, err
}

// Finish ends the body after the last Write: with nil or io.EOF it is complete, if
// it has its declared size; any other error is what readers get after the bytes that
// arrived. Only the first end counts. A Finish that overtakes a running write cuts it
// off, and the body then ends with an error in any case.
func (b *Body) Finish(err error) {
	_, _ = b.finish(err) // the caller knows the error
}

// start lets a writer in and keeps the storage in place while it writes.
func (b *Body) start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		if b.err != nil {
			return b.err
		}
		return ErrFinished
	}
	if b.declared > b.limit {
		b.done, b.err = true, &TooLargeError{Limit: b.limit, Size: b.declared}
		b.more.Broadcast()
		return b.err
	}
	if b.writing {
		return errSecondWriter
	}
	b.writing = true
	b.refs++
	return nil
}

// pause says that the writer touches the storage no more until the next start.
func (b *Body) pause() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writing = false
}

// finish ends the body and returns its size and the error with which it ended,
// which is an earlier one if there is one.
func (b *Body) finish(err error) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return b.written, b.err
	}
	if err == io.EOF { //nolint:errorlint // A wrapped EOF tells of a source that broke off.
		err = nil
	}
	if err == nil && b.written < b.declared {
		err = fmt.Errorf("body ended after %d of %d bytes: %w", b.written, b.declared, io.ErrUnexpectedEOF)
	}
	if err == nil && b.writing {
		err = ErrUnfinished // bytes are still on their way in
	}
	b.done, b.err = true, err
	if err == nil {
		b.settle()
	}
	b.more.Broadcast()
	return b.written, b.err
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

// fill reads r to its end. Bytes that stay in memory are read into their final
// place; others go through a buffer.
func (b *Body) fill(r io.Reader) error {
	var buf []byte
	defer func() { b.pool.memory.giveBuffer(buf) }()
	for empty := 0; empty < maxEmptyReads; empty++ {
		dst := b.room()
		inPlace := len(dst) > 0
		if left := b.end() - b.written; !inPlace {
			if left > 0 && buf == nil {
				buf = b.pool.memory.buffer(b.declared)
			}
			dst = b.probe[:]
			if left > 0 {
				dst = buf[:min(int64(len(buf)), left)]
			}
		}
		n, err := r.Read(dst)
		if n > 0 {
			empty = 0
			if keepErr := b.keep(dst[:n], inPlace); keepErr != nil {
				return keepErr
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("receive body: %w", err)
		}
	}
	return fmt.Errorf("receive body: %w", io.ErrNoProgress)
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
		left := b.end() - b.written
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
	if b.file.File == nil {
		if err := b.spill(); err != nil {
			return 0, err
		}
	}
	return b.file.Write(p)
}

// end is the offset that no byte may pass.
func (b *Body) end() int64 {
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
	left := min(b.end(), perBody) - b.written
	if b.file.File != nil || b.declared > perBody || left == 0 {
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
	var piece []byte
	if own {
		piece = b.pool.memory.slice(b.declared)
	} else {
		piece = b.pool.memory.chunk()
	}
	if piece == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pieces == nil {
		b.pieces = b.first[:0]
		if b.declared > chunkSize {
			b.pieces = make([][]byte, 0, (b.declared+chunkSize-1)/chunkSize)
		}
	}
	b.pieces, b.own = append(b.pieces, piece), own
	return true
}

// spill moves the body from memory to a file.
func (b *Body) spill() error {
	f, err := b.pool.create(b.pool.limits.Dir)
	if err != nil {
		return err
	}
	left := b.written
	for _, p := range b.pieces {
		n := min(left, int64(len(p)))
		if _, err := f.Write(p[:n]); err != nil {
			_ = f.discard() // the first error says it all
			return err
		}
		left -= n
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
	if b.file.File != nil {
		b.pool.spilled.Add(int64(n))
	}
	b.more.Broadcast()
	return nil
}
