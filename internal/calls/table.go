// Package calls remembers calls for as long as somebody may make them again: those under way, those whose answer nobody was left to take, and
// those that were just buried. A client library repeats a call that it lost sight of; whoever can tell that it is the same call need not pay
// for it twice.
//
// A call is told by the account, the credential that it was made with, and either the id that the library keeps over its own retries or the
// fingerprint of the request. Nothing is ever shared across credentials. The fingerprint costs a hash of the body, so that it is computed only
// when two calls have to be compared.
package calls

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Call is what tells one call from another.
type Call struct {
	Account    string
	Credential string // a hash; "": the account's own
	ID         string // the client library's id of the call, equal over its own retries; "": it sends none
	Name       string // what else tells the call over its repeats, for Join alone; "": nothing
	Again      bool   // the client library says that it makes this call once more
	Operation  string
	Size       int64                  // of the body in bytes: calls of other sizes need not be compared
	Print      func() (string, error) // the request's fingerprint, computed once and remembered by the caller
}

// Limits bound what is kept.
type Limits struct {
	TTL      time.Duration // how long an answer waits to be asked for; 0 keeps none
	MaxBytes int64         // of all kept bodies together
}

// maxKept bounds the number of kept answers, most of which have small bodies or none.
const maxKept = 10_000

// Table remembers calls. The zero value is not ready: make one with New. All methods may be called concurrently.
type Table struct {
	limits atomic.Pointer[Limits]

	mu      sync.Mutex
	flights map[owner]map[*Flight]struct{}
	entered uint64
	kept    map[owner]map[string]*kept // by fingerprint
	count   int
	order   []*kept // oldest first; entries that are gone stay until they come to the front
	bytes   int64
}

// owner is whose calls may be compared with each other.
type owner struct{ account, credential string }

// kept is an answer that waits to be asked for.
type kept struct {
	owner  owner
	print  string
	id     string
	answer *Answer
	until  time.Time
	gone   bool
}

// New returns an empty table.
func New(l Limits) *Table {
	t := &Table{flights: map[owner]map[*Flight]struct{}{}, kept: map[owner]map[string]*kept{}}
	t.limits.Store(&l)
	return t
}

// Update replaces the limits. What is kept already stays for as long as it was to, and goes now where there is too much of it.
func (t *Table) Update(l Limits) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits.Store(&l)
	t.makeRoom(time.Now())
}

// On reports whether answers are kept at all.
func (t *Table) On() bool { return t != nil && t.limits.Load().TTL > 0 }

// Flight is a call under way.
type Flight struct {
	table  *Table
	owner  owner
	call   Call
	number uint64 // in the order of Enter

	done    chan struct{}
	waiting int     // guarded by table.mu
	landed  bool    // guarded by table.mu
	answer  *Answer // set before done is closed; nil: there is none to share
	given   bool    // likewise: there was an answer
}

