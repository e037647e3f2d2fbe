package proxy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	asJSON      = "Content-Type: application/json"
	visionCall  = "/v1/images:annotate"
	threeImages = `{"requests":[{"image":{"content":"QQ=="}},{"image":{"content":"Qg=="}},{"image":{"content":"Qw=="}}]}`
)

func TestOnlyFailedItemsAreAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, defaults("vision"),
			step{status: 200, header: asJSON, body: `{"responses":[{"t":"A"},{"error":{"code":14}},{"error":{"code":8}}]}`},
			step{status: 503, header: asJSON, body: `{"error":{"code":503,"status":"UNAVAILABLE"}}`},
			step{status: 200, header: asJSON, body: `{"responses":[{"t":"B"},{"error":{"code":13}}]}`},
			step{status: 200, header: asJSON, body: `{"responses":[{"t":"C"}]}`},
		)
		a := l.send(t.Context(), call{target: visionCall, header: asJSON, body: threeImages})
		require.Equal(t, 200, a.status)
		require.JSONEq(t, `{"responses":[{"t":"A"},{"t":"B"},{"t":"C"}]}`, a.body)
		require.Equal(t, "success", a.own("Outcome"))
		require.Equal(t, "4", a.own("Attempts"))
		var bodies []string
		for _, attempt := range l.upstream.attempts() {
			bodies = append(bodies, attempt.body)
		}
		require.Equal(t, []string{
			threeImages,
			`{"requests":[{"image":{"content":"Qg=="}},{"image":{"content":"Qw=="}}]}`,
			`{"requests":[{"image":{"content":"Qg=="}},{"image":{"content":"Qw=="}}]}`,
			`{"requests":[{"image":{"content":"Qw=="}}]}`,
		}, bodies)
		require.Empty(t, l.sink.letters)
	})
}

func TestGatheredItemsSurviveTheEndOfTheAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := defaults("vision")
		s.policy.MaxAttempts = 2
		l := newLab(t, s,
			step{status: 200, header: asJSON, body: `{"responses":[{"t":"A"},{"error":{"code":14}}]}`},
			step{status: 503, header: asJSON, body: `{"error":{"code":503,"status":"UNAVAILABLE"}}`},
		)
		a := l.send(t.Context(), call{target: visionCall, header: asJSON, body: `{"requests":[{"image":{"content":"QQ=="}},{"image":{"content":"Qg=="}}]}`})
		require.Equal(t, 200, a.status, "the items that were paid for are worth more than the news that the rest failed")
		require.JSONEq(t, `{"responses":[{"t":"A"},{"error":{"code":14}}]}`, a.body)
		require.Equal(t, "exhausted", a.own("Outcome"))
		require.Len(t, l.sink.letters, 1)
	})
}

func TestPermanentItemsAreNotAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answer := `{"responses":[{"t":"A"}, {"error":{"code":3}}]}`
		l := newLab(t, defaults("vision"), step{status: 200, header: asJSON, body: answer})
		a := l.send(t.Context(), call{target: visionCall, header: asJSON, body: threeImages})
		require.Equal(t, answer, a.body, "byte for byte")
		require.Equal(t, "1", a.own("Attempts"))
		require.Equal(t, "permanent", a.own("Outcome"))
		require.Len(t, l.sink.letters, 1)
		require.Zero(t, a.took, "nothing to wait for")
	})
}
