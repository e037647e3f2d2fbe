package sim

import "sync"

// ledgerSize is how many entries a ledger keeps.
const ledgerSize = 10_000

// ledger is a map that forgets its oldest entries, so that a simulator may run for days.
type ledger[V any] struct {
	mu      sync.Mutex
	entries map[string]V
	order   []string // A ring of the keys, oldest at next once it is full.
	next    int
}

func newLedger[V any]() *ledger[V] {
	return &ledger[V]{entries: map[string]V{}}
}

// claim stores v under a key that is free and returns what stands there now, and whether it was free.
func (l *ledger[V]) claim(key string, v V) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.entries[key]; ok {
		return old, false
	}
	if len(l.order) < ledgerSize {
		l.order = append(l.order, key)
	} else {
		delete(l.entries, l.order[l.next])
		l.order[l.next] = key
		l.next = (l.next + 1) % ledgerSize
	}
	l.entries[key] = v
	return v, true
}

// put stores v under a key that was never used.
func (l *ledger[V]) put(key string, v V) { l.claim(key, v) }

func (l *ledger[V]) get(key string) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.entries[key]
	return v, ok
}

// blank replaces the value of a key that exists and reports whether it did.
func (l *ledger[V]) blank(key string, v V) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.entries[key]; !ok {
		return false
	}
	l.entries[key] = v
	return true
}
