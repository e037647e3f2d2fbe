package credential

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at is an answer's Date that far ahead of the signer's clock.
func at(ahead time.Duration) string {
	return time.Date(2026, 11, 30, 12, 34, 56, 0, time.UTC).Add(ahead).Format(http.TimeFormat)
}

// refusedBy signs a request and has it refused.
func refusedBy(t *testing.T, s *sigV4, code string, h http.Header) Refusal {
	t.Helper()
	r := carried(t, "/")
	require.NoError(t, s.apply(t.Context(), Attempt{r, sumOf("body")}))
	return Refusal{Status: http.StatusBadRequest, Codes: []string{code}, Header: h, Sent: r.Header}
}

func signedAt(t *testing.T, s *sigV4) string {
	t.Helper()
	return refusedBy(t, s, "", nil).Sent.Get("X-Amz-Date")
}

func TestASkewedClockFollowsTheProviders(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"InvalidSignatureException", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture", "AuthFailure", "AccessDeniedException",
	} {
		for _, ahead := range []time.Duration{10 * time.Minute, -time.Hour} {
			s := signer("")
			refusal := refusedBy(t, s, code, http.Header{"Date": {at(ahead)}})
			require.True(t, s.mend(t.Context(), refusal), code)
			require.Equal(t, time.Date(2026, 11, 30, 12, 34, 56, 0, time.UTC).Add(ahead).Format(amzDate), signedAt(t, s))
			require.True(t, s.mend(t.Context(), refusal), "another request that was signed by the old clock")
			require.False(t, s.mend(t.Context(), refusedBy(t, s, code, http.Header{"Date": {at(ahead)}})), "the clocks agree now")
			require.True(t, s.mend(t.Context(), refusedBy(t, s, code, http.Header{"Date": {at(0)}})), "this machine's clock was set")
			require.Equal(t, "20261130T123456Z", signedAt(t, s))
		}
	}
}

func TestAPlainMismatchIsNoSkew(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		code   string
		header http.Header
	}{
		"clocks agree":     {"InvalidSignatureException", http.Header{"Date": {at(3 * time.Second)}}},
		"at the threshold": {"RequestTimeTooSkewed", http.Header{"Date": {at(4 * time.Minute)}}},
		"no date":          {"InvalidSignatureException", http.Header{}},
		"no clock":         {"InvalidSignatureException", http.Header{"Date": {"soon"}}},
		"from a cache":     {"InvalidSignatureException", http.Header{"Date": {at(-time.Hour)}, "Age": {"3600"}}},
		"another code":     {"BadDocumentException", http.Header{"Date": {at(time.Hour)}}},
		"an expired token": {"ExpiredTokenException", http.Header{"Date": {at(time.Hour)}}},
		"no code":          {"", http.Header{"Date": {at(time.Hour)}}},
	} {
		s := signer("")
		require.False(t, s.mend(t.Context(), refusedBy(t, s, tt.code, tt.header)), name)
		require.Equal(t, "20261130T123456Z", signedAt(t, s), name)
	}
}

func TestExpiredCredentialsAreRenewed(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"ExpiredTokenException": true, "ExpiredToken": true, "RequestExpired": true, "UnrecognizedClientException": true, "InvalidClientTokenId": true,
		"InvalidSignatureException": false, "AccessDeniedException": false, "MissingAuthenticationToken": false,
	} {
		for _, renewed := range []bool{true, false} {
			s := signer("")
			s.renewed = func(_ context.Context, sent http.Header) bool {
				require.Contains(t, sent.Get("Authorization"), "AKIDEXAMPLE")
				return renewed
			}
			require.Equal(t, want && renewed, s.mend(t.Context(), refusedBy(t, s, code, http.Header{"Date": {at(0)}})), code)
		}
	}
}
