package credential

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// awsHome is a machine without any AWS credentials but those that a test puts there. It returns the folder of the shared files.
func awsHome(t *testing.T, environ ...string) string {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	dir := t.TempDir()
	for _, pair := range append([]string{
		"AWS_CONFIG_FILE=" + filepath.Join(dir, "config"), "AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(dir, "credentials"),
		"AWS_EC2_METADATA_DISABLED=true", "AWS_REGION=", "AWS_PROFILE=", "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "AWS_SESSION_TOKEN=",
	}, environ...) {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	return dir
}

// service is an identity service on this machine.
type service struct {
	*httptest.Server
	hits atomic.Int32
}

func newService(t *testing.T, answer func(hit int, r *http.Request) (status int, body string)) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Form = nil
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		status, text := answer(int(s.hits.Add(1)), r)
		if strings.HasPrefix(text, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return s
}

func shared(key, token string) string {
	return fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = very-secret\naws_session_token = %s\n", key, token)
}

func newSigner(t *testing.T, o SigV4Options) *Credential {
	t.Helper()
	o.Region, o.Service, o.Account = "us-east-1", "textract", "acct"
	c, err := SigV4(t.Context(), o)
	require.NoError(t, err)
	return c
}

// signs is the head of the next attempt.
func signs(t *testing.T, c *Credential) http.Header {
	t.Helper()
	r := carried(t, "/")
	require.NoError(t, c.Apply(t.Context(), Attempt{r, sumOf("body")}))
	return r.Header
}

func keyOf(h http.Header) string {
	_, rest, _ := strings.Cut(h.Get("Authorization"), "Credential=")
	key, _, _ := strings.Cut(rest, "/")
	return key + " " + h.Get("X-Amz-Security-Token")
}

func expired(sent http.Header) Refusal {
	return Refusal{Status: http.StatusBadRequest, Codes: []string{"ExpiredTokenException"}, Header: http.Header{}, Sent: sent}
}

func TestRotatedSharedFilesAreFound(t *testing.T) {
	dir := awsHome(t)
	file := filepath.Join(dir, "credentials")
	synctest.Test(t, func(t *testing.T) {
		write(t, file, shared("AKIDOLD", "t-old"))
		c := newSigner(t, SigV4Options{})
		old := signs(t, c)
		require.Equal(t, "AKIDOLD t-old", keyOf(old))
		require.False(t, c.Mend(t.Context(), expired(old)), "there are no others")

		write(t, file+".new", shared("AKIDNEW", "t-new"))
		require.NoError(t, os.Rename(file+".new", file))
		require.Equal(t, "AKIDOLD t-old", keyOf(signs(t, c)), "not looked at yet")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if !c.Mend(t.Context(), expired(old)) {
					t.Error("everybody who was refused may try again")
				}
			})
		}
		wg.Wait()
		fresh := signs(t, c)
		require.Equal(t, "AKIDNEW t-new", keyOf(fresh))
		require.False(t, c.Mend(t.Context(), expired(fresh)))

		write(t, file, shared("AKIDNEXT", "t-next"))
		time.Sleep(lookEvery)
		require.Equal(t, "AKIDNEXT t-next", keyOf(signs(t, c)), "without a refusal")
		write(t, file, "[default\nnonsense")
		time.Sleep(lookEvery)
		require.Equal(t, "AKIDNEXT t-next", keyOf(signs(t, c)), "a broken file changes nothing")
	})
}

const stsAnswer = `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials><AccessKeyId>%[2]s</AccessKeyId>` +
	`<SecretAccessKey>role-secret</SecretAccessKey><SessionToken>%[3]s</SessionToken><Expiration>%[4]s</Expiration></Credentials></%[1]sResult></%[1]sResponse>`

// securityTokens gives a new session for each call.
func securityTokens(t *testing.T, action string) (*service, *[]string) {
	t.Helper()
	var asked []string
	return newService(t, func(hit int, r *http.Request) (int, string) {
		_ = r.ParseForm()
		asked = append(asked, fmt.Sprint(r.Form["RoleArn"], r.Form["RoleSessionName"], r.Form["WebIdentityToken"], strings.Contains(r.Header.Get("Authorization"), "Credential=AKIDBASE/")))
		return http.StatusOK, fmt.Sprintf(stsAnswer, action, fmt.Sprintf("ASIA%d", hit), fmt.Sprintf("session-%d", hit), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}), &asked
}

func TestARoleIsAssumed(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/ocr"
	service, asked := securityTokens(t, "AssumeRole")
	awsHome(t, "AWS_ENDPOINT_URL_STS="+service.URL, "AWS_ACCESS_KEY_ID=AKIDBASE", "AWS_SECRET_ACCESS_KEY=very-secret")
	c := newSigner(t, SigV4Options{RoleARN: role})
	require.Zero(t, service.hits.Load(), "nobody is asked before there is a call")
	first := signs(t, c)
	require.Equal(t, "ASIA1 session-1", keyOf(first))
	require.Equal(t, "ASIA1 session-1", keyOf(signs(t, c)))
	require.Equal(t, []string{"[" + role + "] [ocr-proxy-acct] [] true"}, *asked, "with the chain's credentials, and once")

	require.True(t, c.Mend(t.Context(), expired(first)), "a session can be had anew")
	second := signs(t, c)
	require.Equal(t, "ASIA2 session-2", keyOf(second))
	require.True(t, c.Mend(t.Context(), expired(first)), "somebody has renewed it")
	require.False(t, c.Mend(t.Context(), expired(second)), "but not for every refusal")
	require.EqualValues(t, 2, service.hits.Load())
}

func TestWebIdentity(t *testing.T) {
	service, asked := securityTokens(t, "AssumeRoleWithWebIdentity")
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "jwt-of-the-pod")
	awsHome(t, "AWS_ENDPOINT_URL_STS="+service.URL, "AWS_WEB_IDENTITY_TOKEN_FILE="+file, "AWS_ROLE_ARN=arn:aws:iam::123456789012:role/pod", "AWS_ROLE_SESSION_NAME=pod")
	c := newSigner(t, SigV4Options{})
	require.Zero(t, service.hits.Load())
	require.Equal(t, "ASIA1 session-1", keyOf(signs(t, c)))
	require.Equal(t, []string{"[arn:aws:iam::123456789012:role/pod] [pod] [jwt-of-the-pod] false"}, *asked)
}

