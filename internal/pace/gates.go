package pace

import "time"

// otherScope is the scope of everything that was not declared.
const otherScope = "other"

// Gates holds the gates of one provider account, one for each scope. The
// scopes are fixed at the start, so that no traffic can add to them.
type Gates struct {
	account string
	scopes  map[string]*Gate
}

// NewGates returns open gates for the declared scopes and for "other".
func NewGates(account string, scopes []string, s Settings) *Gates {
	g := &Gates{account: account, scopes: map[string]*Gate{otherScope: NewGate(s)}}
	for _, scope := range scopes {
		if g.scopes[scope] == nil {
			g.scopes[scope] = NewGate(s)
		}
	}
	return g
}

// Account returns the name of the provider account.
func (g *Gates) Account() string { return g.account }

// For returns the gate of a scope. Scopes that were not declared share the
// gate "other".
func (g *Gates) For(scope string) *Gate {
	if gate, ok := g.scopes[scope]; ok {
		return gate
	}
	return g.scopes[otherScope]
}

// Remaining returns how much of its pause each scope has left, 0 for an open
// gate.
func (g *Gates) Remaining() map[string]time.Duration {
	left := make(map[string]time.Duration, len(g.scopes))
	for scope, gate := range g.scopes {
		left[scope] = gate.Remaining()
	}
	return left
}

// Update replaces the settings of all gates. Running pauses keep their ends.
func (g *Gates) Update(s Settings) {
	for _, gate := range g.scopes {
		gate.Update(s)
	}
}
