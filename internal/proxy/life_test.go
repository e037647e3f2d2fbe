package proxy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pairCall is a batch of two images, of which the first is read at once and the second fails for a reason that passes.
func pairCall() (call, step) {
	return call{target: visionCall, header: asJSON, body: `{"requests":[{"image":{"content":"QQ=="}},{"image":{"content":"Qg=="}}]}`},
		step{after: 2 * time.Second, header: asJSON, body: `{"responses":[{"t":"A"},{"error":{"code":14}}]}`}
}

const (
	secondImage = `{"requests":[{"image":{"content":"Qg=="}}]}`
	bothImages  = `{"responses":[{"t":"A"},{"t":"B"}]}`
)

func TestACallThatWasPaidForInPartIsFinishedWithoutItsWorker(t *testing.T) {
	t.Parallel()
	batch, partly := pairCall()
	rest := step{after: 2 * time.Second, header: asJSON, body: `{"responses":[{"t":"B"}]}`}
	for name, c := range map[string]struct {
		setup setup
		call  call
		leave time.Duration // when the worker hangs up
		steps []step
		asked string // of the last attempt
		whole string
	}{
		"during the first answer":          {remembering("vision"), batch, time.Second, []step{partly, rest}, secondImage, bothImages},
		"during the wait":                  {remembering("vision"), batch, 2500 * time.Millisecond, []step{partly, rest}, secondImage, bothImages},
		"during the call for the rest":     {remembering("vision"), batch, 3500 * time.Millisecond, []step{partly, rest}, secondImage, bothImages},
		"although the rest fails at first": {remembering("vision"), batch, time.Second, []step{partly, {status: 503}, rest}, secondImage, bothImages},
		"pages that are missing":           {repairing(), analysis("QQ=="), time.Second, []step{{after: 2 * time.Second, header: asJSON, body: gapped}, {header: asJSON, body: fillings}}, twoAsked, repaired},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, c.setup, c.steps...)
				l.hangUpAfter(c.leave, c.call)
				time.Sleep(20 * time.Second)
				synctest.Wait()
				require.Zero(t, l.account.Purse.InProgress(), "it went on until it was finished, and no longer")
				require.Equal(t, 1, l.requests(ClientGone))
				r := l.send(t.Context(), c.call)
				require.Equal(t, c.whole, r.body)
				require.Equal(t, []string{"success", "0", "rescued"}, []string{r.own("Outcome"), r.own("Attempts"), r.own("Reason")})
				asked := l.upstream.attempts()
				require.Len(t, asked, len(c.steps))
				require.Equal(t, c.asked, asked[len(asked)-1].body, "what had come was not asked for again")
				require.Zero(t, l.sink.count())
				l.closing()
			})
		})
	}
}

func TestARepeatJoinsTheRestOfACallWhoseWorkerHungUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		batch, partly := pairCall()
		l := newLab(t, remembering("vision"), partly, step{after: 2 * time.Second, header: asJSON, body: `{"responses":[{"t":"B"}]}`})
		l.hangUpAfter(time.Second, batch)
		batch.header += "|Ocr-Proxy-Join: true"
		time.Sleep(1500 * time.Millisecond) // the first answer is there
		r := l.send(t.Context(), batch)
		require.Equal(t, []string{bothImages, "joined"}, []string{r.body, r.own("Reason")})
		require.Len(t, l.upstream.attempts(), 2)
		l.closing()
	})
}

