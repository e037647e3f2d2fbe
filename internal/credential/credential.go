// Package credential applies an account's own credentials to each attempt, after every wait: a signature made before a wait is stale. Where
// the proxy holds a credential, whatever the worker sent in that place is removed first. A credential that was refused is asked whether it
// can be mended: read again where it is kept, fetched anew, or signed by another clock.
package credential

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

// Attempt is what a credential is applied to. Request.Header belongs to the attempt and may be changed.
type Attempt struct {
	Request *http.Request
	// Sum256 is the SHA-256 of the body that goes out. It is asked for only by credentials that sign, since hashing costs as much as sending.
	Sum256 func() ([32]byte, error)
}

// Refusal is an answer that did not accept the credential of an attempt.
type Refusal struct {
	// Status is the HTTP status of the answer.
	Status int
	// Codes are the provider's error codes in it, namespaces stripped; empty when there is none.
	Codes []string
	// Header is the answer's head.
	Header http.Header
	// Sent is the head of the refused attempt with the credential on it, which tells whether somebody has renewed the credential since.
	Sent http.Header
}

// has reports whether the answer carries one of the codes.
func (r Refusal) has(codes ...string) bool {
	return slices.ContainsFunc(r.Codes, func(c string) bool { return slices.Contains(codes, c) })
}

// Credential is one account's way to prove who it is. It is safe for concurrent use.
type Credential struct {
	account string // named in errors; "": not
	apply   func(ctx context.Context, a Attempt) error
	mend    func(ctx context.Context, r Refusal) bool // nil: nothing can be done
	own     bool
	signs   bool // it asks for the hash of the body
	headers []string
	refuses func(h http.Header) string
}

// Apply puts the credential on an attempt. An error means that the credential is not to be had now; it never contains its value.
func (c *Credential) Apply(ctx context.Context, a Attempt) error {
	if c.apply == nil {
		return nil
	}
	err := c.apply(ctx, a)
	if err != nil && c.account != "" {
		return fmt.Errorf("account %s: %w", c.account, err)
	}
	return err
}

// Mend does what can be done about a refusal and reports whether the next attempt will be made with something else than the refused one: a
// value read or fetched anew, or the provider's clock. It may read files and ask an identity service, within ctx. It is false for a refusal
// that another attempt would only repeat, and always for credentials of the worker's own.
func (c *Credential) Mend(ctx context.Context, r Refusal) bool {
	return c.mend != nil && c.mend(ctx, r)
}

// Own reports whether the proxy holds the credential: false for the worker's own that is passed through, and for none.
func (c *Credential) Own() bool { return c.own }

// Signs reports whether applying the credential takes the whole body.
func (c *Credential) Signs() bool { return c.signs }

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
