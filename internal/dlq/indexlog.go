package dlq

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// compactName is where a compacted segment grows. It is no segment's name.
const compactName = "compact.tmp"

// indexLog is the index on the disk: segments to which facts are appended. It
// is a cache of what the letters' own files say, so nothing is synced and a
// write that fails is no failure of the letter.
//
// A process appends to segments of its own: what another one left behind, torn
// or not, is only read.
type indexLog struct {
	folder string

	mu      sync.Mutex // Held while a record is written, so that those of a letter are in order.
	encoder encoder
	home    fs.FileInfo // The folder as it was found; nil: it could not be.
	file    *os.File    // Nil: the next record begins a new segment.
	newest  uint64      // The highest number of a segment so far.
	old     int         // Segments before this one.
	records int         // In all segments, of letters and of those that are gone.
	closed  bool
}

// segmentMode is as of all files of the store, whatever the umask.
func createSegment(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|os.O_CREATE|os.O_WRONLY, fileMode) //nolint:gosec // In the folder of the index.
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(fileMode); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// begin looks which segments there are, before the first record is written, and gives their numbers.
func (l *indexLog) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	numbers, err := segmentNumbers(l.folder)
	if err != nil {
		return err
	}
	if l.home, err = os.Stat(l.folder); err != nil {
		return err
	}
	if l.old = len(numbers); l.old > 0 {
		l.newest = numbers[l.old-1]
	}
	if err := os.Remove(filepath.Join(l.folder, compactName)); err != nil && !folderMissing(err) {
		return err
	}
	return nil
}

// append writes what encode puts into the buffer. The caller holds mu. After a
// failure the segment may be torn, so the next record begins another.
func (l *indexLog) append(encode func(*encoder) error) error {
	if l.closed {
		return os.ErrClosed
	}
	if l.file == nil {
		if err := l.start(); err != nil {
			return err
		}
	}
	l.encoder.buffer = l.encoder.buffer[:0]
	if err := encode(&l.encoder); err != nil {
		return err
	}
	l.records++
	_, err := l.file.Write(l.encoder.buffer)
	if err != nil {
		l.rotate()
	}
	return err
}

// start begins a new segment.
func (l *indexLog) start() error {
	if l.newest == math.MaxUint64 {
		return fmt.Errorf("there is no number after %s for the index of dead letters", segmentName(l.newest))
	}
	f, err := createSegment(filepath.Join(l.folder, segmentName(l.newest+1)), os.O_EXCL|os.O_APPEND)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(segmentHead); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	l.file, l.newest = f, l.newest+1
	l.encoder = encoder{buffer: l.encoder.buffer}
	return nil
}

// rotate leaves the segment to the readers. The caller holds mu.
func (l *indexLog) rotate() {
	if l.file != nil {
		_ = l.file.Close() // What was not written is found to be missing.
		l.file = nil
		l.old++
	}
}

// lost tells whether the segments are no longer where readers look for them.
func (l *indexLog) lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	home, err := os.Stat(l.folder)
	if err != nil || l.home == nil || !os.SameFile(home, l.home) {
		return true
	}
	if l.file == nil {
		return false
	}
	ours, err := l.file.Stat()
	if err != nil {
		return true
	}
	there, err := os.Lstat(l.file.Name())
	return err != nil || !os.SameFile(ours, there)
}

// restart makes the folder again where it is gone, and begins a new segment in it. The caller holds mu.
func (l *indexLog) restart() {
	l.rotate()
	l.home = nil
	if _, err := makeFolder(l.folder); err == nil {
		l.home, _ = os.Stat(l.folder) // Without it the log counts as lost, and this is done once more.
	}
}

// close notes the store's size for the next process, where it is known.
func (l *indexLog) close(size int64, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known {
		_ = l.append(func(c *encoder) error { c.size(size); return nil }) // Without it the size is measured before it is known.
	}
	l.rotate()
	l.closed = true
}

const (
	// fewRecords is how many dead records are not worth a compaction.
	fewRecords = 10_000
	// manySegments is how many of them are.
	manySegments = 8
)

// wasteful tells whether most of the records are dead, for so many live letters.
func (l *indexLog) wasteful(live int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records > 2*live+fewRecords || l.old > manySegments
}

// errNothingToCompact says that there are no segments.
var errNothingToCompact = errors.New("the index has no segment")

// compact replaces all segments by one that holds the last record of each
// letter that has a place, while new records go to the segments after it. An
// interruption at any moment leaves segments that say the same; letters that
// are gone may be among them again, and are not found in their folder.
func (l *indexLog) compact(places int, placeOf func(id uid) (uint32, bool), size int64) error {
	l.mu.Lock()
	l.rotate()
	before := l.records
	numbers, err := segmentNumbers(l.folder) // Before anybody begins another.
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if len(numbers) == 0 {
		return errNothingToCompact
	}
	kept, err := l.copyLatest(numbers, places, placeOf, size)
	if err != nil {
		return errors.Join(err, removeIfThere(filepath.Join(l.folder, compactName)))
	}
	last := numbers[len(numbers)-1]
	if err := os.Rename(filepath.Join(l.folder, compactName), filepath.Join(l.folder, segmentName(last))); err != nil {
		return err
	}
	for _, number := range numbers[:len(numbers)-1] {
		if err := removeIfThere(filepath.Join(l.folder, segmentName(number))); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records += kept - before
	l.old -= len(numbers) - 1
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !folderMissing(err) {
		return err
	}
	return nil
}

// copyLatest writes the compacted segment and makes it durable: it takes the
// place of others, which may be.
func (l *indexLog) copyLatest(numbers []uint64, places int, placeOf func(id uid) (uint32, bool), size int64) (kept int, err error) {
	from, err := openSegments(l.folder)
	if err != nil {
		return 0, err
	}
	defer from.close()
	from.files = slices.DeleteFunc(from.files, func(f *os.File) bool {
		number, _ := segmentNumber(filepath.Base(f.Name()))
		if _, ours := slices.BinarySearch(numbers, number); ours {
			return false
		}
		_ = f.Close() // Nothing was written.
		return true
	})
	last, err := from.latest(places, placeOf)
	if err != nil {
		return 0, err
	}
	f, err := createSegment(filepath.Join(l.folder, compactName), os.O_TRUNC)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	c := encoder{buffer: []byte(segmentHead)}
	c.size(size)
	flush := func(most int) error {
		if len(c.buffer) < most {
			return nil
		}
		_, err := f.Write(c.buffer)
		c.buffer = c.buffer[:0]
		return err
	}
	err = from.each(func(n uint32, r *record) error {
		if r.sized || r.gone {
			return nil
		}
		if place, ok := placeOf(r.id); !ok || int(place) >= len(last) || last[place] != n {
			return nil
		}
		kept++
		if err := c.letter(&r.facts); err != nil {
			return err
		}
		return flush(logBuffer)
	})
	if err == nil {
		err = flush(1)
	}
	if err == nil {
		err = f.Sync()
	}
	return kept, err
}
