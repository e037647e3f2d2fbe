package credential

import (
	"context"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// lookEvery is how soon a change of a file is noticed.
	lookEvery = time.Second
	// renewEvery is the least time between two renewals that a refusal asked for: a provider that refuses whatever it is sent must not turn every
	// request into one to the identity service.
	renewEvery = 5 * time.Second
)

// kept is a value that is loaded from files and loaded again when they change. What cannot be loaded is logged once and leaves the old value.
type kept[T any] struct {
	load  func(ctx context.Context) (T, error) // its error is free of secrets, and what comes with one is not used
	paths []string
	log   *zap.Logger // nil: none

	value atomic.Pointer[T] // a new address for each load, by which values are told apart

	// mu is held while the value is loaded. Nobody waits for it but those whose credential was just refused.
	mu      sync.Mutex
	looked  time.Time     // when the files were last looked at
	renewed time.Time     // when a refusal last made it load
	seen    []os.FileInfo // as they were before the last good load; nil elements are not there
	told    string        // the problem that was logged last
}

// open loads the first value.
func (k *kept[T]) open(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looked = time.Now()
	return k.reload(ctx, k.stat())
}

// get is the value. At most once a second somebody who asks for it looks at the files first; the others do not wait for that.
func (k *kept[T]) get(ctx context.Context) *T {
	if k.mu.TryLock() {
		if time.Since(k.looked) >= lookEvery {
			k.look(ctx)
		}
		k.mu.Unlock()
	}
	return k.value.Load()
}

// renew is the value after one was refused: loaded again even if no file has changed, unless that was done since the refused one was current
// or only a moment ago.
func (k *kept[T]) renew(ctx context.Context, refused *T) *T {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look(ctx)
	if v := k.value.Load(); v != refused || time.Since(k.renewed) < renewEvery {
		return v
	}
	k.renewed = time.Now()
	k.complain(k.reload(ctx, k.stat()))
	return k.value.Load()
}

// look loads the value if a file has changed.
func (k *kept[T]) look(ctx context.Context) {
	k.looked = time.Now()
	if now := k.stat(); !slices.EqualFunc(now, k.seen, sameFile) {
		k.complain(k.reload(ctx, now))
	}
}

// reload loads the value. Files that gave none are looked at again, since a permission can be given without a trace in them.
func (k *kept[T]) reload(ctx context.Context, files []os.FileInfo) error {
	v, err := k.load(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	k.value.Store(&v)
	k.seen = files
	return nil
}

// complain logs a problem when it is a new one.
func (k *kept[T]) complain(err error) {
	if err == nil {
		k.told = ""
		return
	}
	if k.told == err.Error() {
		return
	}
	k.told = err.Error()
	if k.log != nil {
		k.log.Warn("a credential changed and its new content cannot be used; the old one stays", zap.Error(err))
	}
}

func (k *kept[T]) stat() []os.FileInfo {
	all := make([]os.FileInfo, len(k.paths))
	for i, path := range k.paths {
		all[i], _ = os.Stat(path) // what cannot be looked at is told by whoever loads it
	}
	return all
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
