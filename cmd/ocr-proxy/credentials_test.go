package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
	"github.com/ocr-proxy/ocr-proxy/internal/sim"
)

// withAuth wires one account.
func withAuth(t *testing.T, kind, upstream, auth string, environ ...string) *proxy.Account {
	t.Helper()
	cfg, err := config.Load(file(t, "c.yaml", fmt.Sprintf("providers:\n  - {name: acct, kind: %s, listen: '127.0.0.1:0', upstream: %q, auth: {%s}}\n", kind, upstream, auth)), environ)
	require.NoError(t, err)
	return wired(t, cfg, environ)[0]
}

func TestEveryTypeOfAuthWires(t *testing.T) {
	t.Parallel()
	const nowhere = "http://127.0.0.1:1" // nobody is asked
	for auth, own := range map[string]bool{
		"type: passthrough": false, "type: none": false, "type: google_adc": true, "type: azure_entra": true,
		"type: header, header: X-Key, value_env: THE_KEY":                                             true,
		"type: header, header: X-Key, scheme: Bearer, value_file: " + file(t, "key", "k\n"):           true,
		"type: sigv4, region: eu-west-1, role_arn: 'arn:aws:iam::123456789012:role/ocr', service: s3": true,
	} {
		account := withAuth(t, "generic", nowhere, auth, "THE_KEY=k")
		require.Equal(t, own, account.Credential.Own(), auth)
	}
}

// The proxy's signature, made for the provider's address in place of the worker's, is one that a strict verifier takes.
func TestSignaturesPassAStrictVerifier(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "very-secret", "AWS_SESSION_TOKEN": "session", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": filepath.Join(dir, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "credentials"),
	} {
		t.Setenv(name, value)
	}
	keys, err := sim.ParseSignatures("AKIDEXAMPLE=very-secret,session")
	require.NoError(t, err)
	keys.Region = "eu-west-1"
	provider, err := sim.New(sim.Options{Kind: sim.KindTextract, Signatures: keys, Faults: sim.Faults{Script: []sim.Step{{Status: http.StatusServiceUnavailable}}}})
	require.NoError(t, err)
	account := withAuth(t, "textract", provide(t, provider.ServeHTTP), "region: eu-west-1")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", strings.NewReader(`{"Document":{"S3Object":{"Bucket":"b","Name":"n"}}}`))
	r.RequestURI = "/"
	r.Header = http.Header{
		"X-Amz-Target": {"Textract.DetectDocumentText"}, "Content-Type": {"application/x-amz-json-1.1"}, "X-Amz-Date": {"20200101T000000Z"},
		"X-Amz-Security-Token": {"theirs"}, "X-Amz-User-Agent": {"sdk  1"}, "X-Forwarded-For": {"10.0.0.1"},
		"Authorization": {"AWS4-HMAC-SHA256 Credential=theirs/20200101/us-east-1/textract/aws4_request, SignedHeaders=host, Signature=00"},
	}
	answer := httptest.NewRecorder()
	account.ServeHTTP(answer, r)
	require.Equal(t, http.StatusOK, answer.Code, answer.Body.String())
	require.Equal(t, "2", answer.Header().Get("Ocr-Proxy-Attempts"), "a signature for each attempt")
}

func TestSimTakesKeysToVerify(t *testing.T) {
	t.Parallel()
	options, err := simFlags{kind: "textract", engine: "canned", keys: "AKID=very-secret,token", region: "eu-west-1", window: 1}.options(nil)
	require.NoError(t, err)
	require.Equal(t, &sim.Signatures{KeyID: "AKID", Secret: "very-secret", Token: "token", Region: "eu-west-1", Window: 1}, options.Signatures)
	for _, flags := range [][]string{
		{"--kind", "textract", "--verify-sigv4", "very-secret"},
		{"--kind", "textract", "--verify-sigv4", "AKID=very-secret", "--signature-window", "0s"},
		{"--kind", "azure", "--verify-sigv4", "AKID=very-secret"},
	} {
		code, _, stderr := command(t, "", nil, append([]string{"sim", "--listen", "127.0.0.1:0"}, flags...)...)
		require.NotZero(t, code)
		require.NotEmpty(t, stderr)
		require.NotContains(t, stderr, "very-secret")
	}
}
