// Package replay sends dead letters again. It is the only way in which one is: the admin listener, the command and the proxy by itself all
// come here. It claims a letter, has its account run the same exchange as for a worker, and then resolves the letter with its result or puts it
// back with a longer history. A claim is durable before anything is sent and the result before the letter is resolved, so that whatever ends the
// process in between leaves a letter that says what is known.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
)

// maxUnderWay bounds the replays at one time: each holds a connection and a payload.
const maxUnderWay = 256

// Options are what a Replayer works with. All but Registerer and Log are required.
type Options struct {
	Store    *dlq.Store
	Letters  *dlq.Reader // over the same folder
	Accounts []*proxy.Account
	// Registerer receives the metrics of replays; nil: there are none.
	Registerer prometheus.Registerer
	// Log is told what a person has to know; nil: nobody is.
	Log *zap.Logger
}

// Replayer sends dead letters again. It is safe for concurrent use.
type Replayer struct {
	store    *dlq.Store
	letters  *dlq.Reader
	accounts atomic.Pointer[map[string]*proxy.Account] // by name
	counted  *prometheus.CounterVec
	log      *zap.Logger

	mu       sync.Mutex
	stopped  bool
	underWay int
	unkept   int64          // The size of an answer that could not be kept, and none was since; -1: there is none.
	tryAt    time.Time      // When to see again whether one can be.
	idle     sync.WaitGroup // of what is under way
}

// The results by which replays are counted.
const (
	succeeded = "succeeded" // the letter is resolved
	failed    = "failed"    // it failed again
	refused   = "refused"   // it cannot be sent
	postponed = "postponed" // not now
	lost      = "lost"      // the answer was good and could not be kept
)

// New makes a Replayer. It fails when its metrics cannot be registered.
func New(o Options) (*Replayer, error) {
	r := &Replayer{
		store: o.Store, letters: o.Letters, log: o.Log, unkept: -1,
		counted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ocrproxy_dead_letters_replays_total", Help: "Replays of dead letters by what came of them.",
		}, []string{"provider", "result"}),
	}
	if r.log == nil {
		r.log = zap.NewNop()
	}
	r.Use(o.Accounts)
	if o.Registerer == nil {
		return r, nil
	}
	return r, o.Registerer.Register(r.counted)
}

// Use replaces the accounts by which letters are sent from now on. What is under way goes on as it began.
func (r *Replayer) Use(accounts []*proxy.Account) {
	named := make(map[string]*proxy.Account, len(accounts))
	for _, a := range accounts {
		named[a.Name] = a
		for _, result := range [...]string{succeeded, failed, refused, postponed, lost} {
			r.counted.WithLabelValues(a.Name, result)
		}
	}
	r.accounts.Store(&named)
}

// account is the one of that name; nil: the configuration has none.
func (r *Replayer) account(name string) *proxy.Account { return (*r.accounts.Load())[name] }

// Result is what came of one replay.
type Result struct {
	ID string `json:"id"`
	// Status is the folder that the letter now lies in: resolved when it succeeded, else open.
	Status string `json:"status"`
	// Outcome is that of the replayed request.
	Outcome string `json:"outcome"`
	// Attempts is how many upstream attempts were made.
	Attempts int `json:"attempts"`
	// ErrorClass, ErrorCode and Diagnostic are of the failure; empty when there was none.
	ErrorClass string `json:"error_class"`
	ErrorCode  string `json:"error_code"`
	Diagnostic string `json:"diagnostic"`
	// HTTPStatus is nil when no answer arrived.
	HTTPStatus *int `json:"http_status"`
}

// Errors of Replay for letters that are in nobody's reach here; both wrap [fs.ErrNotExist].
var (
	// ErrNotOpen says that there is no open letter of that id: it has been dealt with, or never was.
	ErrNotOpen = fmt.Errorf("no open dead letter has this id: %w", fs.ErrNotExist)
	// ErrClaimed says that the letter is being replayed already.
	ErrClaimed = fmt.Errorf("the dead letter is being replayed already: %w", fs.ErrNotExist)
)

// RefusedError says in a sentence why a letter cannot be sent again, and what to do.
type RefusedError struct{ Sentence string }

func (e *RefusedError) Error() string { return e.Sentence }

// LaterError says that a letter was not sent because it is too early.
type LaterError struct {
	// At is when to come again.
	At time.Time
	// Reason is a sentence.
	Reason string
	// Own reports that it is this letter's own time; else others of the account have to wait, too.
	Own bool
}

func (e *LaterError) Error() string { return e.Reason }

// Option changes one replay.
type Option func(*order)

type order struct{ evenAmbiguous bool }

// EvenAmbiguous sends also what the account's policy would not repeat by itself because the provider may have done the work.
func EvenAmbiguous() Option { return func(o *order) { o.evenAmbiguous = true } }

