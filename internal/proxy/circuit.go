package proxy

import (
	"hash/maphash"
	"net/http"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
	"github.com/ocr-proxy/ocr-proxy/internal/trace"
)

// circuit is what a request has to pass: the account's breaker and, where the worker's own credential goes through, the credential's. One
// worker's bad key then stops only that worker, while what fails without any credential stops everybody.
type circuit struct {
	account    *breaker.Breaker
	credential *breaker.Breaker // nil: the request carries none of its own
	key        string           // a hash of that credential; "": none
	caller     breaker.Caller
}

// circuitFor finds the breakers of a request.
func (a *Account) circuitFor(r *http.Request) circuit {
	c := circuit{account: a.Breakers.For("")}
	if key := a.credentialKey(r); key != "" {
		c.key, c.credential = key, a.Breakers.For(key)
	}
	return c
}

// credentialKey is a keyed hash over the credential that a worker sent, "" where there is none or it goes no further.
func (a *Account) credentialKey(r *http.Request) string {
	parts := a.credentials(r)
	if len(parts) == 0 {
		return ""
	}
	var h maphash.Hash
	h.SetSeed(a.Seed)
	for _, part := range parts {
		_, _ = h.WriteString(part)
	}
	return string(h.Sum(nil))
}

// credentials are the names and values of whatever a worker sent to prove who it is, in a fixed order; nil where it goes no further.
func (a *Account) credentials(r *http.Request) []string {
	if !a.Credential.PassesThrough() {
		return nil
	}
	var parts []string
	for _, v := range r.Header["Authorization"] {
		parts = append(parts, "Authorization", v)
	}
	for _, name := range a.Provider.Credentials {
		for _, v := range r.Header[name] {
			parts = append(parts, name, v)
		}
	}
	return append(parts, scrub.Credentials(r.URL.RawQuery)...)
}

// wait is how long the request would be refused; 0 when it could pass now.
func (c *circuit) wait() time.Duration {
	wait := c.account.Wait()
	if c.credential != nil {
		wait = max(wait, c.credential.Wait())
	}
	return wait
}

// sustained reports whether the request meets an outage that lasts.
func (c *circuit) sustained() bool {
	return c.account.Sustained() || c.credential != nil && c.credential.Sustained()
}

// acquire asks to make one attempt. The error is a *breaker.OpenError; changed is closed when asking again may help.
func (c *circuit) acquire(p *permit, holding bool) (changed <-chan struct{}, err error) {
	changed = c.account.Changed()
	if c.credential == nil {
		p.account, err = c.account.Acquire(&c.caller, holding)
		return changed, err
	}
	if p.account, err = c.account.Acquire(nil, holding); err != nil {
		return changed, err
	}
	changed = c.credential.Changed()
	if p.credential, err = c.credential.Acquire(&c.caller, holding); err != nil {
		p.account.Done(breaker.Neutral)
	}
	return changed, err
}

// permit allows one attempt: by the queue, then by the breakers. It must be handed back to them with done, and to the queue with its turn; the
// first call counts.
type permit struct {
	turn       pace.Turn
	account    *breaker.Permit
	credential *breaker.Permit // nil: the account's alone
	span       *trace.Span     // of the attempt; nil: it is not traced
}

// done reports the attempt's result. A failure under a credential is that credential's; only as a probe, or as a success, does it say
// something about the account.
func (p *permit) done(r breaker.Result) {
	if p.credential == nil {
		p.account.Done(r)
		return
	}
	p.credential.Done(r)
	if (r == breaker.Failure || r == breaker.Refused || r == breaker.Permanent) && !p.account.Probe() {
		r = breaker.Neutral
	}
	p.account.Done(r)
}

// probes reports whether the attempt finds out for others whether the provider is well again.
func (p *permit) probes() bool {
	return p.account.Probe() || p.credential != nil && p.credential.Probe()
}
