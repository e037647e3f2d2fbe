package breaker

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"
)

// forgetAfter is how long a credential's breaker is remembered without use. A
// credential that was rotated out must not be shown as open for ever.
const forgetAfter = time.Hour

// Group holds the breakers of one provider account: the account's own and, for
// accounts that pass their workers' credentials through, one per credential.
// It is bounded, so that made-up credentials cost neither memory nor the
// counts of real ones. All methods may be called concurrently.
type Group struct {
	account  string
	limit    int
	observer Observer
	own      *Breaker
	overflow *Breaker // shared by the credentials that found no place

	rejected    atomic.Uint64
	transitions [Open + 1][Open + 1]atomic.Uint64

	mu       sync.Mutex
	settings Settings
	keyed    map[string]*entry
}

type entry struct {
	*Breaker
	used time.Time
}

// NewGroup returns the breakers of one account. At most limit credentials have
// a breaker of their own at one time; with 0 they all share one. The observer
// is told of every breaker of the group.
func NewGroup(account string, s Settings, limit int, o Observer) *Group {
	g := &Group{account: account, limit: limit, settings: s, keyed: make(map[string]*entry)}
	g.observer = Observer{
		Transition: func(from, to State, reason Reason, openSince time.Time) {
			g.transitions[from][to].Add(1)
			if o.Transition != nil {
				o.Transition(from, to, reason, openSince)
			}
		},
		Sustained: o.Sustained,
	}
	g.own = New(s, g.observer)
	g.overflow = New(s, g.observer)
	return g
}

// Account returns the name of the provider account.
func (g *Group) Account() string { return g.account }

// For returns the breaker of a credential, or the account's own for "". The
// credential is only a key and should be a hash. Ask anew for each request,
// not for each attempt: what nobody asks for is forgotten after an hour.
//
// When the group is full, the breaker that was used the longest ago and holds
// no counts makes place; where every one holds some, the newcomer shares one
// breaker with others like it.
func (g *Group) For(credential string) *Breaker {
	if credential == "" {
		return g.own
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if e, ok := g.keyed[credential]; ok {
		e.used = now
		return e.Breaker
	}
	if len(g.keyed) >= g.limit && !g.makePlace(now) {
		return g.overflow
	}
	b := New(g.settings, g.observer)
	g.keyed[credential] = &entry{Breaker: b, used: now}
	return b
}

// makePlace removes what has been forgotten, else one pristine breaker; mu is
// held.
func (g *Group) makePlace(now time.Time) bool {
	for key, e := range g.keyed {
		if g.forgotten(e, now) {
			delete(g.keyed, key)
		}
	}
	if len(g.keyed) < g.limit {
		return true
	}
	var oldest string
	var used time.Time
	for key, e := range g.keyed {
		if (oldest == "" || e.used.Before(used)) && e.pristine(now) {
			oldest, used = key, e.used
		}
	}
	delete(g.keyed, oldest)
	return oldest != ""
}

func (g *Group) forgotten(e *entry, now time.Time) bool {
	return now.Sub(e.used) > max(forgetAfter, 2*g.settings.ResetTimeout)
}

// Update replaces the settings of all breakers and keeps their states.
func (g *Group) Update(s Settings) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settings = s
	g.own.Update(s)
	g.overflow.Update(s)
	for _, e := range g.keyed {
		e.Update(s)
	}
}

// Rejected counts a request that was turned away because a breaker was not
// closed. Only the caller knows: a refused Acquire may lead to holding instead.
func (g *Group) Rejected() { g.rejected.Add(1) }

// Snapshot returns the group at its worst: that of the breaker in the worst
// state, with OpenedAt and OpenFor of the one that has not been closed for the
// longest time.
func (g *Group) Snapshot() Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	worst := g.own.Snapshot()
	longest := worst
	consider := func(b *Breaker) {
		s := b.Snapshot()
		if cmp.Or(cmp.Compare(s.State, worst.State), cmp.Compare(s.OpenFor, worst.OpenFor), cmp.Compare(s.Failures, worst.Failures)) > 0 {
			worst = s
		}
		if s.OpenFor > longest.OpenFor {
			longest = s
		}
	}
	consider(g.overflow)
	for _, e := range g.keyed {
		if !g.forgotten(e, now) {
			consider(e.Breaker)
		}
	}
	worst.OpenedAt, worst.OpenFor = longest.OpenedAt, longest.OpenFor
	return worst
}
