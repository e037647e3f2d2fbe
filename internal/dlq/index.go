package dlq

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"path/filepath"
	"sync"
	"time"
)

// keyOf names the request that a letter is about; letters with an equal key
// are merged. It is zero for a letter without a fingerprint, which never is.
func keyOf(e *Envelope) (key hashKey) {
	if e.RequestFingerprint == "" {
		return key
	}
	h := sha256.New()
	parts := []string{e.Provider, e.RequestFingerprint, e.DocumentID, e.IdempotencyKey}
	if e.Tenant != "" {
		parts = append(parts, e.Tenant)
	}
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:]) // The length keeps ("ab", "c") apart from ("a", "bc").
		h.Write([]byte(part))
	}
	h.Sum(key[:0])
	return key
}

// index knows the open letters without a look at their files: in memory what
// the store itself asks for, in its log what readers want to know. The folder
// of open letters is the truth; reconcile.go brings the index in line with it.
type index struct {
	open string // The folder of open letters.
	log  *indexLog

	// known is closed when the index holds what an earlier process left: a request it does not name is then a new one.
	known     chan struct{}
	knownOnce sync.Once
	enough    chan struct{} // Closed when nobody is to wait for known any longer.

	mu    sync.Mutex // Taken after log.mu, and never held during disk work.
	table table
	round uint8
	// behind is set when the log lacks something that the table has.
	behind bool
}

// newIndex makes an empty index, which tells waiting of every letter that comes or goes.
func newIndex(dir string, waiting *waitingCalls) *index {
	return &index{
		table: table{waiting: waiting},
		open:  filepath.Join(dir, StatusOpen), log: &indexLog{folder: filepath.Join(dir, indexFolder)},
		known: make(chan struct{}), enough: make(chan struct{}), round: 1,
	}
}

// add notes a letter that was written, raised or put back, after its file is in its place.
func (x *index) add(e *Envelope) {
	id, ok := parseUID(e.ID)
	if !ok {
		return
	}
	f := factsOf(id, e)
	f.stamp = stampAt(filepath.Join(x.open, fileName(e.ID)))
	x.log.mu.Lock()
	defer x.log.mu.Unlock()
	x.write(&f)
}

// write puts facts into log and table. The caller holds log.mu.
func (x *index) write(f *facts) {
	err := x.log.append(func(c *encoder) error { return c.letter(f) })
	if err != nil {
		f.stamp = 0 // As if the file had changed since: the next comparison with the folder notes it again.
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.behind = x.behind || err != nil && !errors.Is(err, errTooLong)
	x.table.put(f, x.round)
}

// remove notes that a letter is no longer open.
func (x *index) remove(id string) {
	if u, ok := parseUID(id); ok {
		x.removeWhere(u, func(*entry) bool { return true })
	}
}

func (x *index) removeWhere(id uid, is func(*entry) bool) {
	x.log.mu.Lock()
	defer x.log.mu.Unlock()
	x.mu.Lock()
	e := x.table.get(id)
	gone := e != nil && is(e)
	if gone {
		x.table.drop(id)
	}
	x.mu.Unlock()
	if gone {
		// A letter that is gone is not found in its folder, whatever the log says of it.
		_ = x.log.append(func(c *encoder) error { c.gone(id); return nil })
	}
}

// find gives the open letters that seem to be about the same request: their
// keys begin alike. Usually there is one at most.
func (x *index) find(key hashKey) []uid {
	if key == (hashKey{}) {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.find(short(key))
}

// patience is how long after its start a store lets the first letters wait for
// the index. A repeat that comes later, while the index is still being read,
// gets a letter of its own: better two letters than a worker that waits.
const patience = 3 * time.Second

// await waits, for a short while after the start, until the index can tell a
// repeat from a new request.
func (x *index) await(ctx context.Context, key hashKey) error {
	if key == (hashKey{}) || len(x.find(key)) > 0 {
		return nil
	}
	select {
	case <-x.known:
		return nil
	case <-x.enough:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// count is the number of open letters.
func (x *index) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.len()
}

// counts gives the open letters by series and the time of the oldest, zero when there is none.
func (x *index) counts() (open map[series]int, oldest time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	open = make(map[series]int, len(x.table.series))
	for i, s := range x.table.series {
		open[s] = x.table.counts[i]
	}
	return open, x.table.since()
}

// places tells where compaction keeps what it learns of each letter.
func (x *index) places() (n int, of func(id uid) (uint32, bool)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return int(x.table.made), func(id uid) (uint32, bool) {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.table.place(id)
	}
}
