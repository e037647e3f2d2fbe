package sim

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"
)

const (
	signedBody  = `{"Document":{"S3Object":{"Bucket":"b","Name":"n"}}}`
	ourSecret   = "wJalrXUtnFEMI/K7MDENG"
	noSuchToken = ""
)

func keys(token string) *Signatures {
	return &Signatures{KeyID: "AKIDEXAMPLE", Secret: ourSecret, Token: token}
}

// made is a request that the SDK's signer has signed at that time, as it arrives at a server.
func made(t *testing.T, target, token string, at time.Time, change func(r *http.Request)) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://textract.example"+target, strings.NewReader(signedBody))
	r.Header = http.Header{
		"X-Amz-Target": {"Textract.DetectDocumentText"}, "Content-Type": {"application/x-amz-json-1.1"}, "X-Amz-Meta": {"  a   b "},
	}
	if change != nil {
		change(r)
	}
	secrets := aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: ourSecret, SessionToken: token}
	require.NoError(t, v4.NewSigner().SignHTTP(t.Context(), secrets, r, hashOf([]byte(signedBody)), "textract", "us-east-1", at))
	_, r.RequestURI, _ = strings.Cut(r.URL.String(), "http://textract.example")
	return r
}

func TestSignaturesOfTheSDKPass(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 34, 56, 700e6, time.UTC)
	for name, tt := range map[string]struct {
		target, token string
		at            time.Time
	}{
		"static keys":     {target: "/", at: now},
		"temporary keys":  {target: "/", token: "session-token", at: now},
		"as old as may":   {target: "/", at: now.Add(-1300 * time.Millisecond)},
		"as new as may":   {target: "/", at: now.Add(2 * time.Second)},
		"path and query":  {target: "/a%2Fb/c:d?b=2&a=x%20y&c&a=%2B1", at: now},
		"empty parameter": {target: "/?x=&y", at: now},
	} {
		t.Run(name, func(t *testing.T) {
			require.Nil(t, keys(tt.token).check(made(t, tt.target, tt.token, tt.at, nil), []byte(signedBody), now))
		})
	}
	claimed := made(t, "/", noSuchToken, now, func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", hashOf([]byte(signedBody))) })
	require.Nil(t, keys("").check(claimed, []byte(signedBody), now))
}

