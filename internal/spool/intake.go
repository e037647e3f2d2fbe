package spool

import (
	"fmt"
	"io"
	"time"
)

// Intake names the source of the body and reads nothing yet. From then on a reader that comes to the end of what is there reads on in the source,
// one at a time, and what it reads is kept for all: the first one to send the body can do so while it arrives. It returns the errors of a
// write that comes too late, and TooLargeError when the declared size says so.
//
// The source is read until the body is finished, by whoever reads the body, also after Intake's caller has let go of it with Release.
func (b *Body) Intake(src io.Reader) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.mayWrite(); err != nil {
		return err
	}
	b.source = src
	return nil
}

// Arrive reads the source of Intake to its end, or waits for whoever does, and returns what ReadFrom returns. It may be called at any time and
// by anybody.
func (b *Body) Arrive() (int64, error) {
	var l loan
	defer l.back(b)
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.done {
		b.pull(&l, bufferSize)
	}
	return b.written, b.err
}

// Awaited returns how long the source has been waited for so far, all in all: the part of a sender's time that is not the receiver's.
func (b *Body) Awaited() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading.IsZero() {
		return b.awaited
	}
	return b.awaited + time.Since(b.reading)
}

// Expected returns the size of the body in bytes: what has been written once it is finished, the declared size before, and -1 when that is not
// known.
func (b *Body) Expected() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return b.written
	}
	return b.declared
}

// pull reads once from the source, at most that many bytes, or waits until somebody else has. What it read itself it returns: where it lies in
// memory, or in the loan's buffer. The lock is held, but not over the read.
func (b *Body) pull(l *loan, most int) []byte {
	if b.source == nil || b.writing {
		b.more.Wait()
		return nil
	}
	b.writing, b.reading = true, time.Now()
	b.refs++
	b.mu.Unlock()
	got, err := b.take(l, most)
	b.mu.Lock()
	b.writing = false
	if err != nil {
		b.source = nil
		b.end(err)
	}
	b.more.Broadcast() // the source is free for the next
	b.unref()
	return got
}

// take makes the one read of pull. Bytes that stay in memory are read into their final place; others go through the loan's buffer.
func (b *Body) take(l *loan, most int) ([]byte, error) {
	dst := b.room()
	inPlace := len(dst) > 0
	if left := b.bound() - b.written; !inPlace {
		dst = b.probe[:]
		if left > 0 {
			buf := l.buffer(b)
			dst = buf[:min(int64(len(buf)), left)]
		}
	}
	dst = dst[:min(len(dst), most)]
	n, err := b.source.Read(dst)
	b.noteRead()
	if n > 0 {
		b.empty = 0
		if keepErr := b.keep(dst[:n], inPlace); keepErr != nil {
			return nil, keepErr
		}
	} else if b.empty++; err == nil && b.empty >= maxEmptyReads {
		err = fmt.Errorf("receive body: %w", io.ErrNoProgress)
	}
	if err == nil || err == io.EOF { //nolint:errorlint // A wrapped EOF tells of a source that broke off.
		return dst[:n], err
	}
	return dst[:n], fmt.Errorf("receive body: %w", err)
}

func (b *Body) noteRead() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.awaited += time.Since(b.reading)
	b.reading = time.Time{}
}

// loan is a copy buffer that is taken from the pool when it is needed first.
type loan struct {
	buf []byte
	own bool // it is not the pool's
}

func (l *loan) buffer(b *Body) []byte {
	if l.buf == nil {
		l.buf = b.pool.memory.buffer(b.declared)
	}
	return l.buf
}

func (l *loan) back(b *Body) {
	if !l.own {
		b.pool.memory.giveBuffer(l.buf)
	}
}
