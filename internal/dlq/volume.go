package dlq

import (
	"errors"
	"os"
	"sync/atomic"
	"time"
)

const (
	// crowd is how many writers must be at work before syncing the whole volume costs less than each syncing its own files.
	crowd = 8
	// maxForeign is how many unwritten bytes of others a sync of the volume may find: it writes and waits for them, too.
	maxForeign = 64 << 20
	// lookEvery is the least time between two looks at what is unwritten.
	lookEvery = 10 * time.Millisecond
	// slowSync is how long a sync of the volume may take before it is given up for a while.
	slowSync = 200 * time.Millisecond
	// rest is for how long writers sync their own files where the volume would take longer.
	rest = 500 * time.Millisecond
)

// volume is the file system that the store lies on. One sync of it makes the
// files and names of all writers at once durable, where that can be relied on.
type volume struct {
	tmp    string       // A folder of the store.
	root   *os.File     // Nil: not to be synced as a whole. It stays open, since errors are told to those who were there before them.
	own    func() int64 // How many bytes of the store may be unwritten.
	shared *groupCommit
	faults atomic.Int64 // Syncs that failed.
	looks  atomic.Int64 // When to look next at what is unwritten, in Unix nanoseconds.
	rests  atomic.Int64 // Until when the volume is not synced as a whole, in Unix nanoseconds.
}

// newVolume looks at the file system that holds the folder.
func newVolume(dir, tmp string, own func() int64) *volume {
	v := &volume{tmp: tmp, root: openVolume(dir), own: own}
	v.shared = newGroupCommit(func(string) error { return v.syncNow(syncVolume) })
	return v
}

var (
	errNoVolume = errors.New("the file system is not synced as a whole")
	errMoved    = errors.New("the folder lies on another file system than before")
)

// sync returns without an error when all that was written and named on the
// volume before the call is durable, if there has been no fault since it was
// written: a fault is told once, perhaps to somebody else. After an error
// nothing is known, and whoever needs to know syncs what is its own.
func (v *volume) sync() error {
	if v.root == nil || v.resting() {
		return errNoVolume
	}
	return v.shared.commit(v.tmp)
}

// resting tells whether a sync would have to wait for much that others have written.
func (v *volume) resting() bool {
	now := time.Now()
	if next := v.looks.Load(); now.UnixNano() >= next && v.looks.CompareAndSwap(next, now.Add(lookEvery).UnixNano()) {
		if unwritten, ok := unwrittenBytes(); !ok || unwritten-v.own() > maxForeign {
			v.rests.Store(now.Add(rest).UnixNano())
		}
	}
	return now.UnixNano() < v.rests.Load()
}

func (v *volume) syncNow(sync func(*os.File) error) error {
	err := v.moved()
	if err == nil {
		began := time.Now()
		err = sync(v.root)
		if took := time.Since(began); took > slowSync {
			v.rests.Store(time.Now().Add(rest).UnixNano())
		}
	}
	if err != nil {
		v.faults.Add(1)
	}
	return err
}

// moved fails when the store has come to lie on another volume.
func (v *volume) moved() error {
	was, err := v.root.Stat()
	if err != nil {
		return err
	}
	is, err := os.Stat(v.tmp)
	if err != nil {
		return err
	}
	if !sameVolume(was, is) {
		return errMoved
	}
	return nil
}

func (v *volume) close() error {
	if v.root == nil {
		return nil
	}
	return v.root.Close()
}
