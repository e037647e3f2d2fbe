package credential

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// carried is a request with a worker's credentials everywhere they can be.
func carried(t *testing.T, target string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://upstream.example"+target, strings.NewReader("body"))
	require.NoError(t, err)
	r.Header = http.Header{
		"Authorization": {"Bearer theirs"}, "X-Api-Key": {"theirs"}, "Ocp-Apim-Subscription-Key": {"theirs"}, "Cookie": {"theirs"},
		"X-Amz-Security-Token": {"theirs"}, "X-Amz-Date": {"20200101T000000Z"}, "X-Amz-Content-Sha256": {"junk"},
		"Content-Type": {"application/json"}, "X-Amz-Target": {"Textract.AnalyzeDocument"}, "User-Agent": {"worker"}, "Idempotency-Key": {"stays"},
	}
	return r
}

func noSum() ([32]byte, error) { panic("this credential signs nothing") }

const (
	query      = "/a%2Fb?z=1&key=theirs&y=2&X-Amz-Signature=theirs"
	cleanQuery = "z=1&y=2"
)

func TestPassthroughLeavesEverything(t *testing.T) {
	t.Parallel()
	c := Passthrough()
	r := carried(t, query)
	want := r.Header.Clone()
	require.NoError(t, c.Apply(t.Context(), Attempt{r, noSum}))
	require.Equal(t, want, r.Header)
	require.Contains(t, r.URL.RawQuery, "key=theirs")
	require.True(t, c.PassesThrough())
	require.False(t, c.Own())
	require.Empty(t, c.Refuses(r.Header))
}

func TestNoneRemovesEverything(t *testing.T) {
	t.Parallel()
	c := None()
	r := carried(t, query)
	require.NoError(t, c.Apply(t.Context(), Attempt{r, noSum}))
	require.Equal(t, http.Header{
		"Content-Type": {"application/json"}, "X-Amz-Target": {"Textract.AnalyzeDocument"}, "User-Agent": {"worker"}, "Idempotency-Key": {"stays"},
	}, r.Header)
	require.Equal(t, cleanQuery, r.URL.RawQuery)
	require.Equal(t, "/a%2Fb", r.URL.EscapedPath())
	require.False(t, c.PassesThrough())
	require.False(t, c.Own())
}

func TestHeaderReplacesEverything(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, scheme string
		canonical    string
		want         string
	}{
		{"Authorization", "Bearer", "Authorization", "Bearer ours"},
		{"apikey", "", "Apikey", "ours"},
		{"X-Unusual", "", "X-Unusual", "ours"},
	} {
		own := Header(c.name, c.scheme, "ours")
		r := carried(t, query)
		r.Header.Set(c.name, "theirs")
		require.NoError(t, own.Apply(t.Context(), Attempt{r, noSum}))
		require.Equal(t, []string{c.want}, r.Header[c.canonical])
		for name, values := range r.Header {
			require.NotContains(t, values, "theirs", name)
		}
		require.Equal(t, cleanQuery, r.URL.RawQuery)
		require.True(t, own.Own())
		require.False(t, own.PassesThrough())
		require.Equal(t, []string{c.name}, own.Headers(), "so that nobody writes it down")
	}
}

// A URL is shared by all attempts: cutting the query must not change the one that the next attempt starts from.
func TestTheOriginalURLStays(t *testing.T) {
	t.Parallel()
	r := carried(t, query)
	before := *r.URL
	shared := r.URL
	require.NoError(t, None().Apply(t.Context(), Attempt{r, noSum}))
	require.Equal(t, before, *shared)
}