func sessionJSON(hit int) string {
	return fmt.Sprintf(`{"Code":"Success","AccessKeyId":"ASIA%d","SecretAccessKey":"role-secret","Token":"session-%d","Expiration":%q}`,
		hit, hit, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
}

func TestTheRoleOfAContainer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "of-the-pod")
	service := newService(t, func(hit int, r *http.Request) (int, string) {
		if r.Header.Get("Authorization") != "of-the-pod" {
			return http.StatusUnauthorized, `{"code":"no"}`
		}
		return http.StatusOK, sessionJSON(hit)
	})
	awsHome(t, "AWS_CONTAINER_CREDENTIALS_FULL_URI="+service.URL+"/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="+file)
	c := newSigner(t, SigV4Options{})
	require.Zero(t, service.hits.Load())
	first := signs(t, c)
	require.Equal(t, "ASIA1 session-1", keyOf(first))
	require.True(t, c.Mend(t.Context(), expired(first)))
	require.Equal(t, "ASIA2 session-2", keyOf(signs(t, c)))
}

func TestTheRoleOfAnInstance(t *testing.T) {
	service := newService(t, func(_ int, r *http.Request) (int, string) {
		switch {
		case r.Method == http.MethodPut:
			return http.StatusOK, "imds-token"
		case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
			return http.StatusOK, "role"
		case strings.HasSuffix(r.URL.Path, "/security-credentials/role"):
			return http.StatusOK, sessionJSON(1)
		default:
			return http.StatusNotFound, ""
		}
	})
	awsHome(t, "AWS_EC2_METADATA_DISABLED=false", "AWS_EC2_METADATA_SERVICE_ENDPOINT="+service.URL)
	c := newSigner(t, SigV4Options{})
	require.Zero(t, service.hits.Load())
	first := signs(t, c)
	require.Equal(t, "ASIA1 session-1", keyOf(first))
	require.False(t, c.Mend(t.Context(), expired(first)), "the instance has no others")
}

func TestWhatIsWrongWithAWSIsToldWithoutSecrets(t *testing.T) {
	service := newService(t, func(int, *http.Request) (int, string) {
		return http.StatusForbidden, `<ErrorResponse><Error><Code>AccessDenied</Code><Message>not allowed to assume this; token eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJwb2QtMTIzNDU2Nzg5MCJ9.c2lnbmF0dXJlLTEyMzQ1Njc4OTBBQg</Message></Error></ErrorResponse>`
	})
	dir := awsHome(t, "AWS_ENDPOINT_URL_STS="+service.URL, "AWS_ACCESS_KEY_ID=AKIDBASE", "AWS_SECRET_ACCESS_KEY=very-secret")
	c := newSigner(t, SigV4Options{RoleARN: "arn:aws:iam::123456789012:role/ocr"})
	err := c.Apply(t.Context(), Attempt{carried(t, "/"), sumOf("body")})
	require.ErrorContains(t, err, "account acct: no AWS credentials: ")
	require.ErrorContains(t, err, "AccessDenied")
	require.ErrorContains(t, err, "check auth.profile")
	for e := err; e != nil; e = errors.Unwrap(e) {
		require.NotContains(t, e.Error(), "eyJ", "at no depth")
	}

	_, err = SigV4(t.Context(), SigV4Options{Region: "us-east-1", Service: "textract", Profile: "nobody"})
	require.ErrorContains(t, err, "nobody")

	t.Setenv("AWS_ACCESS_KEY_ID", "")
	write(t, filepath.Join(dir, "config"), "[default]\ncredential_process = printf '{\"Version\": 1, \"SecretAccessKey\": \"short-one\", nonsense'\n")
	c = newSigner(t, SigV4Options{})
	err = c.Apply(t.Context(), Attempt{carried(t, "/"), sumOf("body")})
	require.ErrorContains(t, err, "parse failed of process output")
	require.NotContains(t, err.Error(), "short-one")
}
