package webhook

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

var (
	errFull   = errors.New("the outbox is full")
	errClosed = fmt.Errorf("the outbox is closed: %w", fs.ErrClosed)
)

const (
	// maxSegment is the size from which a segment is not written to any more, in bytes: what is done goes in such pieces.
	maxSegment = 4 << 20
	// segmentShare is the part of a small queue's bound that a segment has at most, so that what is done makes room in time.
	segmentShare = 8
	// idleSegment is the size from which a segment without a backlog is not kept for what comes, in bytes.
	idleSegment = 64 << 10
)

// queue is a stream of numbered events on disk: a folder of segments to whose end lines are written, and the number of the last event that
// is done with. Any number of goroutines append; one reads, with next, lost and finish.
//
// Nothing is synced: what was written survives the process, and most of it a power failure, too.
type queue struct {
	dir     string
	limit   int64         // Of all segments together, in bytes.
	arrived chan struct{} // Has an element when an event came since the reader last looked.

	mu       sync.Mutex
	segments []segment // Oldest first.
	writing  *os.File  // The last segment; nil: the next event begins a new one.
	last     uint64    // The number of the last event that was written.
	done     *progress
	closed   bool

	reading *tail // The reader's own; nil: the oldest segment is not open.
}

// openQueue makes the queue in dir ready. Events are always written to a new segment, never behind what a crash may have torn.
func openQueue(dir string, limit int64) (*queue, error) {
	if err := os.MkdirAll(dir, folderMode); err != nil { //nolint:gosec // the operator names the folder
		return nil, err
	}
	done, err := openProgress(filepath.Join(dir, "done"))
	if err != nil {
		return nil, err
	}
	q := &queue{dir: dir, limit: limit, done: done, arrived: make(chan struct{}, 1)}
	if q.segments, q.last, err = recoverSegments(dir); err != nil {
		return nil, errors.Join(err, done.close())
	}
	if len(q.segments) > 0 { // What lies before the oldest segment was done with, whatever became of the note.
		q.done.number = max(q.done.number, q.segments[0].first-1)
	}
	q.last = max(q.last, q.done.number)
	q.arrived <- struct{}{}
	return q, nil
}

// append writes an event behind all others.
func (q *queue) append(id string, at time.Time, e event) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed
	}
	text := encodeLine(q.last+1, at, id, e)
	if q.bytes()+int64(len(text)) > q.limit {
		return errFull
	}
	if err := q.ready(); err != nil {
		return err
	}
	s := &q.segments[len(q.segments)-1]
	// At an offset, not at the end: what a full disk left of a line is overwritten by the next.
	if _, err := q.writing.WriteAt(text, s.size); err != nil {
		_ = q.writing.Truncate(s.size) // If this fails too, the next start reads over the rest.
		return err
	}
	s.size += int64(len(text))
	q.last++
	select {
	case q.arrived <- struct{}{}:
	default:
	}
	return nil
}

// ready makes sure that there is a segment to write to; mu is held.
func (q *queue) ready() error {
	if q.writing != nil && q.segments[len(q.segments)-1].size >= q.atMost(maxSegment) {
		q.seal()
	}
	if q.writing != nil {
		return nil
	}
	s := segment{first: q.last + 1}
	f, err := s.create(q.dir)
	if err != nil {
		return err
	}
	q.writing, q.segments = f, append(q.segments, s)
	return nil
}

// atMost is that size, or less for a small queue.
func (q *queue) atMost(size int64) int64 { return min(size, q.limit/segmentShare) }

// seal ends the segment that is written to; mu is held.
func (q *queue) seal() {
	if q.writing != nil {
		_ = q.writing.Close() // Each write was answered already.
		q.writing = nil
	}
}

func (q *queue) bytes() (sum int64) {
	for _, s := range q.segments {
		sum += s.size
	}
	return sum
}

func (q *queue) backlog() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last - q.done.number
}

