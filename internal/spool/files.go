package spool

import (
	"slices"
	"sync"
	"time"
)

const (
	// spareFiles and spareBytes bound the files that wait to be used again.
	spareFiles = 64
	spareBytes = 512 << 20
	// spareTime is how long a file waits. It is well below the time after which the system writes down what no longer matters to anybody.
	spareTime = 5 * time.Second
)

// files makes the files of a pool, and keeps those of bodies that are gone for the next ones: the pages of a new file cost more than what is
// written into them. It is safe for concurrent use.
type files struct {
	dir    string
	create func(dir string) (*spillFile, error) // replaced by tests that need a bad disk

	mu     sync.Mutex
	spare  []*spillFile // the last one used last
	bytes  int64        // of all spare files
	unused int          // the least number of spare files since the timer was set
	timed  bool         // the timer is set
}

// take returns a file to write from its first byte on. What it holds is another body's.
func (f *files) take() (*spillFile, error) {
	f.mu.Lock()
	if last := len(f.spare) - 1; last >= 0 {
		defer f.mu.Unlock()
		file := f.spare[last]
		f.spare[last] = nil
		f.spare = f.spare[:last]
		f.bytes -= file.length
		f.unused = min(f.unused, last)
		return file, nil
	}
	f.mu.Unlock()
	return f.create(f.dir)
}

// give takes a file back. One that must not be used again, or that others could find by its name, is removed.
func (f *files) give(file *spillFile, again bool) {
	if !again || file.named || file.length == 0 || !f.keep(file) {
		_ = file.discard() // nothing is left to lose, and nobody to tell
	}
}

// keep makes a file a spare one and reports false if there are enough.
func (f *files) keep(file *spillFile) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.spare) == spareFiles || f.bytes+file.length > spareBytes {
		return false
	}
	f.spare = append(f.spare, file)
	f.bytes += file.length
	f.watch()
	return true
}

// watch sets the timer that removes what nobody has used for a while. The lock is held.
func (f *files) watch() {
	if f.timed || len(f.spare) == 0 {
		return
	}
	f.timed, f.unused = true, len(f.spare)
	time.AfterFunc(spareTime, func() {
		f.mu.Lock()
		f.timed = false
		gone := f.remove(f.unused)
		f.watch()
		f.mu.Unlock()
		discardAll(gone)
	})
}

// remove takes out the n spare files that were used least lately. The lock is held.
func (f *files) remove(n int) []*spillFile {
	gone := slices.Clone(f.spare[:n])
	f.spare = slices.Delete(f.spare, 0, n)
	for _, file := range gone {
		f.bytes -= file.length
	}
	return gone
}

// discardAll removes files, which can take a while, so that no lock is held.
func discardAll(gone []*spillFile) {
	for _, file := range gone {
		_ = file.discard() // as in give
	}
}

// write puts all of p into a file. On a full disk the spare files make room for it.
func (f *files) write(file *spillFile, p []byte, off int64) error {
	n, err := file.WriteAt(p, off)
	if err != nil && f.empty() {
		var more int
		more, err = file.WriteAt(p[n:], off+int64(n))
		n += more
	}
	file.length = max(file.length, off+int64(n))
	return err
}

// empty removes all spare files and reports whether there were any.
func (f *files) empty() bool {
	f.mu.Lock()
	gone := f.remove(len(f.spare))
	f.unused = 0
	f.mu.Unlock()
	discardAll(gone)
	return len(gone) > 0
}
