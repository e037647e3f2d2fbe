package dlq

import (
	"context"
	"crypto/sha256"
	"sync"
)

// hashKey names what must not be done twice at a time: a request or a content.
// The zero key stands for nothing and is never locked.
type hashKey [sha256.Size]byte

// keyLocks is one mutex per key that is in use, so that writers wait for
// nobody but those who write the same.
type keyLocks struct {
	mu   sync.Mutex
	held map[hashKey]*keyLock
}

type keyLock struct {
	token chan struct{} // Holds one element while the lock is taken.
	users int           // Holder and waiters; the last one out removes the lock.
}

func newKeyLocks() *keyLocks { return &keyLocks{held: map[hashKey]*keyLock{}} }

// lock waits for the key. The caller calls unlock exactly once when err is nil.
func (k *keyLocks) lock(ctx context.Context, key hashKey) (unlock func(), err error) {
	if key == (hashKey{}) {
		return func() {}, nil
	}
	k.mu.Lock()
	l := k.held[key]
	if l == nil {
		l = &keyLock{token: make(chan struct{}, 1)}
		k.held[key] = l
	}
	l.users++
	k.mu.Unlock()

	select {
	case l.token <- struct{}{}:
		return func() { <-l.token; k.leave(key, l) }, nil
	case <-ctx.Done():
		k.leave(key, l)
		return nil, context.Cause(ctx)
	}
}

func (k *keyLocks) leave(key hashKey, l *keyLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.held, key)
	}
}
