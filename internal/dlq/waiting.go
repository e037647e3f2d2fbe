package dlq

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// anySize stands for the body of a letter that is not known to have the size
// that the same request has when it comes again.
const anySize = -1

// waitingCall is what an open letter and a good answer to the same request have
// in common that costs nothing to know.
type waitingCall struct {
	account   string
	operation string
	size      int64 // Of the body in bytes, or anySize.
}

func callOf(e *Envelope) waitingCall {
	c := waitingCall{account: e.Provider, operation: e.Operation, size: e.Request.BodyBytes}
	cut := slices.ContainsFunc(e.Request.Credentials, func(name string) bool { return strings.HasPrefix(name, formCarrier) })
	if cut || e.Request.BodySHA256 == "" {
		c.size = anySize
	}
	return c
}

// formCarrier begins the names of credentials that were cut out of the body.
const formCarrier = "form:"

// waitingCalls counts the open letters of every account, apart from the index
// and its lock, because good answers look here.
type waitingCalls struct {
	mu       sync.Mutex
	accounts map[string]*accountCalls
}

// accountCalls are the letters of one account.
type accountCalls struct {
	letters atomic.Int64
	mu      sync.RWMutex
	calls   map[waitingCall]int
}

func newWaitingCalls() *waitingCalls { return &waitingCalls{accounts: map[string]*accountCalls{}} }

func (w *waitingCalls) of(account string) *accountCalls {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.accounts[account]
	if a == nil {
		a = &accountCalls{calls: map[waitingCall]int{}}
		w.accounts[account] = a
	}
	return a
}

func (w *waitingCalls) add(c waitingCall, n int) {
	a := w.of(c.account)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls[c] += n; a.calls[c] == 0 {
		delete(a.calls, c)
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
// account has no open letter.
func (o *OpenLetters) May(operation string, size int64) bool {
	if o == nil || o.calls.letters.Load() == 0 {
		return false
	}
	o.calls.mu.RLock()
	defer o.calls.mu.RUnlock()
	return o.calls.calls[waitingCall{o.account, operation, size}] > 0 || o.calls.calls[waitingCall{o.account, operation, anySize}] > 0
}

// Resolve resolves the letters about one request, which are those that a new
// failure of it would raise, and gives their ids. One that somebody has claimed
// is left to him.
func (o *OpenLetters) Resolve(ctx context.Context, fingerprint, documentID, idempotencyKey string, r Resolution) (ids []string, err error) {
	key := keyOf(&Envelope{Provider: o.account, RequestFingerprint: fingerprint, DocumentID: documentID, IdempotencyKey: idempotencyKey})
	if key == (hashKey{}) {
		return nil, nil
	}
	for id, ok := o.store.index.find(key); ok && ctx.Err() == nil; id, ok = o.store.index.find(key) {
		c, err := o.store.Claim(id)
		if errors.Is(err, fs.ErrNotExist) {
			o.store.index.remove(id) // It was moved by hand.
			continue
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
