package dlq

import (
	"context"
	"errors"
	"hash/maphash"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
)

// anySize stands for the body of a letter that is not known to have the size
// that the same request has when it comes again.
const anySize = -1

// isFormCarrier tells whether a credential was cut out of the body, by its name in an envelope.
func isFormCarrier(name string) bool { return strings.HasPrefix(name, "form:") }

// waitingCalls counts the open letters of every account by what a letter and a
// good answer to the same request have in common that costs nothing to know:
// the operation and the size of the body. It stands apart from the index and
// its lock, because good answers look here.
type waitingCalls struct {
	seed     maphash.Seed
	mu       sync.Mutex
	accounts map[string]*accountCalls
}

// accountCalls are the letters of one account.
type accountCalls struct {
	letters atomic.Int64
	mu      sync.RWMutex
	calls   map[uint32]int32
}

func newWaitingCalls() *waitingCalls {
	return &waitingCalls{seed: maphash.MakeSeed(), accounts: map[string]*accountCalls{}}
}

// number stands for an operation and a size in bytes, or anySize. Two that have the same cost a look at a letter.
func (w *waitingCalls) number(operation string, size int64) uint32 {
	return uint32(maphash.Comparable(w.seed, struct { //nolint:gosec // Cut on purpose: a million letters have as many.
		operation string
		size      int64
	}{operation, size}))
}

func (w *waitingCalls) of(account string) *accountCalls {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.accounts[account]
	if a == nil {
		a = &accountCalls{calls: map[uint32]int32{}}
		w.accounts[account] = a
	}
	return a
}

func (w *waitingCalls) add(account string, call uint32, n int32) {
	a := w.of(account)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls[call] += n; a.calls[call] == 0 {
		delete(a.calls, call)
	}
	a.letters.Add(int64(n))
}

// OpenLetters are the open letters of one account, for whoever has good news
// about a request. Nil stands for an account that has none.
type OpenLetters struct {
	store   *Store
	account string
	calls   *accountCalls
}

// OpenLetters gives the open letters of an account.
func (s *Store) OpenLetters(account string) *OpenLetters {
	return &OpenLetters{store: s, account: account, calls: s.waiting.of(account)}
}

// May tells whether a letter could be about a request for that operation with a
// body of size bytes. False is certain; it costs one atomic read when the
// account has no open letter. While the letters that an earlier process left
// are not known, any of them could.
func (o *OpenLetters) May(operation string, size int64) bool {
	if o == nil {
		return false
	}
	if !o.store.index.isKnown() {
		return true
	}
	if o.calls.letters.Load() == 0 {
		return false
	}
	o.calls.mu.RLock()
	defer o.calls.mu.RUnlock()
	w := o.store.waiting
	return o.calls.calls[w.number(operation, size)] > 0 || o.calls.calls[w.number(operation, anySize)] > 0
}

// Done names the request that has succeeded, by what a letter about it says.
type Done struct {
	RequestFingerprint, DocumentID, IdempotencyKey, Tenant string
	// Started says that a job has been started and nothing been read: a letter about an earlier job that failed waits for the end of this one.
	Started bool
	// Class is the failure class of the letters that are resolved; "": any.
	Class string
}

// Resolve resolves the letters about one request, which are those that a new
// failure of it would raise, and gives their ids. One that somebody has claimed
// is left to him. Right after the start it waits for the index, as Put does.
func (o *OpenLetters) Resolve(ctx context.Context, d Done, r Resolution) (ids []string, err error) {
	if o == nil {
		return nil, nil
	}
	key := keyOf(&Envelope{Provider: o.account, RequestFingerprint: d.RequestFingerprint, DocumentID: d.DocumentID, IdempotencyKey: d.IdempotencyKey, Tenant: d.Tenant})
	if key == (hashKey{}) {
		return nil, nil
	}
	if err := o.store.index.await(ctx, key); err != nil {
		return nil, err
	}
	for _, found := range o.store.index.find(key) {
		id := found.String()
		if ctx.Err() != nil {
			return ids, context.Cause(ctx)
		}
		if !o.store.isAbout(id, key, d) {
			continue // It is gone, or has another key that begins alike.
		}
		c, err := o.store.Claim(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // It was moved by hand, or somebody claimed it.
		}
		if err == nil {
			err = c.Resolve(nil, r)
		}
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// isAbout tells whether an open letter is about the request of that key, and not about its job where that does not count.
func (s *Store) isAbout(id string, key hashKey, d Done) bool {
	e, _, err := readEnvelope(s.path(StatusOpen, fileName(id)))
	return err == nil && keyOf(e) == key && (!d.Started || e.Job == nil) && (d.Class == "" || e.FailureClass == d.Class)
}
