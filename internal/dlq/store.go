package dlq

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

const (
	// maxWriters bounds the writes under way. In a storm most of them wait for
	// a sync that they share; each has two files open meanwhile.
	maxWriters = 256
	// maxSyncing bounds the syncs under way: each holds an operating system thread.
	maxSyncing = 64
)

// copyBufferBytes is the size of the pooled buffers through which payloads go.
const copyBufferBytes = 128 << 10

// Options tell [Open] how to keep dead letters. The zero value keeps no
// payloads, has no limit, logs nothing and registers no metrics.
type Options struct {
	// MaxBytes limits the size of the store in bytes; 0 means no limit.
	MaxBytes int64
	// KeepPayloads stores request bodies; without it only their hash and length are kept.
	KeepPayloads bool
	// Logger is told what Open and a damaged folder require of people; nil means nobody is.
	Logger *zap.Logger
	// Registerer receives the metrics of dead letters; nil means there are none.
	Registerer prometheus.Registerer
	// Observer is told what becomes of letters; nil means nobody is.
	Observer Observer
}

// Store is a folder of dead letters that this process alone writes to. Its
// methods may be called by any number of goroutines. A failed write leaves no
// mark on it: the next one is tried as if nothing had happened.
type Store struct {
	dir          string
	keepPayloads atomic.Bool
	log          *zap.Logger
	metrics      *metrics
	observer     Observer
	settled      []*Envelope // Resolved by Open and not announced; only before the store is in use.

	index    *index
	waiting  *waitingCalls
	jobs     *jobIndex
	salt     salt
	usage    *usage
	folders  *groupCommit
	volume   *volume
	syncing  chan struct{} // One element per thread in a sync of a file or folder.
	requests *keyLocks     // One writer per request, so that equal letters merge.
	contents *keyLocks     // One writer per payload, so that it is stored and counted once.
	buffers  sync.Pool
	shards   sync.Map      // Payload folders whose own names are durable.
	writers  chan struct{} // One element per write under way.
	sweeper  *time.Timer   // Removes jobs that have expired.
	pruning  pruneGuard

	// repairing is held while folders are made again, which is disk work on
	// purpose: whoever waits for it has no folder to write to.
	repairing sync.Mutex
	lock      *os.File // Guarded by repairing.
	closed    bool     // Set while every writer's place is taken; read by holders of one.

	unread     atomic.Int64 // Open letters that could not be read at the last look. The next looks again.
	background *errand      // Compares index and size with the disk; the three below are its own.
	listed     time.Time    // When the open folder had last changed as of listedAt.
	listedAt   time.Time
	listAgain  time.Time   // A long listing is not done again before.
	stale      atomic.Bool // Letters came or went by other hands since the size was measured.
}

// Open makes the store in dir ready for this process: it creates what is
// missing, locks the folder, puts letters that a dead process had claimed back
// to open and empties tmp. It fails when the folder cannot be used or another process holds it.
//
// Then it reads the index, compares it with the open letters, moves unreadable
// ones to quarantine (those that the disk does not give now stay, are named in
// the log and counted) and measures the size. Where that takes longer than a
// second it goes on in the background: until it is done the gauges are absent,
// the limit holds for what the last process has measured, and a repeat of a
// request whose letter is not known yet gets a letter of its own.
func Open(dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("dead-letter folder: %w", err)
	}
	if _, err := makeLayout(dir); err != nil {
		return nil, fmt.Errorf("create dead-letter folder %s: %w", dir, err)
	}
	lock, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	waiting, background := newWaitingCalls(), newErrand()
	s := &Store{
		dir:        dir,
		log:        o.Logger,
		observer:   o.Observer,
		index:      newIndex(dir, waiting),
		waiting:    waiting,
		jobs:       newJobIndex(),
		usage:      &usage{dir: dir, limit: o.MaxBytes, background: background},
		background: background,
		syncing:    make(chan struct{}, maxSyncing),
		requests:   newKeyLocks(),
		contents:   newKeyLocks(),
		buffers:    sync.Pool{New: func() any { return new([copyBufferBytes]byte) }},
		writers:    make(chan struct{}, maxWriters),
		lock:       lock,
	}
	s.keepPayloads.Store(o.KeepPayloads)
	s.folders = newGroupCommit(s.syncFolder)
	s.volume = newVolume(dir, s.path(tmpFolder), s.usage.pending)
	if s.log == nil {
		s.log = zap.NewNop()
	}
	if s.observer == nil {
		s.observer = nobody{}
	}
	if err = s.recover(); err == nil {
		s.start()
		s.metrics, err = newMetrics(s, o.Registerer)
	}
	if err != nil {
		background.close()
		return nil, errors.Join(err, lock.Close(), s.volume.close())
	}
	s.sweeper = time.AfterFunc(math.MaxInt64, s.keepSweeping)
	s.sweeper.Reset(sweepEvery) // only now: it sets itself again
	return s, nil
}

