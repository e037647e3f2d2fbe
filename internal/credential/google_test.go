package credential

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// keyFileOf is a service account's key file, as the console gives it.
func keyFileOf(t *testing.T, tokenURI string, more map[string]string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	file := map[string]string{
		"type": "service_account", "client_email": "ocr@project.iam.gserviceaccount.com", "private_key_id": "k1", "token_uri": tokenURI,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	}
	maps.Copy(file, more)
	text, err := json.Marshal(file)
	require.NoError(t, err)
	return string(text)
}

func TestGoogleServiceAccount(t *testing.T) {
	service := newService(t, func(hit int, r *http.Request) (int, string) {
		_ = r.ParseForm()
		if !strings.Contains(r.Form.Get("grant_type"), "jwt-bearer") {
			return http.StatusBadRequest, `{"error":"unsupported_grant_type"}`
		}
		return http.StatusOK, fmt.Sprintf(`{"access_token":"ya29.%d","token_type":"Bearer","expires_in":3600}`, hit)
	})
	file := filepath.Join(t.TempDir(), "key.json")
	write(t, file, keyFileOf(t, service.URL, map[string]string{"quota_project_id": "project-of-the-file"}))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	t.Setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "")
	c := GoogleADC(GoogleOptions{Account: "acct", Scopes: []string{"https://www.googleapis.com/auth/cloud-platform"}})
	require.Zero(t, service.hits.Load(), "nobody is asked before there is a call")
	r := carried(t, query)
	r.Header.Set("X-Goog-Api-Key", "theirs")
	r.Header.Set("X-Goog-User-Project", "theirs")
	require.NoError(t, c.Apply(t.Context(), Attempt{r, noSum}))
	require.Equal(t, []string{"Bearer ya29.1"}, r.Header["Authorization"])
	require.Equal(t, []string{"project-of-the-file"}, r.Header["X-Goog-User-Project"])
	require.NotContains(t, r.Header, "X-Goog-Api-Key")
	require.Equal(t, cleanQuery, r.URL.RawQuery, "two credentials would be refused")
	require.Equal(t, "Bearer ya29.1", sends(t, c, "Authorization"))
	require.EqualValues(t, 1, service.hits.Load())

	// A key that was replaced is found when a new token is needed.
	t.Setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "project-of-the-environment")
	write(t, file, keyFileOf(t, service.URL, nil))
	require.True(t, c.Mend(t.Context(), Refusal{Status: http.StatusUnauthorized, Sent: r.Header}))
	require.Equal(t, "Bearer ya29.2", sends(t, c, "Authorization"))
	require.Equal(t, "project-of-the-environment", sends(t, c, "X-Goog-User-Project"))
}

func TestGoogleMetadataServer(t *testing.T) {
	service := newService(t, func(hit int, r *http.Request) (int, string) {
		switch {
		case r.Header.Get("Metadata-Flavor") != "Google":
			return http.StatusForbidden, ""
		case strings.HasSuffix(r.URL.Path, "/project-id"):
			return http.StatusOK, "project"
		case strings.HasSuffix(r.URL.Path, "/service-accounts/default/token"):
			return http.StatusOK, fmt.Sprintf(`{"access_token":"ya29.machine-%d","token_type":"Bearer","expires_in":3600}`, hit)
		default:
			return http.StatusNotFound, ""
		}
	})
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("APPDATA", t.TempDir())
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(service.URL, "http://"))
	c := GoogleADC(GoogleOptions{Account: "acct", Scopes: []string{"https://www.googleapis.com/auth/cloud-platform"}})
	require.Zero(t, service.hits.Load())
	r := carried(t, "/")
	require.NoError(t, c.Apply(t.Context(), Attempt{r, noSum}))
	require.Contains(t, r.Header.Get("Authorization"), "Bearer ya29.machine-")
	require.NotContains(t, r.Header, "X-Goog-User-Project")
}

func TestWhatIsWrongWithGoogleIsToldWithoutSecrets(t *testing.T) {
	service := newService(t, func(int, *http.Request) (int, string) {
		return http.StatusBadRequest, `{"error":"invalid_grant","error_description":"assertion ya29.echoed-1234567890 is bad","refresh_token":"1//echoed"}`
	})
	file := filepath.Join(t.TempDir(), "key.json")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	c := GoogleADC(GoogleOptions{Account: "acct", Scopes: []string{"s"}})
	fails := func(parts ...string) {
		t.Helper()
		err := c.Apply(t.Context(), Attempt{carried(t, "/"), noSum})
		for _, part := range append(parts, "account acct: no Google ", "set GOOGLE_APPLICATION_CREDENTIALS") {
			require.ErrorContains(t, err, part)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			require.NotContains(t, e.Error(), "echoed", "at no depth")
			require.NotContains(t, e.Error(), "PRIVATE")
		}
	}
	fails("/key.json: no such file")
	write(t, file, keyFileOf(t, service.URL, nil))
	fails("the token service answered 400 Bad Request (invalid_grant)")
	write(t, file, `{"type":"service_account","private_key":"PRIVATE`)
	fails("unexpected end of JSON input")
}
