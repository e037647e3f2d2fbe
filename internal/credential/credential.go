// Package credential applies an account's own credentials to each attempt, after every wait: a signature made before a wait is stale. Where
// the proxy holds a credential, whatever the worker sent in that place is removed first.
package credential

import (
	"context"
	"net/http"

	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

// Attempt is what a credential is applied to. Request.Header belongs to the attempt and may be changed.
type Attempt struct {
	Request *http.Request
	// Sum256 is the SHA-256 of the body that goes out. It is asked for only by credentials that sign, since hashing costs as much as sending.
	Sum256 func() ([32]byte, error)
}

// Credential is one account's way to prove who it is.
type Credential struct {
	apply   func(ctx context.Context, a Attempt) error
	own     bool
	headers []string
	refuses func(h http.Header) string
}

// Apply puts the credential on an attempt. An error means that the credential is not to be had now; it never contains its value.
func (c *Credential) Apply(ctx context.Context, a Attempt) error {
	if c.apply == nil {
		return nil
	}
	return c.apply(ctx, a)
}

// Own reports whether the proxy holds the credential: false for the worker's own that is passed through, and for none.
func (c *Credential) Own() bool { return c.own }

// PassesThrough reports whether the worker's credentials go upstream as they came.
func (c *Credential) PassesThrough() bool { return c.apply == nil }

// Headers are the request headers that this account uses for its credential beside the usual ones, for whoever must not write them down.
func (c *Credential) Headers() []string { return c.headers }

// Refuses says in one sentence why a worker's request cannot be sent under this credential, or "" when it can.
func (c *Credential) Refuses(h http.Header) string {
	if c.refuses == nil {
		return ""
	}
	return c.refuses(h)
}

// Passthrough leaves the worker's own credentials as they are.
func Passthrough() *Credential { return &Credential{} }

// None removes every credential of the worker's and adds none.
func None() *Credential {
	return &Credential{apply: func(_ context.Context, a Attempt) error { remove(a.Request); return nil }}
}

// Header sends a fixed value in a header, after the scheme's word if there is one ("Bearer"), in place of every credential of the worker's.
func Header(name, scheme, value string) *Credential {
	if scheme != "" {
		value = scheme + " " + value
	}
	return &Credential{own: true, headers: []string{name}, apply: func(_ context.Context, a Attempt) error {
		remove(a.Request)
		a.Request.Header.Set(name, value)
		return nil
	}}
}

// remove takes the worker's credentials out of an attempt's headers and query.
func remove(r *http.Request) {
	for name := range r.Header {
		if scrub.Header(name) {
			delete(r.Header, name)
		}
	}
	if clean, cut := scrub.Query(r.URL.RawQuery); len(cut) > 0 {
		u := *r.URL
		u.RawQuery = clean
		r.URL = &u
	}
}
