package proxy

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
)

// fleet is a lab whose listener's calls may go to further accounts, each with a provider of its own.
type fleet struct {
	*journaling
	accounts map[string]*Account
	at       map[string]*scripted
	logins   map[string]*lab // labs around the further accounts, for their figures
}

// newFleet opens the accounts acct, whose listener it is, and those named. Each has the credential "key-of-" and its name in a header of its
// own, X-Key- and its name.
func newFleet(t *testing.T, s setup, others ...string) *fleet {
	t.Helper()
	f := &fleet{journaling: newJournaling(t, s), accounts: map[string]*Account{}, at: map[string]*scripted{}, logins: map[string]*lab{}}
	f.accounts["acct"], f.at["acct"] = f.account, f.upstream
	f.logins["acct"] = f.lab
	f.account.Credential = credential.Header("X-Acct-Key", "", "key-of-acct")
	f.account.Self = "http://here"
	for _, name := range others {
		f.add(s, name)
	}
	return f
}

// add opens one more account.
func (f *fleet) add(s setup, name string) {
	upstream := &scripted{t: f.t, network: f.network}
	out := &http.Transport{DialContext: upstream.dial, DisableCompression: true}
	base, err := url.Parse("http://" + name + s.base)
	require.NoError(f.t, err)
	a, _, _, registry := s.build(f.t, base, out)
	a.Name, a.Bodies, a.Sink, a.Calls, a.Jobs, a.Log = name, f.account.Bodies, f.account.Sink, f.account.Calls, f.account.Jobs, f.account.Log
	a.Credential = credential.Header("X-"+name+"-Key", "", "key-of-"+name)
	stop := serve(f.t, f.network, name+":80", upstream)
	f.t.Cleanup(func() {
		out.CloseIdleConnections()
		stop()
	})
	f.accounts[name], f.at[name] = a, upstream
	f.logins[name] = &lab{t: f.t, account: a, registry: registry}
}

// falls has calls go on to these accounts, in this order.
func (f *fleet) falls(names ...string) { f.group(nil, names...) }

// spreads shares calls among accounts by weight.
func (f *fleet) spreads(weights map[string]int, fallback ...string) { f.group(weights, fallback...) }

func (f *fleet) group(weights map[string]int, fallback ...string) {
	f.t.Helper()
	var shares []Share
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		shares = append(shares, Share{f.accounts[name], weights[name]})
	}
	var last []*Account
	for _, name := range fallback {
		last = append(last, f.accounts[name])
	}
	var err error
	f.account.Group, err = NewGroup(f.account, shares, last)
	require.NoError(f.t, err)
}

// restart forgets whatever is only in memory, at every account.
func (f *fleet) restart() {
	f.journaling.restart()
	for _, a := range f.accounts {
		a.Jobs, a.Calls, a.Seed = f.account.Jobs, f.account.Calls, f.account.Seed
	}
	if g := f.account.Group; g != nil {
		shares := make([]Share, 0, len(g.spread))
		for _, s := range g.spread {
			shares = append(shares, s.Share)
		}
		var err error
		f.account.Group, err = NewGroup(f.account, shares, g.fallback)
		require.NoError(f.t, err)
	}
}

// asked is how often each provider was asked.
func (f *fleet) asked() map[string]int {
	asked := map[string]int{}
	for name, p := range f.at {
		if n := len(p.attempts()); n > 0 {
			asked[name] = n
		}
	}
	return asked
}

// trip opens an account's circuit.
func (f *fleet) trip(name string) {
	b := f.accounts[name].Breakers.For("")
	for b.Wait() == 0 {
		p, err := b.Acquire(nil, false)
		require.NoError(f.t, err)
		p.Done(breaker.Failure)
	}
}

// heals closes an account's circuit.
func (f *fleet) heals(name string) {
	f.accounts[name].Breakers = breaker.NewGroup(name, defaults("generic").breaker, 16, breaker.Observer{})
}

// speakRPC has the worker and all accounts speak gRPC.
func (f *fleet) speakRPC() {
	f.journaling.speakRPC()
	for name, a := range f.accounts {
		if name == "acct" {
			continue
		}
		out := NewGRPCTransport(nil)
		out.DialContext, out.Proxy = f.at[name].dial, nil
		a.GRPCTransport = out
		f.t.Cleanup(out.CloseIdleConnections)
	}
}
