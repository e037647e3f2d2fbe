package calls_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ocr-proxy/ocr-proxy/internal/calls"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pool(t *testing.T) *spool.Pool {
	t.Helper()
	p, err := spool.New(spool.Limits{MaxBytes: 1 << 20, MemoryPerBody: 1 << 20, MemoryTotal: 1 << 20, Dir: t.TempDir()}, prometheus.NewRegistry())
	require.NoError(t, err)
	return p
}

func answer(t *testing.T, p *spool.Pool, text string) *calls.Answer {
	t.Helper()
	body := p.Body(int64(len(text)))
	_, err := body.ReadFrom(strings.NewReader(text))
	require.NoError(t, err)
	return calls.NewAnswer(http.StatusOK, http.Header{"X": {"1"}}, body)
}

// text reads a share's body and gives it back.
func text(t *testing.T, a *calls.Answer) string {
	t.Helper()
	require.NotNil(t, a)
	r := a.Open()
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	a.Release()
	return string(data)
}

func call(id, print string) calls.Call {
	return calls.Call{Account: "a", ID: id, Operation: "op", Size: 3, Print: func() (string, error) { return print, nil }}
}

// join makes a call that would rather have another's answer.
func join(ctx context.Context, table *calls.Table, c calls.Call) (*calls.Answer, error) {
	f := table.Enter(c)
	defer f.Land(func(bool) *calls.Answer { return nil })
	return f.Join(ctx)
}

func limits() calls.Limits { return calls.Limits{TTL: time.Minute, MaxBytes: 100} }

func TestRepeatedCallsAreJoined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, table := pool(t), calls.New(limits())
		f := table.Enter(call("1", "p"))
		got := make(chan *calls.Answer, 2)
		for range 2 {
			go func() {
				a, err := join(t.Context(), table, call("1", "p"))
				assert.NoError(t, err)
				got <- a
			}()
		}
		synctest.Wait()
		first := answer(t, p, "yes")
		f.Land(func(wanted bool) *calls.Answer { require.True(t, wanted); return first })
		require.Equal(t, "yes", text(t, <-got))
		require.Equal(t, "yes", text(t, <-got))
		require.Equal(t, "yes", text(t, first), "the first worker has its share, too")
		a, err := join(t.Context(), table, call("1", "p"))
		require.NoError(t, err)
		require.Nil(t, a, "what has landed cannot be joined")
	})
}

func TestWhatIsNotTheSameCallIsNotJoined(t *testing.T) {
	t.Parallel()
	table := calls.New(limits())
	f := table.Enter(call("1", "p"))
	defer f.Land(func(bool) *calls.Answer { return nil })
	other := func(change func(c *calls.Call)) calls.Call {
		c := call("1", "p")
		change(&c)
		return c
	}
	for name, c := range map[string]calls.Call{
		"another id":         call("2", "p"),
		"another request":    call("1", "q"),
		"no id and no retry": call("", "p"),
		"another account":    other(func(c *calls.Call) { c.Account = "b" }),
		"another credential": other(func(c *calls.Call) { c.Credential = "k" }),
		"another operation":  other(func(c *calls.Call) { c.Operation = "x" }),
		"another size":       other(func(c *calls.Call) { c.Size = 4 }),
		"unreadable":         other(func(c *calls.Call) { c.Print = func() (string, error) { return "", io.ErrUnexpectedEOF } }),
	} {
		a, err := join(t.Context(), table, c)
		require.NoError(t, err, name)
		require.Nil(t, a, name)
	}
}

func TestARetryWithoutAnIDIsJoinedByItsContent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := calls.New(limits())
		f := table.Enter(call("", "p"))
		joined := make(chan *calls.Answer)
		again := call("", "p")
		again.Again = true
		go func() {
			a, _ := join(t.Context(), table, again)
			joined <- a
		}()
		synctest.Wait()
		f.Land(func(wanted bool) *calls.Answer { require.True(t, wanted); return nil })
		require.Nil(t, <-joined, "nothing to share: it makes the call itself")
	})
}

func TestWaitingForAnotherCallEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, table := pool(t), calls.New(limits())
		f := table.Enter(call("1", "p"))
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		_, err := join(ctx, table, call("1", "p"))
		require.ErrorIs(t, err, gone)
		a := answer(t, p, "yes")
		f.Land(func(wanted bool) *calls.Answer { require.False(t, wanted, "nobody is left"); return a })
		a.Release()
	})
}

func TestAnUndeliveredAnswerIsGivenOnce(t *testing.T) {
	t.Parallel()
	p, table := pool(t), calls.New(limits())
	a := answer(t, p, "yes")
	require.NoError(t, table.Keep(call("1", "p"), a))
	a.Release()
	require.EqualValues(t, 3, table.Bytes())
	for _, c := range []calls.Call{call("", "q"), {Account: "a", Credential: "k", Print: call("", "p").Print}} {
		other, err := table.Take(c)
		require.NoError(t, err)
		require.Nil(t, other)
	}
	got, err := table.Take(call("", "p"))
	require.NoError(t, err)
	require.Equal(t, "yes", text(t, got))
	got, err = table.Take(call("", "p"))
	require.NoError(t, err)
	require.Nil(t, got)
	require.Zero(t, table.Bytes())
}

func TestABuriedAnswerIsForTheLibrarysOwnRetry(t *testing.T) {
	t.Parallel()
	p, table := pool(t), calls.New(limits())
	defer table.Close()
	a := answer(t, p, "no!")
	a.Buried = true
	require.NoError(t, table.Keep(call("1", "p"), a))
	a.Release()
	fresh, err := table.Take(call("2", "p"))
	require.NoError(t, err)
	require.Nil(t, fresh, "a new call deserves a try of its own")
	for range 3 {
		got, err := table.Take(call("1", "p"))
		require.NoError(t, err)
		require.Equal(t, "no!", text(t, got))
	}
	marked := call("", "p")
	marked.Again = true
	got, err := table.Take(marked)
	require.NoError(t, err)
	require.Equal(t, "no!", text(t, got))
}

func TestKeptAnswersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, table := pool(t), calls.New(limits())
		keep := func(print string, size int) {
			a := answer(t, p, strings.Repeat("x", size))
			require.NoError(t, table.Keep(call("", print), a))
			a.Release()
		}
		keep("too large", 101)
		require.Zero(t, table.Bytes())
		keep("p1", 60)
		keep("p2", 40)
		keep("p3", 10)
		require.EqualValues(t, 50, table.Bytes(), "the oldest made room")
		a, err := table.Take(call("", "p1"))
		require.NoError(t, err)
		require.Nil(t, a)
		keep("p3", 20)
		require.EqualValues(t, 60, table.Bytes(), "a newer answer to the same call takes the place of the older")
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		require.Zero(t, table.Bytes(), "the time is over")
		a, err = table.Take(call("", "p2"))
		require.NoError(t, err)
		require.Nil(t, a)
	})
}

func TestNothingIsKeptWhenItIsOff(t *testing.T) {
	t.Parallel()
	p, table := pool(t), calls.New(calls.Limits{MaxBytes: 100})
	require.False(t, table.On())
	require.False(t, (*calls.Table)(nil).On())
	a := answer(t, p, "yes")
	require.NoError(t, table.Keep(call("", "p"), a))
	a.Release()
	got, err := table.Take(calls.Call{Account: "a", Print: func() (string, error) { t.Error("hashed for nothing"); return "", nil }})
	require.NoError(t, err)
	require.Nil(t, got)
}

// An answer that cannot be shared must not make those who wait for it queue up behind each other.
func TestWhoWaitsForAnAnswerThatCannotBeSharedGoesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := calls.New(limits())
		first, second, third := table.Enter(call("1", "p")), table.Enter(call("1", "p")), table.Enter(call("1", "p"))
		results := make(chan *calls.Answer, 2)
		for _, f := range []*calls.Flight{second, third} {
			go func() {
				a, err := f.Join(t.Context())
				assert.NoError(t, err)
				results <- a
			}()
		}
		synctest.Wait()
		first.Land(func(bool) *calls.Answer { return nil })
		require.Nil(t, <-results)
		require.Nil(t, <-results)
		second.Abandon()
		third.Abandon()
	})
}
