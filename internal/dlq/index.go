package dlq

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
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
	for _, part := range []string{e.Provider, e.RequestFingerprint, e.DocumentID, e.IdempotencyKey} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:]) // The length keeps ("ab", "c") apart from ("a", "bc").
		h.Write([]byte(part))
	}
	h.Sum(key[:0])
	return key
}

// series is one line of the gauge of open letters.
type series struct{ provider, outcome string }

func seriesOf(e *Envelope) series {
	return series{strings.ToValidUTF8(e.Provider, "\uFFFD"), strings.ToValidUTF8(e.Outcome, "\uFFFD")}
}

// entry is what the store remembers of an open letter. Entries are replaced,
// never changed, so that equal pointers mean that nothing happened in between.
type entry struct {
	series series
	since  time.Time
	key    hashKey
	call   waitingCall
}

func newEntry(e *Envelope) *entry {
	return &entry{series: seriesOf(e), since: e.FirstAttemptAt, key: keyOf(e), call: callOf(e)}
}

// index knows every open letter without a look at the disk.
type index struct {
	mu    sync.Mutex
	open  map[string]*entry
	byKey map[hashKey][]string // Usually one; more after a claimed letter came back to a newer one.
	seen  map[series]struct{}  // Keeps a series at 0 instead of letting it vanish.

	waiting *waitingCalls // Told of every letter that comes or goes.
}

func newIndex(waiting *waitingCalls) *index {
	return &index{open: map[string]*entry{}, byKey: map[hashKey][]string{}, seen: map[series]struct{}{}, waiting: waiting}
}

func (x *index) add(e *Envelope) {
	n := newEntry(e)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(e.ID)
	x.put(e.ID, n)
}

// addIfAbsent adds a letter that was found on the disk, unless its writer has
// added it by now. It tells whether it did.
func (x *index) addIfAbsent(e *Envelope) bool {
	n := newEntry(e)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open[e.ID] != nil {
		return false
	}
	x.put(e.ID, n)
	return true
}

func (x *index) put(id string, n *entry) {
	x.open[id] = n
	x.seen[n.series] = struct{}{}
	if n.key != (hashKey{}) {
		x.byKey[n.key] = append(x.byKey[n.key], id)
		x.waiting.add(n.call, 1)
	}
}

func (x *index) remove(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(id)
}

// removeIf removes the letter unless it was written again since n was read.
func (x *index) removeIf(id string, n *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open[id] == n {
		x.drop(id)
	}
}

func (x *index) drop(id string) {
	n := x.open[id]
	if n == nil {
		return
	}
	delete(x.open, id)
	if n.key != (hashKey{}) {
		x.waiting.add(n.call, -1)
	}
	rest := slices.DeleteFunc(x.byKey[n.key], func(other string) bool { return other == id })
	if len(rest) == 0 {
		delete(x.byKey, n.key)
	} else {
		x.byKey[n.key] = rest
	}
}

// find gives the open letter about the same request.
func (x *index) find(key hashKey) (id string, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if ids := x.byKey[key]; len(ids) > 0 {
		return ids[0], true
	}
	return "", false
}

// keyFor gives the key of an open letter, zero when it has none.
func (x *index) keyFor(id string) hashKey {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := x.open[id]; n != nil {
		return n.key
	}
	return hashKey{}
}

// snapshot copies the open letters.
func (x *index) snapshot() map[string]*entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.open)
}

// counts gives the open letters by series and the time of the oldest, zero when there is none.
func (x *index) counts() (open map[series]int, oldest time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	open = make(map[series]int, len(x.seen))
	for s := range x.seen {
		open[s] = 0
	}
	for _, n := range x.open {
		open[n.series]++
		if oldest.IsZero() || n.since.Before(oldest) {
			oldest = n.since
		}
	}
	return open, oldest
}
