package dlq

import (
	"context"
	"path/filepath"
	"sync"
	"time"
)

const (
	// remeasureAfter is the least time between two walks over a full store.
	remeasureAfter = 5 * time.Second
	// remeasureShare keeps the walks over a big store to this part of the time.
	remeasureShare = 20
	// fullWait is how long a writer waits for such a walk.
	fullWait = 2 * time.Second
)

// usage counts the bytes of the store. Bytes are reserved before they are
// written, so that writers together never pass the limit.
type usage struct {
	dir        string
	background *errand

	mu       sync.Mutex
	limit    int64 // 0: no limit.
	stored   int64 // In files that are in their place.
	reserved int64 // Promised to writes under way.
	told     bool  // Stored is at least an estimate.
	measured bool

	next time.Time // No walk before.
}

// reserve asks for n bytes. A full store is measured again from time to time,
// because people make room by deleting files.
func (u *usage) reserve(n int64) bool {
	if u.tryReserve(n) {
		return true
	}
	if !u.isDue() {
		return false
	}
	u.background.run(fullWait, func(ctx context.Context) { u.refresh(ctx) })
	return u.tryReserve(n)
}

// most is the limit in bytes; 0: there is none.
func (u *usage) most() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.limit
}

// isDue tells whether another walk is worth it. The first one is part of the start, and nobody waits for that.
func (u *usage) isDue() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.measured && !time.Now().Before(u.next)
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

// pending is the number of bytes that are promised to writes under way.
func (u *usage) pending() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.reserved
}

func (u *usage) bytes() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return max(u.stored, 0)
}

// isTold tells whether bytes says something yet.
func (u *usage) isTold() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.told
}

// estimate is the size that an earlier process has left, until it is measured.
func (u *usage) estimate(n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.told {
		u.stored += n
		u.told = true
	}
}

// refresh measures unless that was done just now. It tells whether it did.
func (u *usage) refresh(ctx context.Context) bool {
	return u.isDue() && u.measure(ctx)
}

// doubt makes the next refresh measure.
func (u *usage) doubt() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.next = time.Time{}
}

// measure replaces the count by what lies on the disk. It runs in the
// background, and tells whether it came to the end.
func (u *usage) measure(ctx context.Context) bool {
	u.mu.Lock()
	before := u.stored
	u.mu.Unlock()

	start := time.Now()
	found, err := u.walk(ctx)
	end := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.next = end.Add(max(remeasureAfter, remeasureShare*end.Sub(start)))
	if err != nil {
		return false
	}
	// What was written during the walk may not have been seen by it. Counting
	// it twice is corrected by the next walk; missing it could pass the limit.
	u.stored = found + max(u.stored-before, 0)
	u.told, u.measured = true, true
	return true
}

func (u *usage) walk(ctx context.Context) (found int64, err error) {
	for _, folder := range measured() {
		below, err := bytesBelow(ctx, filepath.Join(u.dir, folder))
		if err != nil {
			return 0, err
		}
		found += below
	}
	return found, nil
}
