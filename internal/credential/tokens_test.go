package credential

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// issuer is an identity service that gives a new token for each call.
type issuer struct {
	calls int
	takes time.Duration
	lasts time.Duration
	err   error
}

func (i *issuer) fetch(ctx context.Context) (token, error) {
	i.calls++
	n := i.calls
	select {
	case <-time.After(i.takes):
	case <-ctx.Done():
		return token{}, ctx.Err()
	}
	if i.err != nil {
		return token{}, i.err
	}
	return token{value: fmt.Sprintf("token-%d", n), expires: time.Now().Add(i.lasts)}, nil
}

func refusedToken(n int) Refusal {
	return Refusal{Status: http.StatusUnauthorized, Sent: http.Header{"Authorization": {fmt.Sprintf("Bearer token-%d", n)}}}
}

func TestATokenIsFetchedWhenItIsNeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{takes: time.Second, lasts: time.Hour}
		c := newTokens(i.fetch).credential("acct")
		require.True(t, c.Own())
		require.False(t, c.PassesThrough())
		require.Zero(t, i.calls)
		start := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				r := carried(t, query)
				if err := c.Apply(t.Context(), Attempt{r, noSum}); err != nil || r.Header.Get("Authorization") != "Bearer token-1" {
					t.Error(err, r.Header)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, i.calls, "once for all who need it")
		require.Equal(t, time.Second, time.Since(start))
		time.Sleep(time.Hour - tokenMargin - time.Second)
		require.Equal(t, "Bearer token-1", sends(t, c, "Authorization"))
		time.Sleep(time.Second)
		require.Equal(t, "Bearer token-2", sends(t, c, "Authorization"), "before the old one ends")
	})
}

func TestATokenThatIsAboutToEndServesWhileThereIsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{lasts: 10 * time.Minute}
		c := newTokens(i.fetch).credential("acct")
		sends(t, c, "Authorization")
		i.err = errors.New("the token service answered 503")
		time.Sleep(i.lasts - tokenMargin/2)
		require.Equal(t, "Bearer token-1", sends(t, c, "Authorization"))
		time.Sleep(tokenMargin)
		err := c.Apply(t.Context(), Attempt{carried(t, "/"), noSum})
		require.EqualError(t, err, "account acct: the token service answered 503")
		i.err = nil
		require.Equal(t, "Bearer token-4", sends(t, c, "Authorization"))
	})
}

func TestARefusedTokenIsReplacedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{takes: time.Second, lasts: time.Hour}
		c := newTokens(i.fetch).credential("acct")
		sends(t, c, "Authorization")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if !c.Mend(t.Context(), refusedToken(1)) {
					t.Error("everybody who was refused may try again")
				}
			})
		}
		wg.Wait()
		require.Equal(t, 2, i.calls)
		require.Equal(t, "Bearer token-2", sends(t, c, "Authorization"))

		require.False(t, c.Mend(t.Context(), refusedToken(2)), "just fetched: it is not the token")
		time.Sleep(renewEvery)
		require.True(t, c.Mend(t.Context(), refusedToken(2)))
		require.Equal(t, 3, i.calls)

		time.Sleep(renewEvery)
		i.err = errors.New("down")
		require.False(t, c.Mend(t.Context(), refusedToken(3)))
		require.Equal(t, "Bearer token-3", sends(t, c, "Authorization"))
		forbidden := refusedToken(3)
		forbidden.Status = http.StatusForbidden
		calls := i.calls
		require.False(t, c.Mend(t.Context(), forbidden), "another token of the same identity may do no more")
		require.Equal(t, calls, i.calls)
		i.err = nil
		time.Sleep(renewEvery)
		forbidden.Codes = []string{"ACCESS_TOKEN_EXPIRED"}
		require.True(t, c.Mend(t.Context(), forbidden))
	})
}

func TestAnIssuerThatGivesTheSameTokenMendsNothing(t *testing.T) {
	t.Parallel()
	c := newTokens(func(context.Context) (token, error) { return token{value: "token-1"}, nil }).credential("acct")
	require.Equal(t, "Bearer token-1", sends(t, c, "Authorization"))
	require.False(t, c.Mend(t.Context(), refusedToken(1)))
}

func TestNobodyWaitsLongerThanHeMay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{takes: time.Hour, lasts: time.Hour}
		c := newTokens(i.fetch).credential("")
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if err := c.Apply(ctx, Attempt{carried(t, "/"), noSum}); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 10*time.Second, time.Since(start))
		require.ErrorIs(t, c.Apply(t.Context(), Attempt{carried(t, "/"), noSum}), context.DeadlineExceeded)
		require.Equal(t, 10*time.Second+fetchTimeout, time.Since(start), "not even without a limit of his own")
	})
}