// What such a call comes to is told to the repeat as it would have been told to the worker, the letter included.
func TestAPartThatWasPaidForIsNotPaidForAgain(t *testing.T) {
	t.Parallel()
	batch, partly := pairCall()
	for name, c := range map[string]struct {
		lose    func(l *lab)
		steps   []step
		body    string
		outcome Outcome
		before  int // letters that are written before the repeat
	}{
		"the rest fails to the end": {
			func(l *lab) { l.hangUpAfter(time.Second, batch) },
			[]step{partly, {status: 503}, {hang: true}, {status: 503}},
			partly.body, Exhausted, 0,
		},
		"the rest fails for good": {
			func(l *lab) { l.hangUpAfter(time.Second, batch) },
			[]step{{after: 2 * time.Second, header: asJSON, body: `{"responses":[{"t":"A"},{"error":{"code":3}}]}`}},
			`{"responses":[{"t":"A"},{"error":{"code":3}}]}`, Permanent, 0,
		},
		"the worker hangs up over the end": {
			func(l *lab) { l.loseAnswer(batch) },
			[]step{partly, {status: 503}, {status: 503}, {status: 503}},
			partly.body, Exhausted, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, remembering("vision"), c.steps...)
				c.lose(l)
				time.Sleep(90 * time.Second)
				synctest.Wait()
				require.Zero(t, l.account.Purse.InProgress(), "its time is bounded")
				require.Equal(t, c.before, l.sink.count())
				for range 2 { // the first repeat's worker hangs up over it
					l.loseAnswer(batch)
				}
				r := l.send(t.Context(), batch)
				require.Equal(t, []string{c.body, string(c.outcome), "0", "rescued"}, []string{r.body, r.own("Outcome"), r.own("Attempts"), r.own("Reason")})
				require.NotEmpty(t, r.own("Dead-Letter-Id"))
				require.Len(t, l.upstream.attempts(), len(c.steps))
				require.Len(t, l.sink.letters[len(l.sink.letters)-1].Attempts, len(c.steps), "with the history that it has")
				l.closing()
			})
		})
	}
}

func TestNothingGoesOnForNobodyWithoutAReason(t *testing.T) {
	t.Parallel()
	batch, partly := pairCall()
	bad := step{after: 2 * time.Second, header: asJSON, body: `{"responses":[{"error":{"code":3}},{"error":{"code":3}}]}`}
	nothing := step{after: 2 * time.Second, header: asJSON, body: `{"responses":[{"error":{"code":14}},{"error":{"code":14}}]}`}
	for name, c := range map[string]struct {
		setup setup
		leave time.Duration
		first step
	}{
		"nothing has come":           {remembering("vision"), time.Second, nothing},
		"every item failed for good": {remembering("vision"), time.Second, bad},
		"what has come is not kept":  {defaults("vision"), 2500 * time.Millisecond, partly},
		"the call failed as a whole": {remembering("vision"), time.Second, step{after: 2 * time.Second, status: 503}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, c.setup, c.first)
				l.hangUpAfter(c.leave, batch)
				time.Sleep(2*time.Second - c.leave) // until the first answer has come
				synctest.Wait()
				require.Zero(t, l.account.Purse.InProgress())
				time.Sleep(4 * time.Minute) // a kept answer would still be there
				require.Len(t, l.upstream.attempts(), 1)
				require.Zero(t, l.sink.count())
				l.upstream.script(step{header: asJSON, body: bothImages})
				require.Equal(t, "1", l.send(t.Context(), batch).own("Attempts"))
				l.quiet()
			})
		})
	}
}

func TestTheEndOfTheProxyEndsACallWithoutItsWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := remembering("vision")
		remember := s.account
		ending, end := context.WithCancelCause(t.Context())
		s.account = func(a *Account) {
			remember(a)
			a.Ending = ending
		}
		batch, partly := pairCall()
		l := newLab(t, s, partly)
		l.hangUpAfter(time.Second, batch)
		time.Sleep(1500 * time.Millisecond) // the answer has come, and the wait for the rest has begun
		end(ErrShutdown)
		synctest.Wait()
		require.Zero(t, l.account.Purse.InProgress())
		require.Equal(t, 1, l.requests(ClientGone))
		require.Zero(t, l.sink.count(), "a worker that hung up has its document")
		require.Len(t, l.upstream.attempts(), 1)
	})
}