// Enter notes a call that is about to be made, so that of two at the same moment one is the first. Land or Abandon must follow.
func (t *Table) Enter(c Call) *Flight {
	f := &Flight{table: t, owner: owner{c.Account, c.Credential}, call: c, done: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entered++
	f.number = t.entered
	if t.flights[f.owner] == nil {
		t.flights[f.owner] = map[*Flight]struct{}{}
	}
	t.flights[f.owner][f] = struct{}{}
	return f
}

// Land ends a call. It asks for the answer and says whether anybody waits for it. Whoever waits gets a share; nil tells them to make the call
// themselves, all at once.
func (f *Flight) Land(answer func(wanted bool) *Answer) { f.end(true, answer) }

// Abandon ends a call that brought no answer: of those who wait the oldest makes the call, and the others wait for that one.
func (f *Flight) Abandon() { f.end(false, func(bool) *Answer { return nil }) }

func (f *Flight) end(given bool, answer func(wanted bool) *Answer) {
	t := f.table
	t.mu.Lock()
	delete(t.flights[f.owner], f) // from now on nobody joins
	if len(t.flights[f.owner]) == 0 {
		delete(t.flights, f.owner)
	}
	wanted := f.waiting > 0
	t.mu.Unlock()

	a := answer(wanted)

	t.mu.Lock()
	if a != nil {
		for range f.waiting {
			a.Share()
		}
		f.answer = a
	}
	f.landed, f.given = true, given
	t.mu.Unlock()
	close(f.done)
}

// Join looks for the same call that was under way before this one, waits for its answer and returns a share of it. Nil means that there is
// none, or that it brought nothing to share. The error is the context's.
//
// Calls are the same when the library gives them one id, or when it says that it repeats one, and the requests are equal.
func (f *Flight) Join(ctx context.Context) (*Answer, error) {
	for {
		first := f.twin()
		if first == nil {
			return nil, nil //nolint:nilnil // there is nothing to join
		}
		select {
		case <-first.done:
			if first.given {
				return first.answer, nil
			}
		case <-ctx.Done():
			first.leave()
			return nil, context.Cause(ctx)
		}
	}
}

// leave gives up waiting. A share that was already given is given back.
func (f *Flight) leave() {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	if !f.landed {
		f.waiting--
	} else if f.answer != nil {
		f.answer.Release()
	}
}

// twin finds the oldest flight of the same call and counts this one among those who wait for it.
func (f *Flight) twin() *Flight {
	c, t := f.call, f.table
	if c.ID == "" && c.Name == "" && !c.Again {
		return nil
	}
	for _, older := range f.alike() {
		if mine, err := c.Print(); err != nil {
			return nil
		} else if theirs, err := older.call.Print(); err != nil || mine != theirs {
			continue
		}
		t.mu.Lock()
		_, flying := t.flights[f.owner][older]
		if flying {
			older.waiting++
		}
		t.mu.Unlock()
		if flying {
			return older
		}
	}
	return nil
}

// alike lists the older calls under way that are worth comparing, oldest first.
func (f *Flight) alike() []*Flight {
	c, t := f.call, f.table
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*Flight
	for older := range t.flights[f.owner] {
		sameID := c.ID != "" && older.call.ID == c.ID || c.Name != "" && older.call.Name == c.Name
		repeats := c.ID == "" && c.Again
		if older.number < f.number && (sameID || repeats) && older.call.Operation == c.Operation && older.call.Size == c.Size {
			all = append(all, older)
		}
	}
	slices.SortFunc(all, func(a, b *Flight) int { return cmp.Compare(a.number, b.number) })
	return all
}

// Keep stores a share of an answer until somebody asks for the same call again, the time is over, or room is needed for newer ones.
func (t *Table) Keep(c Call, a *Answer) error {
	limits := t.limits.Load()
	if limits.TTL <= 0 || a.Size() > limits.MaxBytes {
		return nil
	}
	print, err := c.Print()
	if err != nil {
		return err
	}
	k := &kept{owner: owner{c.Account, c.Credential}, print: print, id: c.ID, answer: a.Share(), until: time.Now().Add(limits.TTL)}
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.kept[k.owner]
	if of == nil {
		of = map[string]*kept{}
		t.kept[k.owner] = of
	}
	if old := of[print]; old != nil {
		t.drop(old)
	}
	t.kept[k.owner] = of // dropping the last one of an owner forgets the owner
	of[print] = k
	t.order = append(t.order, k)
	t.count++
	t.bytes += a.Size()
	t.makeRoom(time.Now())
	time.AfterFunc(limits.TTL, t.expire)
	return nil
}

// Take returns a share of the kept answer to the same call, or nil. An answer that nobody had been left to take is given once; a buried one
// stays for the library's next retry, and only the library's own retry gets it.
func (t *Table) Take(c Call) (*Answer, error) {
	if !t.holds(owner{c.Account, c.Credential}) {
		return nil, nil //nolint:nilnil // nothing is kept, so that nothing need be hashed
	}
	print, err := c.Print()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kept[owner{c.Account, c.Credential}][print]
	if k == nil || !k.until.After(time.Now()) {
		return nil, nil //nolint:nilnil // nothing is kept
	}
	if k.answer.Buried {
		if !c.Again && (c.ID == "" || c.ID != k.id) {
			return nil, nil //nolint:nilnil // a new call about the same document deserves a try of its own
		}
		return k.answer.Share(), nil
	}
	a := k.answer.Share()
	t.drop(k)
	return a, nil
}

// holds reports whether anything is kept for that owner.
func (t *Table) holds(o owner) bool {
	if !t.On() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.kept[o]) > 0
}

// Bytes is the size of all kept bodies.
func (t *Table) Bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

// Close gives up everything that is kept.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.order {
		t.drop(k)
	}
	t.order = nil
}

func (t *Table) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.makeRoom(time.Now())
}

// makeRoom drops what is out of date, and the oldest until the rest is within the limits; mu is held.
func (t *Table) makeRoom(now time.Time) {
	for len(t.order) > 0 {
		k := t.order[0]
		if !k.gone && k.until.After(now) && t.bytes <= t.limits.Load().MaxBytes && t.count <= maxKept {
			return
		}
		t.drop(k)
		t.order = t.order[1:]
	}
}

// drop lets go of one kept answer; mu is held.
func (t *Table) drop(k *kept) {
	if k.gone {
		return
	}
	k.gone = true
	of := t.kept[k.owner]
	delete(of, k.print)
	if len(of) == 0 {
		delete(t.kept, k.owner)
	}
	t.count--
	t.bytes -= k.answer.Size()
	k.answer.Release()
}
