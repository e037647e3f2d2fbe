package dlq

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"go.uber.org/zap"
)

const (
	// racy is how old a folder's change must be before an equal time proves that
	// nothing happened since: file systems keep time in coarse steps.
	racy = 2 * time.Second
	// startWait is how long Open waits for the first comparison with the folder,
	// and scrapeWait how long the metrics do for a later one. A store that needs longer is ready, and is told of, before it is done.
	startWait  = time.Second
	scrapeWait = 2 * time.Second
	// manyLetters are not listed again at once.
	manyLetters = 10_000
)

// start reads the index and compares it with the folder, in the background of a big store.
func (s *Store) start() {
	enough := time.AfterFunc(patience, func() { close(s.index.enough) })
	s.background.run(startWait, func(ctx context.Context) {
		defer enough.Stop()
		began := time.Now()
		size, segments, torn, err := s.index.load(ctx)
		whole := segments > 0 && !torn && err == nil
		if err != nil && ctx.Err() == nil {
			s.log.Warn("the index of dead letters cannot be read; it is made anew", zap.Error(err))
		}
		if size >= 0 {
			s.usage.estimate(size)
		}
		if whole {
			s.index.know()
		}
		if !s.compare(ctx, comparison{deep: true, tidy: true}) {
			return
		}
		s.index.know()
		s.usage.measure(ctx)
		s.compact(ctx, torn)
		if took := time.Since(began); took > startWait {
			debug.FreeOSMemory() // What a big store takes to be read is not needed again.
			s.log.Info("the open dead letters are counted", zap.Int("open", s.index.count()), zap.Duration("took", took), zap.Bool("index_was_whole", whole))
		}
	})
}

// compact rewrites the log of the index where that is worth it.
func (s *Store) compact(ctx context.Context, always bool) {
	err := s.index.compact(s.usage.bytes(), always)
	if err != nil && !errors.Is(err, errNothingToCompact) && ctx.Err() == nil {
		s.log.Warn("the index of dead letters cannot be compacted", zap.Error(err))
	}
}

// reconcile brings index and size in line with the disk, because people move
// and remove letters by hand. A folder that has not changed costs one stat.
func (s *Store) reconcile() {
	s.background.run(scrapeWait, func(ctx context.Context) {
		s.reconcileIndex(ctx)
		if s.stale.Load() && s.usage.refresh(ctx) {
			s.stale.Store(false)
		}
		s.compact(ctx, false)
	})
}

func (s *Store) reconcileIndex(ctx context.Context) {
	now := time.Now()
	if now.Before(s.listAgain) {
		return
	}
	if s.index.log.lost() {
		s.index.restart()
	}
	deep := s.index.catchUp()
	info, err := os.Stat(s.path(StatusOpen))
	if !deep && err == nil && info.ModTime().Equal(s.listed) && s.listedAt.Sub(s.listed) > racy && s.unread.Load() == 0 {
		return
	}
	_ = s.compare(ctx, comparison{deep: deep}) // One that is broken off is done again by the next scrape.
}

// comparison says how closely the index is compared with the folder.
type comparison struct {
	deep bool // Look at every file, which finds those that have changed too.
	tidy bool // Put into quarantine what cannot be read.
}

// compare brings the index in line with the folder of open letters. It tells
// whether it came to the end.
func (s *Store) compare(ctx context.Context, c comparison) bool {
	now := time.Now()
	var changed time.Time
	if info, err := os.Stat(s.path(StatusOpen)); err == nil {
		changed = info.ModTime()
	}
	s.index.beginRound()
	listed, err := newest(s.path(StatusOpen), nil, math.MaxInt)
	if err != nil && !folderMissing(err) {
		return false
	}
	var unread int64
	for _, name := range listed.odd {
		unread += s.look(name, uid{}, false, c)
	}
	for i, id := range slices.Backward(listed.ids) { // In order, so that the log gets to be so where it is made anew.
		if i%folderStep == 0 && ctx.Err() != nil {
			return false
		}
		unread += s.look("", id, true, c)
	}
	s.unread.Store(unread)
	for _, id := range s.index.unseen() {
		if ctx.Err() != nil {
			return false
		}
		if _, err := os.Lstat(s.path(StatusOpen, fileName(id.String()))); folderMissing(err) {
			s.index.removeUnseen(id)
			s.stale.Store(true)
		}
	}
	s.listed, s.listedAt = changed, now
	if end := time.Now(); len(listed.ids) > manyLetters {
		s.listAgain = end.Add(remeasureShare * end.Sub(now))
	}
	return true
}

// look takes a file of the folder into the index where it does not know it. It
// gives 1 for one that cannot be read now, which is then not in the index either.
func (s *Store) look(name string, id uid, named bool, c comparison) (unread int64) {
	var before uint32
	known := false
	if named {
		if before, known = s.index.see(id); known && !c.deep {
			return 0
		}
		name = fileName(id.String())
	}
	path := s.path(StatusOpen, name)
	there := stampAt(path) // Before it is read: a change in between is found the next time.
	if known && there == before {
		return 0
	}
	e, _, err := readEnvelope(path)
	if errors.Is(err, ErrUnread) {
		unread = 1
		s.index.removeStamped(id, before)
	}
	switch {
	case err == nil:
		f := factsOf(id, e)
		f.stamp = there
		if s.index.correct(&f, before, known) && !known {
			s.stale.Store(true)
		}
	case c.tidy:
		s.setAside(StatusOpen, name, err)
	}
	return unread
}
