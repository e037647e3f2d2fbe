package proxy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	gapped   = `{"pages":[{"index":0,"t":"a"},{"index":3,"t":"d"}],"model":"m"}`
	repaired = `{"pages":[{"index":0,"t":"a"},{"index":1,"t":"b"},{"index":2,"t":"c"},{"index":3,"t":"d"}],"model":"m"}`
	fillings = `{"pages":[{"index":1,"t":"b"},{"index":2,"t":"c"}],"model":"m"}`
	twoAsked = `{"pages":[1,2],"model":"m","document":{"type":"document_url","document_url":"data:application/pdf;base64,QQ=="}}`
)

func repairing() setup { return repairingKind("mistral") }

func repairingKind(kind string) setup {
	s := remembering(kind)
	remember := s.account
	s.account = func(a *Account) {
		remember(a)
		a.RepairPages = true
	}
	return s
}

func TestMissingPagesAreAskedForOnceAndAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, repairing(), step{header: asJSON + "|X-Kong-Request-Id: first", body: gapped}, step{header: asJSON, body: fillings})
		r := l.send(t.Context(), analysis("QQ=="))
		require.Equal(t, repaired, r.body)
		require.Equal(t, []string{"success", "2", "success", "pages=1,2; attempts=1"}, []string{r.own("Outcome"), r.own("Attempts"), r.own("Class"), r.own("Repaired")})
		require.Equal(t, "first", r.header.Get("X-Kong-Request-Id"))
		require.Equal(t, twoAsked, l.upstream.attempts()[1].body, "pages that were read are not sent for again")
		require.Zero(t, r.took)
		require.Empty(t, l.sink.letters)
		l.closing()
	})
}

func TestDocumentAIsPagesAreAskedForToo(t *testing.T) {
	const (
		first  = `{"document":{"text":"a\nc\n","pages":[{"pageNumber":1},{"pageNumber":3,"layout":{"textAnchor":{"textSegments":[{"startIndex":"2","endIndex":"4"}]}}}]}}`
		second = `{"document":{"text":"b\n","pages":[{"pageNumber":2,"layout":{"textAnchor":{"textSegments":[{"endIndex":"2"}]}}}]}}`
		whole  = `{"document":{"text":"a\nc\nb\n","pages":[{"pageNumber":1},{"pageNumber":2,"layout":{"textAnchor":{"textSegments":[{"startIndex":"4","endIndex":"6"}]}}},` +
			`{"pageNumber":3,"layout":{"textAnchor":{"textSegments":[{"startIndex":"2","endIndex":"4"}]}}}]}}`
	)
	t.Parallel()
	for _, processor := range []string{"x", "x/processorVersions/rc"} {
		t.Run(processor, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, repairingKind("documentai"), step{header: asJSON, body: first}, step{header: asJSON, body: second})
				r := l.send(t.Context(), call{target: "/v1/projects/p/locations/us/processors/" + processor + ":process", header: asJSON, body: `{"rawDocument":{"content":"QQ=="}}`})
				require.Equal(t, []string{whole, "success", "2", "pages=2; attempts=1"}, []string{r.body, r.own("Outcome"), r.own("Attempts"), r.own("Repaired")})
				require.Equal(t, `{"processOptions":{"individualPageSelector":{"pages":[2]}},"rawDocument":{"content":"QQ=="}}`, l.upstream.attempts()[1].body)
				l.closing()
			})
		})
	}
}

func TestAWholeAnswerAndOneThatIsNotToBeRepairedStayAsTheyAre(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, repairing(), step{header: asJSON, body: repaired}, step{header: asJSON, body: gapped})
		r := l.send(t.Context(), analysis("QQ=="))
		require.Equal(t, []string{repaired, "1", ""}, []string{r.body, r.own("Attempts"), r.own("Repaired")})
		l.account.RepairPages = false
		r = l.send(t.Context(), analysis("Qg=="))
		require.Equal(t, []string{gapped, "1", ""}, []string{r.body, r.own("Attempts"), r.own("Repaired")})
		l.closing()
	})
}

// Whatever the second call brings, a good answer is never made worse by it.
func TestARepairThatFailsLeavesTheAnswer(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]step{
		"error":         {status: 503, header: asJSON, body: `{"message":"busy"}`},
		"refusal":       {status: 400, header: asJSON, body: `{"message":"no such page"}`},
		"throttle":      {status: 429, header: "Retry-After: 30"},
		"lost":          {lost: true},
		"hang":          {hang: true},
		"foreign page":  {header: asJSON, body: `{"pages":[{"index":7}]}`},
		"same pages":    {header: asJSON, body: gapped},
		"nothing":       {header: asJSON, body: `{"pages":[]}`},
		"no JSON":       {header: asJSON, body: `<html>`},
		"another type":  {header: "Content-Type: text/html", body: `<html>`},
		"error in 200":  {header: asJSON, body: `{"object":"error","message":"x"}`},
		"broken answer": {header: asJSON, body: `{"pages":[`, missing: 10},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, repairing(), step{header: asJSON, body: gapped}, second)
				r := l.send(t.Context(), analysis("QQ=="))
				require.Equal(t, 200, r.status)
				require.Equal(t, []string{gapped, "success", "success", "2", "", ""},
					[]string{r.body, r.own("Outcome"), r.own("Class"), r.own("Attempts"), r.own("Repaired"), r.own("Dead-Letter-Id")})
				require.Empty(t, l.sink.letters)
				require.Equal(t, 1, l.requests(Success))
				l.closing()
			})
		})
	}
}

func TestAThrottledRepairHoldsTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, repairing(), step{header: asJSON, body: gapped}, step{status: 429, header: "Retry-After: 30"}, step{header: asJSON, body: repaired})
		r := l.send(t.Context(), analysis("QQ=="))
		require.Equal(t, gapped, r.body)
		require.Zero(t, r.took)
		next := l.send(t.Context(), analysis("Qg=="))
		require.Equal(t, 30*time.Second, next.took)
		l.closing()
	})
}

func TestARepairStaysWithinAttemptsAndCircuit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := repairing()
		s.policy.MaxAttempts = 2
		l := newLab(t, s, step{status: 503}, step{header: asJSON, body: gapped})
		r := l.send(t.Context(), analysis("QQ=="))
		require.Equal(t, []string{gapped, "2"}, []string{r.body, r.own("Attempts")})
		l.closing()
	})
}

func TestAWorkerThatHangsUpOverARepairFindsItDone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, repairing(), step{header: asJSON, body: gapped}, step{after: 2 * time.Second, header: asJSON, body: fillings})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, l.send(ctx, analysis("QQ==")).err)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r := l.send(t.Context(), analysis("QQ=="))
		require.Equal(t, []string{repaired, "rescued", "pages=1,2; attempts=1"}, []string{r.body, r.own("Reason"), r.own("Repaired")})
		require.Len(t, l.upstream.attempts(), 2)
		l.closing()
	})
}
