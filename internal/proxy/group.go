package proxy

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Share is one account among those that a listener spreads over.
type Share struct {
	Account *Account
	Weight  int // at least 1
}

// Group is the accounts that the calls to one listener may go to. It is decided here who is asked first and who after that; whether another is
// asked at all is decided in travel.go.
type Group struct {
	own      *Account
	all      []*Account // each once, the listener's own first: jobs are looked for among them
	spread   []*share   // nil: the listener's own account alone
	fallback []*Account

	mu    sync.Mutex // guards the shares' turns
	leads *leads
}

// leads outlive a group: when the configuration changes, the group that follows has them too.
type leads struct {
	mu     sync.Mutex
	unsure map[string]lead
}

type share struct {
	Share
	turn int // how much it is due, see inTurn
}

// lead is an account that may have started a job although no answer says so, or that has one that the journal could not take.
type lead struct {
	account string
	until   time.Time
}

const (
	// leadTime is how long it is remembered where an unsure start went: longer than any client library repeats a call.
	leadTime = time.Hour
	// leadOfJob begins what is remembered of a job, before its id.
	leadOfJob = "job "
	// maxLeads bounds what is remembered of them.
	maxLeads = 10_000
)

// NewGroup is the group of an account's listener. The shares are those that it spreads over, itself only if it is among them; none: it alone.
// The fallback accounts are asked after that, in their order; their own groups do not count. The error says which account cannot take part: one
// of another kind, one that marks repeats in another way, or one without a credential of its own, to which a worker's would go.
func NewGroup(own *Account, shares []Share, fallback []*Account) (*Group, error) {
	g := &Group{own: own, all: []*Account{own}, fallback: fallback, leads: &leads{unsure: map[string]lead{}}}
	for _, s := range shares {
		if s.Weight < 1 {
			return nil, fmt.Errorf("account %s has a weight below 1", s.Account.Name)
		}
		g.spread = append(g.spread, &share{Share: s})
		g.all = append(g.all, s.Account)
	}
	g.all = unique(append(g.all, fallback...))
	for _, a := range g.all {
		switch {
		case a.Provider.Name != own.Provider.Name:
			return nil, fmt.Errorf("account %s is of another kind", a.Name)
		case a.Credential.PassesThrough():
			return nil, fmt.Errorf("account %s has no credential of its own", a.Name)
		case a.Idempotency != own.Idempotency:
			return nil, fmt.Errorf("account %s takes its idempotency token in another header", a.Name)
		}
	}
	return g, nil
}

// Follow has the group know what an earlier one of the same listener knows, and tell it what it learns. It is called before the first request;
// nil: there was none.
func (g *Group) Follow(earlier *Group) {
	if earlier != nil {
		g.leads = earlier.leads
	}
}

// group is every account that this listener's calls may have gone to.
func (a *Account) group() []*Account {
	if a.Group == nil {
		return []*Account{a}
	}
	return a.Group.all
}

// order lists the accounts that a call may go to, the first to be asked first. A call with a print goes where the same call went before;
// others take turns. Whoever is not ready is passed over where another share is.
func (g *Group) order(print string, ready func(*Account) bool) []*Account {
	var all []*Account
	switch {
	case g.spread == nil:
		all = append(all, g.own)
	case print != "":
		all = g.byPrint(print)
		slices.SortStableFunc(all, func(a, b *Account) int { return cmp.Compare(last(ready(a)), last(ready(b))) })
	default:
		all = g.inTurn(ready)
	}
	return unique(append(all, g.fallback...))
}

// fallsBackTo reports whether an account is asked only when others cannot serve.
func (g *Group) fallsBackTo(a *Account) bool {
	return a != g.own && slices.Contains(g.fallback, a) && !slices.ContainsFunc(g.spread, func(s *share) bool { return s.Account == a })
}

// last sorts what is not ready behind what is.
func last(ready bool) int {
	if ready {
		return 0
	}
	return 1
}

// byPrint is a weighted rendezvous: each account draws from the print and its own name, with chances as its weight, so that an account that
// comes or goes moves only the calls that it gains or had.
func (g *Group) byPrint(print string) []*Account {
	scores := make(map[*Account]float64, len(g.spread))
	all := make([]*Account, 0, len(g.spread))
	for _, s := range g.spread {
		sum := sha256.Sum256([]byte(s.Account.Name + "\n" + print))
		draw := (float64(binary.BigEndian.Uint64(sum[:])>>11) + 0.5) / (1 << 53) // within (0, 1)
		scores[s.Account] = float64(s.Weight) / -math.Log(draw)
		all = append(all, s.Account)
	}
	slices.SortStableFunc(all, func(a, b *Account) int { return cmp.Compare(scores[b], scores[a]) })
	return all
}

// inTurn takes the account that is due most and makes all the others due by their weight, so that over each round everyone is asked as often as
// its weight says, and nobody twice in a row who need not be. Those who are not ready wait without becoming due.
func (g *Group) inTurn(ready func(*Account) bool) []*Account {
	able := make(map[*share]bool, len(g.spread))
	for _, s := range g.spread {
		able[s] = ready(s.Account)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	order := slices.Clone(g.spread)
	slices.SortStableFunc(order, func(a, b *share) int { return cmp.Compare(last(able[a]), last(able[b])) })
	able[order[0]] = true // where nobody is ready somebody must be asked all the same
	sum := 0
	for _, s := range order {
		if able[s] {
			s.turn += s.Weight
			sum += s.Weight
		}
	}
	slices.SortStableFunc(order, func(a, b *share) int {
		return cmp.Or(cmp.Compare(last(able[a]), last(able[b])), cmp.Compare(b.turn, a.turn))
	})
	order[0].turn -= sum
	all := make([]*Account, len(order))
	for i, s := range order {
		all[i] = s.Account
	}
	return all
}

// remember notes for that long where a call went that may have been done there, so that its next repeat goes nowhere else, or where a job is.
func (g *Group) remember(call string, a *Account, length time.Duration) {
	k := g.leads
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.unsure[call]; !known && len(k.unsure) >= maxLeads {
		for other := range k.unsure { // any: so many unsure starts within the time mean that nothing here can be kept apart
			delete(k.unsure, other)
			break
		}
	}
	k.unsure[call] = lead{a.Name, time.Now().Add(length)}
}

// lead is the account that may have done a call already, or that has a job; nil: none is known, or it is not of the group any more.
func (g *Group) lead(call string) *Account {
	k := g.leads
	k.mu.Lock()
	defer k.mu.Unlock()
	l, ok := k.unsure[call]
	if !ok {
		return nil
	}
	if !l.until.After(time.Now()) {
		delete(k.unsure, call)
		return nil
	}
	for _, a := range g.all {
		if a.Name == l.account {
			return a
		}
	}
	return nil
}

// unique keeps the first of each account.
func unique(all []*Account) []*Account {
	var once []*Account
	for _, a := range all {
		if !slices.Contains(once, a) {
			once = append(once, a)
		}
	}
	return once
}