func TestTamperedRequestsDoNotPass(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 0, 0, 1, 0, time.UTC)
	const token = "session-token"
	rewrite := func(from, to string) func(r *http.Request) {
		return func(r *http.Request) {
			old := r.Header.Get("Authorization")
			r.Header.Set("Authorization", strings.Replace(old, from, to, 1))
			require.NotEqual(t, old, r.Header.Get("Authorization"))
		}
	}
	for name, tt := range map[string]struct {
		tamper func(r *http.Request)
		body   string        // signedBody
		at     time.Duration // of the signature, from now
		says   string
	}{
		"no signature":       {tamper: func(r *http.Request) { r.Header.Del("Authorization") }, says: "Authorization header is missing"},
		"another algorithm":  {tamper: rewrite("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), says: "not of the algorithm"},
		"two signatures":     {tamper: func(r *http.Request) { r.Header.Add("Authorization", "AWS4-HMAC-SHA256 x") }, says: "2 Authorization headers"},
		"two dates":          {tamper: func(r *http.Request) { r.Header.Add("X-Amz-Date", "20261130T000001Z") }, says: "2 X-Amz-Date headers"},
		"two tokens":         {tamper: func(r *http.Request) { r.Header.Add("X-Amz-Security-Token", token) }, says: "2 X-Amz-Security-Token headers"},
		"a part twice":       {tamper: rewrite(", Signature=", ", Signature=0, Signature="), says: "a part twice"},
		"a part missing":     {tamper: rewrite("SignedHeaders=", "Signed="), says: "needs Credential"},
		"wrong region":       {tamper: rewrite("us-east-1", "eu-west-1"), says: "scoped to 20261130/us-east-1/textract/aws4_request"},
		"wrong service":      {tamper: rewrite("/textract/", "/s3/"), says: "scoped to"},
		"wrong day":          {tamper: rewrite("/20261130/", "/20261129/"), says: "scoped to"},
		"no date":            {tamper: func(r *http.Request) { r.Header.Del("X-Amz-Date") }, says: "X-Amz-Date header is missing"},
		"too old":            {at: -3 * time.Second, says: "Signature expired: 20261129T235958Z is now earlier than 20261129T235959Z (20261130T000001Z - 2s)"},
		"too new":            {at: 3 * time.Second, says: "Signature not yet current: 20261130T000004Z is still later than 20261130T000003Z"},
		"host not signed":    {tamper: rewrite(";host;", ";"), says: "header host must be signed"},
		"date not signed":    {tamper: rewrite(";x-amz-date", ""), says: "header x-amz-date must be signed"},
		"token not signed":   {tamper: rewrite(";x-amz-security-token", ""), says: "header x-amz-security-token must be signed"},
		"an unsigned header": {tamper: func(r *http.Request) { r.Header.Set("X-Amz-Acl", "public") }, says: "header x-amz-acl must be signed"},
		"a header not sent":  {tamper: func(r *http.Request) { r.Header.Del("Content-Type") }, says: "header that was not sent"},
		"not sorted":         {tamper: rewrite("content-length;content-type", "content-type;content-length"), says: "must be sorted"},
		"no token":           {tamper: func(r *http.Request) { r.Header.Del("X-Amz-Security-Token") }, says: "security token"},
		"another token":      {tamper: func(r *http.Request) { r.Header.Set("X-Amz-Security-Token", "other") }, says: "security token"},
		"another host":       {tamper: func(r *http.Request) { r.Host = "localhost" }, says: "does not match"},
		"another method":     {tamper: func(r *http.Request) { r.Method = http.MethodPut }, says: "does not match"},
		"another path":       {tamper: func(r *http.Request) { r.RequestURI = "/x" }, says: "does not match"},
		"another query":      {tamper: func(r *http.Request) { r.RequestURI = "/?a=1" }, says: "does not match"},
		"another header":     {tamper: func(r *http.Request) { r.Header.Set("X-Amz-Meta", "a b c") }, says: "does not match"},
		"another operation":  {tamper: func(r *http.Request) { r.Header.Set("X-Amz-Target", "Textract.AnalyzeID") }, says: "does not match"},
		"another signature":  {tamper: rewrite("Signature=", "Signature=0"), says: "does not match"},
		"another body":       {body: strings.Replace(signedBody, "b", "c", 1), says: "does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			r := made(t, "/", token, now.Add(tt.at), nil)
			if tt.tamper != nil {
				tt.tamper(r)
			}
			body := signedBody
			if tt.body != "" {
				body = tt.body
			}
			refusal := keys(token).check(r, []byte(body), now)
			require.NotNil(t, refusal)
			require.Equal(t, "InvalidSignatureException", refusal.code)
			require.Contains(t, refusal.message, tt.says)
		})
	}
	extra := made(t, "/", token, now, nil)
	require.Contains(t, keys("").check(extra, []byte(signedBody), now).message, "security token", "a token that nobody asked for")
	claimed := made(t, "/", noSuchToken, now, func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", hashOf([]byte("other"))) })
	require.Contains(t, keys("").check(claimed, []byte(signedBody), now).message, "x-amz-content-sha256", "signed, and not that of the body")
	other := keys("")
	other.KeyID = "AKIDOTHER"
	require.Equal(t, "UnrecognizedClientException", other.check(made(t, "/", noSuchToken, now, nil), []byte(signedBody), now).code)
	other = keys("")
	other.Secret += "x"
	require.Contains(t, other.check(made(t, "/", noSuchToken, now, nil), []byte(signedBody), now).message, "does not match")
}

// Over a socket, with what a server does to a request before anybody sees it.
func TestSignaturesAreCheckedFirst(t *testing.T) {
	t.Parallel()
	p := launch(t, Options{Kind: KindTextract, Signatures: keys(""), Faults: Faults{Script: []Step{{Status: 503}, {Status: 503}}}})
	send := func(sign bool) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/", strings.NewReader(signedBody))
		require.NoError(t, err)
		r.Header.Set("X-Amz-Target", "Textract.DetectDocumentText")
		if sign {
			secrets := aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: ourSecret}
			require.NoError(t, v4.NewSigner().SignHTTP(t.Context(), secrets, r, hashOf([]byte(signedBody)), "textract", "us-east-1", time.Now()))
		}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp
	}
	require.Equal(t, http.StatusBadRequest, send(false).StatusCode, "although its step of the script was another")
	require.Equal(t, http.StatusServiceUnavailable, send(true).StatusCode)
	require.Equal(t, http.StatusOK, send(true).StatusCode)
	refused := p.textract(t, "DetectDocumentText", signedBody)
	require.Equal(t, http.StatusBadRequest, refused.status)
	require.Equal(t, "InvalidSignatureException", refused.body["__type"])
	require.Equal(t, textractContentType, refused.header.Get("Content-Type"))
	stats := p.Stats()
	require.Equal(t, 2, stats.Rejected)
	require.Equal(t, 1, stats.Pages)
}

func TestParseSignatures(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*Signatures{
		"AKID=se=cret":      {KeyID: "AKID", Secret: "se=cret"},
		"AKID=secret,to,=k": {KeyID: "AKID", Secret: "secret", Token: "to,=k"},
	} {
		got, err := ParseSignatures(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "AKID", "=secret-value", "AKID=", "AKID=,token"} {
		_, err := ParseSignatures(text)
		require.ErrorContains(t, err, "KEYID=SECRET")
		require.NotContains(t, err.Error(), "secret-value")
	}
	_, err := New(Options{Kind: KindAzure, Signatures: keys("")})
	require.ErrorContains(t, err, "textract only")
}
