package credential

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// tokenMargin is how long before its end a token is replaced.
	tokenMargin = time.Minute
	// fetchTimeout bounds one try to get a token.
	fetchTimeout = 30 * time.Second
)

// token is an access token.
type token struct {
	value   string
	expires time.Time // zero: never
	project string    // Google's quota project; "": none
}

// valid reports whether the token can be used for that much longer.
func (t *token) valid(margin time.Duration) bool {
	return t != nil && (t.expires.IsZero() || time.Until(t.expires) > margin)
}

// tokens keeps an account's access token and fetches the next one when somebody needs it.
type tokens struct {
	fetch func(ctx context.Context) (token, error) // from the identity service; its error is free of secrets

	current atomic.Pointer[token]
	turn    chan struct{} // holds one element while somebody fetches; a lock whose wait ends with a context
	renewed time.Time     // when a refusal last made it fetch; belongs to whoever has the turn
}

func newTokens(fetch func(ctx context.Context) (token, error)) *tokens {
	return &tokens{fetch: fetch, turn: make(chan struct{}, 1)}
}

// get is a token that can be used.
func (t *tokens) get(ctx context.Context) (*token, error) {
	if now := t.current.Load(); now.valid(tokenMargin) {
		return now, nil
	}
	if err := t.take(ctx); err != nil {
		return nil, err
	}
	defer t.give()
	now := t.current.Load()
	if now.valid(tokenMargin) {
		return now, nil // somebody else has fetched it
	}
	next, err := t.refresh(ctx)
	if err != nil && now.valid(0) {
		return now, nil // the one that is about to end still serves
	}
	return next, err
}

// renew is a token after one was refused: fetched, unless that was done since or only a moment ago.
func (t *tokens) renew(ctx context.Context, refused string) (*token, error) {
	if err := t.take(ctx); err != nil {
		return nil, err
	}
	defer t.give()
	if now := t.current.Load(); now != nil && (now.value != refused || time.Since(t.renewed) < renewEvery) {
		return now, nil
	}
	t.renewed = time.Now()
	return t.refresh(ctx)
}

func (t *tokens) refresh(ctx context.Context) (*token, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	next, err := t.fetch(ctx)
	if err != nil {
		return nil, err
	}
	t.current.Store(&next)
	return &next, nil
}

func (t *tokens) take(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *tokens) give() { <-t.turn }

// credential sends the token in place of every credential of the worker's.
func (t *tokens) credential(account string) *Credential {
	return &Credential{account: account, own: true, apply: t.apply, mend: t.mend}
}

const bearer = "Bearer "

func (t *tokens) apply(ctx context.Context, a Attempt) error {
	now, err := t.get(ctx)
	if err != nil {
		return err
	}
	replace(a.Request, "Authorization", bearer+now.value)
	if now.project != "" {
		a.Request.Header.Set("X-Goog-User-Project", now.project)
	}
	return nil
}

func (t *tokens) mend(ctx context.Context, r Refusal) bool {
	if r.Status != http.StatusUnauthorized && !r.has("ACCESS_TOKEN_EXPIRED") {
		return false // known and not allowed: another token of the same identity is not, either
	}
	refused := strings.TrimPrefix(r.Sent.Get("Authorization"), bearer)
	next, err := t.renew(ctx, refused)
	return err == nil && next.value != refused
}