// Close waits for the writes under way, gives the lock back and withdraws the
// metrics. Later calls of Put and Claim fail with [fs.ErrClosed]; letters that
// are still claimed come back to open at the next Open.
func (s *Store) Close() error {
	for range maxWriters {
		s.writers <- struct{}{}
	}
	already := s.closed
	s.sweeper.Stop()
	s.closed = true
	for range maxWriters {
		<-s.writers
	}
	if already {
		return nil
	}
	s.metrics.unregister()
	s.background.close()
	s.index.log.close(s.usage.bytes(), s.usage.isTold())
	s.repairing.Lock()
	defer s.repairing.Unlock()
	return errors.Join(s.lock.Close(), s.volume.close())
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// recover undoes what a dead process left half done.
func (s *Store) recover() error {
	if err := s.emptyTmp(); err != nil {
		return fmt.Errorf("empty the folder of unfinished dead letters: %w", err)
	}
	if err := s.reopenClaimed(); err != nil {
		return fmt.Errorf("reopen claimed dead letters: %w", err)
	}
	if err := s.index.log.begin(); err != nil {
		return fmt.Errorf("look for the index of dead letters: %w", err)
	}
	if err := s.loadJobs(); err != nil {
		return fmt.Errorf("read the journal of jobs: %w", err)
	}
	return nil
}

func (s *Store) emptyTmp() error {
	left, err := os.ReadDir(s.path(tmpFolder))
	if err != nil {
		return err
	}
	for _, f := range left {
		if err := os.RemoveAll(s.path(tmpFolder, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

// reopenClaimed ends what a dead replayer had in its hands. Only this
// process may claim, and it has only just begun.
func (s *Store) reopenClaimed() error {
	names, err := letterNames(s.path(StatusClaimed))
	if err != nil || len(names) == 0 {
		return err
	}
	for _, name := range names {
		if s.exists(name, StatusOpen, StatusResolved, StatusDiscarded) {
			s.setAside(StatusClaimed, name, errors.New("the letter exists in another folder too"))
			continue
		}
		if err := s.settleInterrupted(name); err != nil {
			return err
		}
	}
	return errors.Join(syncFolder(s.path(StatusOpen)), syncFolder(s.path(StatusResolved)), syncFolder(s.path(StatusClaimed)))
}

// exists tells whether a file of that name lies in one of the folders.
func (s *Store) exists(name string, in ...string) bool {
	return slices.ContainsFunc(in, func(status string) bool {
		_, err := os.Lstat(s.path(status, name))
		return err == nil
	})
}

// setAside does so and says so. A letter that cannot even be moved stays where
// it is and is passed over by every reader.
func (s *Store) setAside(folder, name string, reason error) {
	from := zap.String("file", s.path(folder, name))
	to, err := setAside(s.dir, folder, name, reason)
	switch {
	case errors.Is(err, ErrUnread):
		s.log.Error("a file among the dead letters cannot be read now; it stays where it is", from, zap.Error(err))
	case err != nil:
		s.log.Error("unreadable dead letter cannot be moved to quarantine", from, zap.NamedError("reason", reason), zap.Error(err))
	case to != "":
		s.log.Error("unreadable dead letter moved to quarantine", from, zap.String("to", to), zap.NamedError("reason", reason))
	}
}

// letterNames lists the files named like letters, oldest first where ids are UUIDv7.
func letterNames(folder string) ([]string, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		if _, ok := letterID(f.Name()); ok {
			names = append(names, f.Name())
		}
	}
	return names, nil
}

// repair makes missing folders again, so that a store that was removed or
// unmounted works again as soon as the disk lets it.
func (s *Store) repair() error {
	s.repairing.Lock()
	defer s.repairing.Unlock()
	created, err := makeLayout(s.dir)
	if err != nil {
		return fmt.Errorf("create dead-letter folder %s again: %w", s.dir, err)
	}
	if s.lock, err = renewLock(s.dir, s.lock); err != nil {
		return err
	}
	s.shards.Clear()
	if created {
		s.log.Warn("dead-letter folders were missing and were created again", zap.String("dir", s.dir))
		s.usage.doubt()
		s.stale.Store(true)
	}
	return nil
}
