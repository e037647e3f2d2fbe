package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/credential"
)

// Every attempt is signed when it goes, over what goes: a signature made before a wait would be stale.
func TestEveryAttemptIsSignedAnew(t *testing.T) {
	const token = "planted-session-token-4be1"
	dir := t.TempDir()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "very-secret-key", "AWS_SESSION_TOKEN": token, "AWS_PROFILE": "", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": filepath.Join(dir, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "credentials"),
	} {
		t.Setenv(name, value)
	}
	synctest.Test(t, func(t *testing.T) {
		signer, err := credential.SigV4(t.Context(), credential.SigV4Options{Region: "us-east-1", Service: "textract"})
		require.NoError(t, err)
		s := defaults("textract")
		s.account = func(a *Account) { a.Credential = signer }
		// What AWS says about a signature that does not match: all that was signed, the session token among it.
		mismatch := `{"__type":"InvalidSignatureException","message":"The Canonical String should have been 'x-amz-security-token:` + token + `'"}`
		l := newLab(t, s, step{status: 429, header: "Retry-After: 3"}, step{status: 403, body: mismatch})
		r := l.send(t.Context(), call{target: "/", header: startJob + "|Authorization: AWS4-HMAC-SHA256 theirs|X-Amz-Date: 20200101T000000Z", body: `{"DocumentLocation":{}}`})
		require.Equal(t, "auth", r.own("Class"))

		seen := l.upstream.attempts()
		require.Len(t, seen, 2)
		for _, a := range seen {
			require.Len(t, tokenOf(t, a.body), 64, "the body that goes out is the one with the token in it")
			require.Equal(t, a.at.UTC().Format("20060102T150405Z"), a.header.Get("X-Amz-Date"), "signed when it was sent")
			again, err := http.NewRequestWithContext(t.Context(), a.method, "http://provider"+a.target, strings.NewReader(a.body))
			require.NoError(t, err)
			for name, values := range a.header {
				if name == "Content-Type" || name == "X-Amz-Target" {
					again.Header[name] = values
				}
			}
			sum := sha256.Sum256([]byte(a.body))
			keys := aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "very-secret-key", SessionToken: token}
			require.NoError(t, v4.NewSigner().SignHTTP(t.Context(), keys, again, hex.EncodeToString(sum[:]), "textract", "us-east-1", a.at))
			require.Equal(t, again.Header.Get("Authorization"), a.header.Get("Authorization"), "over the bytes that arrived")
			require.Equal(t, []string{token}, a.header["X-Amz-Security-Token"])
		}
		require.Equal(t, 3300*time.Millisecond, seen[1].at.Sub(seen[0].at))
		require.NotEqual(t, seen[0].header.Get("Authorization"), seen[1].header.Get("Authorization"))
		require.NotContains(t, dump(t, l.sink.letters[0]), token, "an echo of what was signed is not written down")
		require.NotContains(t, l.logText(), token)
	})
}

func TestABodySignedChunkByChunkIsRefused(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	signer, err := credential.SigV4(t.Context(), credential.SigV4Options{Region: "us-east-1", Service: "textract"})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		s := defaults("textract")
		s.account = func(a *Account) { a.Credential = signer }
		l := newLab(t, s)
		r := l.send(t.Context(), call{header: "Content-Encoding: aws-chunked", body: "a;chunk-signature=00"})
		require.Equal(t, http.StatusBadRequest, r.status)
		require.Equal(t, "streaming_signature", r.own("Reason"))
		require.Empty(t, l.upstream.attempts())
	})
}