// next is the first event that is not done with. It reports false when there is none, and how many events before it were found to be lost.
// After an error of the disk nothing is lost, and next may be called again.
func (q *queue) next() (l line, lost uint64, ok bool, err error) {
	for q.backlog() > 0 {
		text, err := q.read()
		switch {
		case errors.Is(err, io.EOF):
			n, err := q.leave()
			if lost += n; err != nil {
				return line{}, lost, false, err
			}
			continue
		case err != nil:
			return line{}, lost, false, err
		}
		l, ok := decodeLine(text)
		if !ok {
			continue // The number of the next good one tells how many these were.
		}
		n, due := q.skipTo(l.number)
		if lost += n; due {
			return l, lost, true, nil
		}
	}
	q.tidy()
	return line{}, lost, false, nil
}

// tidy removes the segments when nothing waits in them, but not at every moment of a quiet day.
func (q *queue) tidy() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.done.number != q.last || q.writing != nil && len(q.segments) == 1 && q.segments[0].size < q.atMost(idleSegment) {
		return
	}
	q.clear()
}

// clear removes all segments of a queue without a backlog; mu is held. Not without a note of progress: the next start would give the same
// numbers once more. A file that cannot be removed is read over at the next start.
func (q *queue) clear() {
	if len(q.segments) == 0 || q.done.save() != nil {
		return
	}
	q.seal()
	q.closeReading()
	for _, s := range q.segments {
		_ = s.remove(q.dir)
	}
	q.segments = nil
}

// read is the next line of the oldest segment. The error is [io.EOF] where there is no further one.
func (q *queue) read() ([]byte, error) {
	if q.reading == nil {
		q.mu.Lock()
		gone := len(q.segments) == 0
		var first uint64
		if !gone {
			first = q.segments[0].first
		}
		q.mu.Unlock()
		if gone {
			return nil, io.EOF
		}
		t, err := openTail(q.dir, first, q.committed)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, io.EOF // Somebody removed it.
		}
		if err != nil {
			return nil, err
		}
		q.reading = t
	}
	return q.reading.line()
}

// committed is the size of the oldest segment up to the end of its last line.
func (q *queue) committed() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.segments[0].size
}

// skipTo gives up the events before number. It reports false when that event is done with, too.
func (q *queue) skipTo(number uint64) (lost uint64, due bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if number <= q.done.number {
		return 0, false
	}
	return q.giveUp(number - 1), true
}

// giveUp is done with all events up to number, and tells how many of them had not been; mu is held.
func (q *queue) giveUp(number uint64) (lost uint64) {
	if number <= q.done.number {
		return 0
	}
	lost, q.done.number = number-q.done.number, number
	return lost
}

// leave removes the oldest segment, which was read to its end. Those of its events that have not come up are lost.
func (q *queue) leave() (lost uint64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.segments) == 0 {
		return q.giveUp(q.last), nil
	}
	old := q.segments[0]
	if q.reading != nil && !q.reading.short && q.reading.offset < old.size {
		return 0, nil // It has grown since.
	}
	if len(q.segments) > 1 {
		lost = q.giveUp(q.segments[1].first - 1)
	} else {
		q.seal()
		lost = q.giveUp(q.last)
	}
	q.closeReading()
	q.segments = slices.Delete(q.segments, 0, 1)
	_ = q.done.save() // Without it the next start takes what lies before the oldest segment as done with.
	return lost, old.remove(q.dir)
}

func (q *queue) closeReading() {
	if q.reading != nil {
		_ = q.reading.file.Close() // Nothing was written.
		q.reading = nil
	}
}

// finish notes that an event needs no more: it was delivered, or given up.
func (q *queue) finish(number uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done.number = number
	return q.done.save()
}

// close ends the queue. A queue without a backlog leaves no segments.
func (q *queue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	q.seal()
	q.closeReading()
	if q.done.number == q.last {
		q.clear()
	}
	return q.done.close()
}
