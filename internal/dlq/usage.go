package dlq

import (
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

const (
	// remeasureAfter is the least time between two walks over a full store.
	remeasureAfter = 5 * time.Second
	// remeasureShare keeps the walks over a big store to this part of the time.
	remeasureShare = 20
)

// usage counts the bytes of the store. Bytes are reserved before they are
// written, so that writers together never pass the limit.
type usage struct {
	dir   string
	limit int64 // 0: no limit.

	mu       sync.Mutex
	stored   int64 // In files that are in their place.
	reserved int64 // Promised to writes under way.

	walking sync.Mutex // Held during a walk on purpose: who waits for it finds the store full.
	next    time.Time  // No walk before; guarded by walking.
}

// reserve asks for n bytes. A full store is measured again from time to time,
// because people make room by deleting files.
func (u *usage) reserve(n int64) bool {
	if u.tryReserve(n) {
		return true
	}
	u.walking.Lock()
	defer u.walking.Unlock()
	if u.tryReserve(n) {
		return true
	}
	if time.Now().Before(u.next) {
		return false
	}
	u.walk()
	return u.tryReserve(n)
}

func (u *usage) tryReserve(n int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.limit > 0 && n > 0 && u.stored+u.reserved+n > u.limit {
		return false
	}
	u.reserved += n
	return true
}

// promise reserves bytes whatever the limit.
func (u *usage) promise(n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reserved += n
}

// release gives reserved bytes back unwritten.
func (u *usage) release(n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reserved -= n
}

// commit turns reserved bytes into stored ones.
func (u *usage) commit(n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reserved -= n
	u.stored += n
}

// grow counts bytes that come, or go when n is negative, whatever the limit.
func (u *usage) grow(n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stored += n
}

func (u *usage) bytes() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(u.stored, 0)
}

// measure replaces the count by what lies on the disk.
func (u *usage) measure() {
	u.walking.Lock()
	defer u.walking.Unlock()
	u.walk()
}

// refresh measures unless that was done just now. It tells whether it did.
func (u *usage) refresh() bool {
	u.walking.Lock()
	defer u.walking.Unlock()
	if time.Now().Before(u.next) {
		return false
	}
	u.walk()
	return true
}

func (u *usage) walk() {
	u.mu.Lock()
	before := u.stored
	u.mu.Unlock()

	start := time.Now()
	var found int64
	for _, folder := range measured() {
		found += folderBytes(filepath.Join(u.dir, folder))
	}
	end := time.Now()
	u.next = end.Add(max(remeasureAfter, remeasureShare*end.Sub(start)))

	u.mu.Lock()
	defer u.mu.Unlock()
	// What was written during the walk may not have been seen by it. Counting
	// it twice is corrected by the next walk; missing it could pass the limit.
	u.stored = found + max(u.stored-before, 0)
}

// folderBytes adds up the files below path; what vanishes meanwhile counts nothing.
func folderBytes(path string) (sum int64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // An unreadable part of the store is no reason to count nothing.
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
