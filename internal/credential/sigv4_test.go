package credential

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"
)

// signer makes a credential with fixed keys and a fixed clock.
func signer(token string) *sigV4 {
	keys := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "very-secret", SessionToken: token}, nil
	})
	at := time.Date(2026, 11, 30, 12, 34, 56, 0, time.UTC)
	return &sigV4{credentials: keys, region: "eu-west-1", service: "textract", signer: v4.NewSigner(), now: func() time.Time { return at }}
}

func sumOf(body string) func() ([32]byte, error) {
	return func() ([32]byte, error) { return sha256.Sum256([]byte(body)), nil }
}

// verify recomputes a signature from what arrives, as the service does, without any code of the signer's.
func verify(t *testing.T, r *http.Request, body, secret string) (signed []string) {
	t.Helper()
	authorization := r.Header.Get("Authorization")
	rest, ok := strings.CutPrefix(authorization, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261130/eu-west-1/textract/aws4_request, SignedHeaders=")
	require.True(t, ok, authorization)
	list, signature, ok := strings.Cut(rest, ", Signature=")
	require.True(t, ok, authorization)
	signed = strings.Split(list, ";")
	require.True(t, slices.IsSorted(signed))

	hash := func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) }
	mac := func(key []byte, s string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(s))
		return m.Sum(nil)
	}

	var canonical strings.Builder
	canonical.WriteString(r.Method + "\n" + strings.ReplaceAll(r.URL.EscapedPath(), "%", "%25") + "\n")
	canonical.WriteString(canonicalQuery(r.URL.RawQuery) + "\n")
	for _, name := range signed {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = "4"
		}
		canonical.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	canonical.WriteString("\n" + list + "\n" + hash(body))
	toSign := "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n20261130/eu-west-1/textract/aws4_request\n" + hash(canonical.String())
	key := mac(mac(mac(mac([]byte("AWS4"+secret), "20261130"), "eu-west-1"), "textract"), "aws4_request")
	require.Equal(t, hex.EncodeToString(mac(key, toSign)), signature, "canonical request:\n%s", canonical.String())
	return signed
}

func canonicalQuery(raw string) string {
	if raw == "" {
		return ""
	}
	pairs := strings.Split(raw, "&")
	for i, pair := range pairs {
		k, v, _ := strings.Cut(pair, "=")
		k, _ = url.QueryUnescape(k)
		v, _ = url.QueryUnescape(v)
		escape := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
		pairs[i] = escape(k) + "=" + escape(v)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

func TestSigV4(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, target, token string
	}{
		{"static keys", "/", ""},
		{"temporary keys", "/", "session-token-of-ours"},
		{"a path and a query", "/v1/a%2Fb%3Ac?b=2&a=x%20y&key=theirs", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := carried(t, c.target)
			r.Host = "textract.eu-west-1.amazonaws.com"
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=placeholder/20200101/us-east-1/textract/aws4_request, SignedHeaders=host, Signature=00")
			for name, value := range map[string]string{
				"X-Forwarded-For": "10.0.0.1", "Forwarded": "for=1", "Via": "1.1 hop", "Accept-Encoding": "gzip", "Amz-Sdk-Invocation-Id": "id-1",
				"Amz-Sdk-Request": "attempt=3", "Date": "Wed, 01 Jan 2020 00:00:00 GMT", "X-Amz-User-Agent": "sdk",
			} {
				r.Header.Set(name, value)
			}
			require.NoError(t, signer(c.token).apply(t.Context(), Attempt{r, sumOf("body")}))

			signed := verify(t, r, "body", "very-secret")
			require.Subset(t, signed, []string{"host", "x-amz-date", "x-amz-target", "content-type", "x-amz-user-agent"})
			for _, name := range signed {
				require.NotContains(t, []string{"x-forwarded-for", "forwarded", "via", "accept-encoding", "user-agent", "connection", "expect", "te"}, name,
					"a hop on the way may change it")
			}
			require.Equal(t, "20261130T123456Z", r.Header.Get("X-Amz-Date"))
			require.Equal(t, c.token, r.Header.Get("X-Amz-Security-Token"))
			require.Equal(t, c.token != "", slices.Contains(signed, "x-amz-security-token"))
			for name := range r.Header {
				if strings.HasPrefix(name, "X-Amz-") {
					require.Contains(t, signed, strings.ToLower(name), "what of this family is sent is signed")
				}
			}
			for _, name := range []string{"Date", "Amz-Sdk-Request", "X-Amz-Content-Sha256", "Cookie", "X-Api-Key"} {
				require.NotContains(t, r.Header, name, "gone")
			}
			require.Equal(t, "10.0.0.1", r.Header.Get("X-Forwarded-For"), "untouched")
			require.Equal(t, "id-1", r.Header.Get("Amz-Sdk-Invocation-Id"))
			require.NotContains(t, r.URL.RawQuery, "theirs")
		})
	}
}