// Replay sends one open letter again and waits for what comes of it, the caller's leaving notwithstanding. A failure of the provider's is a
// Result; the error is [ErrNotOpen], [ErrClaimed], a *RefusedError, a *LaterError, or what the disk said.
func (r *Replayer) Replay(_ context.Context, id string, options ...Option) (Result, error) {
	var o order
	for _, option := range options {
		option(&o)
	}
	leave, err := r.enter()
	if err != nil {
		return Result{}, err
	}
	defer leave()
	letter, account, err := r.ready(id)
	if err != nil {
		r.count(letter, err)
		return Result{}, err
	}
	claim, err := r.store.Claim(id)
	if errors.Is(err, fs.ErrNotExist) {
		return Result{}, r.whereabouts(id)
	}
	if err != nil {
		return Result{}, err
	}
	result, err := r.send(claim, account, o)
	r.count(letter, err)
	return result, err
}

// count counts what Replay says before and without an exchange; send counts the rest.
func (r *Replayer) count(letter *dlq.Envelope, err error) {
	if _, ok := errors.AsType[*RefusedError](err); ok {
		r.add(letter.Provider, refused)
	}
	if _, ok := errors.AsType[*LaterError](err); ok {
		r.add(letter.Provider, postponed)
	}
}

// add counts under the accounts of the configuration alone.
func (r *Replayer) add(account, result string) {
	if r.account(account) != nil {
		r.counted.WithLabelValues(account, result).Inc()
	}
}

// ready finds an open letter and its account, and says what keeps the letter from being sent now.
func (r *Replayer) ready(id string) (*dlq.Envelope, *proxy.Account, error) {
	letter, err := r.find(id)
	if err != nil {
		return nil, nil, err
	}
	account, err := r.accountOf(letter)
	if err != nil {
		return letter, nil, err
	}
	now := time.Now()
	if at := letter.RetryNotBefore; at != nil && at.After(now) {
		return letter, nil, &LaterError{At: *at, Own: true, Reason: "it makes no sense before " + at.UTC().Format(time.RFC3339)}
	}
	if wait := account.ReplayWait(letter); wait > 0 {
		return letter, nil, &LaterError{At: now.Add(wait), Reason: "the circuit of account " + account.Name + " is open, or it is throttled"}
	}
	return letter, account, nil
}

// accountOf finds the account that can send a letter; the error is a *RefusedError.
func (r *Replayer) accountOf(letter *dlq.Envelope) (*proxy.Account, error) {
	account := r.account(letter.Provider)
	if account == nil {
		return nil, &RefusedError{fmt.Sprintf("the configuration has no provider account %q: add it again under that name, or discard the letter", letter.Provider)}
	}
	if sentence := account.Replayable(letter); sentence != "" {
		return nil, &RefusedError{sentence}
	}
	return account, nil
}

func (r *Replayer) find(id string) (*dlq.Envelope, error) {
	letter, err := r.letters.Get(id)
	switch {
	case errors.Is(err, dlq.ErrInvalidID), errors.Is(err, fs.ErrNotExist):
		return nil, ErrNotOpen
	case err != nil:
		return nil, err
	case letter.Status == dlq.StatusClaimed:
		return nil, ErrClaimed
	case letter.Status != dlq.StatusOpen:
		return nil, ErrNotOpen
	}
	return letter.Envelope, nil
}

// whereabouts says why a letter that was open a moment ago cannot be claimed.
func (r *Replayer) whereabouts(id string) error {
	if _, err := r.find(id); err != nil {
		return err
	}
	return ErrClaimed // and back already
}

// enter counts what is under way. The error is a *LaterError.
func (r *Replayer) enter() (leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	later := &LaterError{At: time.Now().Add(time.Second)}
	switch {
	case r.stopped:
		later.Reason = "the proxy is shutting down"
		return nil, later
	case r.underWay >= maxUnderWay:
		later.Reason = fmt.Sprintf("%d replays are under way already", maxUnderWay)
		return nil, later
	case r.unkept >= 0:
		if later := r.tryRoom(); later != nil {
			return nil, later
		}
	}
	r.underWay++
	r.idle.Add(1)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.underWay--
		r.idle.Done()
	}, nil
}

// noRoom is why nothing is sent after an answer could not be kept.
const noRoom = "the answer to a replay could not be kept, see the log: nothing is sent before one can be"

// tryPause is between two looks at whether an answer can be kept again.
const tryPause = 5 * time.Second

// tryRoom lets one replay at a time begin while it is not known that answers can be kept, and only where one of the size that could not be
// kept now can.
func (r *Replayer) tryRoom() error {
	now := time.Now()
	if r.underWay > 0 || now.Before(r.tryAt) {
		return &LaterError{At: later(r.tryAt, now.Add(time.Second)), Reason: noRoom}
	}
	if err := r.store.TryResult(r.unkept); err != nil {
		r.tryAt = now.Add(tryPause)
		return &LaterError{At: r.tryAt, Reason: noRoom}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// hold has replays wait until an answer of that size can be kept: each that is sent before is paid for and lost.
func (r *Replayer) hold(size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unkept = max(r.unkept, size)
}

// kept says that an answer was kept.
func (r *Replayer) kept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unkept = -1
}

// Stop has no further replay begin.
func (r *Replayer) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
}

// Wait waits for what is under way. Call Stop before.
func (r *Replayer) Wait() { r.idle.Wait() }

// status is a status for Result.
func status(code int) *int {
	if code == 0 {
		return nil
	}
	return &code
}
