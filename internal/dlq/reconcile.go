package dlq

import (
	"errors"
	"os"
	"time"
)

// racy is how old a folder's change must be before an equal time proves that
// nothing happened since: file systems keep time in coarse steps.
const racy = 2 * time.Second

// reconcile brings index and size in line with the disk, because people move
// and remove letters by hand. A folder that has not changed costs one stat.
func (s *Store) reconcile() {
	if !s.reconciling.TryLock() {
		return // Somebody is at it.
	}
	defer s.reconciling.Unlock()
	s.reconcileIndex()
	if s.stale {
		s.stale = !s.usage.refresh()
	}
}

func (s *Store) reconcileIndex() {
	now := time.Now()
	var changed time.Time
	if info, err := os.Stat(s.path(StatusOpen)); err == nil {
		changed = info.ModTime()
		if changed.Equal(s.listed) && s.listedAt.Sub(changed) > racy && s.unread.Load() == 0 {
			return
		}
	}
	missing := s.index.snapshot() // Before the listing, so that whatever is in it must be listed.
	names, err := letterNames(s.path(StatusOpen))
	if err != nil && !folderMissing(err) {
		return // The next scrape tries again.
	}
	var unread int64
	for _, name := range names {
		id, _ := letterID(name)
		if _, known := missing[id]; known {
			delete(missing, id)
			continue
		}
		e, _, err := readEnvelope(s.path(StatusOpen, name))
		switch {
		case err == nil && s.index.addIfAbsent(e):
			s.stale = true
		case errors.Is(err, ErrUnread):
			unread++
		}
	}
	s.unread.Store(unread)
	for id, n := range missing {
		if _, err := os.Lstat(s.path(StatusOpen, fileName(id))); folderMissing(err) {
			s.index.removeIf(id, n)
			s.stale = true
		}
	}
	s.listed, s.listedAt = changed, now
}