func TestAChangedBodyDoesNotVerify(t *testing.T) {
	t.Parallel()
	r := carried(t, "/")
	require.NoError(t, signer("").apply(t.Context(), Attempt{r, sumOf("body")}))
	first := r.Header.Get("Authorization")
	require.NoError(t, signer("").apply(t.Context(), Attempt{r, sumOf("other")}))
	require.NotEqual(t, first, r.Header.Get("Authorization"))
	require.Len(t, r.Header["Authorization"], 1)
	verify(t, r, "other", "very-secret")
}

func TestSigV4ErrorsNameNoValue(t *testing.T) {
	t.Parallel()
	s := signer("")
	s.credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, errors.New("expired") })
	require.ErrorContains(t, s.apply(t.Context(), Attempt{carried(t, "/"), sumOf("")}), "no AWS credentials: expired")
	err := signer("session-token-of-ours").apply(t.Context(), Attempt{carried(t, "/"), func() ([32]byte, error) { return [32]byte{}, errors.New("disk") }})
	require.ErrorContains(t, err, "hash the body to sign it: disk")
	require.NotContains(t, err.Error(), "session-token-of-ours")
}

func TestStreamingSignaturesAreRefused(t *testing.T) {
	t.Parallel()
	c := &Credential{refuses: refuseStreamingSignature}
	for _, h := range []http.Header{
		{"Content-Encoding": {"aws-chunked"}},
		{"Content-Encoding": {"AWS-Chunked,gzip"}},
		{"X-Amz-Content-Sha256": {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}},
		{"X-Amz-Content-Sha256": {"STREAMING-UNSIGNED-PAYLOAD-TRAILER"}},
	} {
		require.Contains(t, c.Refuses(h), "chunk by chunk", "%v", h)
	}
	require.Empty(t, c.Refuses(http.Header{"Content-Encoding": {"gzip"}, "X-Amz-Content-Sha256": {"e3b0c442"}}))
}

// The chain of the SDK: keys come from the environment, and a region must come from somewhere.
func TestSigV4Chain(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": filepath.Join(dir, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "credentials"), "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	_, err := SigV4(t.Context(), SigV4Options{Service: "textract"})
	require.ErrorContains(t, err, "set auth.region")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "credentials"), []byte("[prod]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = very-secret\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config"), []byte("[profile prod]\nregion = eu-west-1\n"), 0o600))
	c, err := SigV4(t.Context(), SigV4Options{Service: "textract", Profile: "prod"})
	require.NoError(t, err)
	require.True(t, c.Own())
	r := carried(t, "/")
	require.NoError(t, c.Apply(t.Context(), Attempt{r, sumOf("body")}))
	require.Contains(t, r.Header.Get("Authorization"), "Credential=AKIDEXAMPLE/")
	require.Contains(t, r.Header.Get("Authorization"), "/eu-west-1/textract/aws4_request")
	require.NotEmpty(t, c.Refuses(http.Header{"Content-Encoding": {"aws-chunked"}}))
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Minute)
}
