package credential

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/stretchr/testify/require"
)

const cognitive = "https://cognitiveservices.azure.com/.default"

// entraHome is a machine without any Azure credentials but those that a test puts there.
func entraHome(t *testing.T, environ ...string) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AZURE_") || strings.HasPrefix(name, "IDENTITY_") || strings.HasPrefix(name, "MSI_") {
			t.Setenv(name, "") // so that it is put back
			require.NoError(t, os.Unsetenv(name))
		}
	}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
}

func TestEntraManagedIdentity(t *testing.T) {
	resource := fmt.Sprintf("https://of-run-%d.example", time.Now().UnixNano()) // the SDK keeps these tokens for as long as the process lives
	service := newService(t, func(hit int, r *http.Request) (int, string) {
		if r.Header.Get("X-Identity-Header") != "of-the-machine" || r.URL.Query().Get("resource") != resource {
			return http.StatusBadRequest, `{"statusCode":400,"message":"no"}`
		}
		return http.StatusOK, fmt.Sprintf(`{"access_token":"entra-%d","expires_on":"%d","resource":"x","token_type":"Bearer"}`, hit, time.Now().Add(2*time.Hour).Unix())
	})
	entraHome(t, "AZURE_TOKEN_CREDENTIALS=ManagedIdentityCredential", "IDENTITY_ENDPOINT="+service.URL, "IDENTITY_HEADER=of-the-machine")
	c := AzureEntra(EntraOptions{Account: "acct", Scope: resource + "/.default"})
	require.Zero(t, service.hits.Load(), "nobody is asked before there is a call")
	r := carried(t, "/documentintelligence/x?api-version=1&subscription-key=theirs")
	require.NoError(t, c.Apply(t.Context(), Attempt{r, noSum}))
	require.Equal(t, []string{"Bearer entra-1"}, r.Header["Authorization"])
	require.NotContains(t, r.Header, "Ocp-Apim-Subscription-Key")
	require.NotContains(t, r.Header, "X-Goog-User-Project")
	require.Equal(t, "api-version=1", r.URL.RawQuery)
	require.Equal(t, "Bearer entra-1", sends(t, c, "Authorization"))
	require.EqualValues(t, 1, service.hits.Load())
	require.False(t, c.Mend(t.Context(), Refusal{Status: http.StatusUnauthorized, Sent: r.Header}), "the SDK has no other")
}

// transport is Entra ID in memory.
type transport func(r *http.Request) (status int, body string)

// Do answers a request.
func (f transport) Do(r *http.Request) (*http.Response, error) {
	status, body := f(r)
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

func TestEntraWorkloadIdentity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, "jwt-of-the-pod")
	entraHome(t, "AZURE_TOKEN_CREDENTIALS=WorkloadIdentityCredential", "AZURE_TENANT_ID=tenant", "AZURE_CLIENT_ID=client", "AZURE_FEDERATED_TOKEN_FILE="+file)
	refuse := false
	entra := transport(func(r *http.Request) (int, string) {
		const tenant = "https://login.microsoftonline.com/tenant/"
		if strings.HasSuffix(r.URL.Path, "openid-configuration") {
			return http.StatusOK, `{"token_endpoint":"` + tenant + `oauth2/v2.0/token","authorization_endpoint":"` + tenant + `authorize","issuer":"` + tenant + `v2.0"}`
		}
		_ = r.ParseForm()
		switch {
		case refuse:
			return http.StatusUnauthorized, `{"error":"invalid_client","error_description":"AADSTS700024: assertion jwt-of-the-pod","access_token":"echoed"}`
		case r.Form.Get("client_assertion") == "jwt-of-the-pod" && strings.Contains(r.Form.Get("scope"), cognitive):
			return http.StatusOK, `{"access_token":"entra-pod","expires_in":3600,"token_type":"Bearer"}`
		}
		return http.StatusBadRequest, `{"error":"invalid_request"}`
	})
	chain := &azidentity.DefaultAzureCredentialOptions{ClientOptions: azcore.ClientOptions{Transport: entra}, DisableInstanceDiscovery: true}
	got, err := entraToken(t.Context(), cognitive, chain)
	require.NoError(t, err)
	require.Equal(t, "entra-pod", got.value)
	require.WithinDuration(t, time.Now().Add(time.Hour), got.expires, time.Minute)

	refuse = true
	_, err = entraToken(t.Context(), cognitive, chain)
	require.ErrorContains(t, err, "no Entra ID token: the token service answered 401 Unauthorized (invalid_client); run where")
	require.NoError(t, errors.Unwrap(err), "nothing that could be written down by somebody else")
}

func TestWhatIsWrongWithEntraIsTold(t *testing.T) {
	entraHome(t, "AZURE_TOKEN_CREDENTIALS=EnvironmentCredential")
	c := AzureEntra(EntraOptions{Account: "acct", Scope: cognitive})
	err := c.Apply(t.Context(), Attempt{carried(t, "/"), noSum})
	require.ErrorContains(t, err, "account acct: no Entra ID token: ")
	require.ErrorContains(t, err, "AZURE_TENANT_ID")
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "Magic")
	err = c.Apply(t.Context(), Attempt{carried(t, "/"), noSum})
	require.ErrorContains(t, err, "no Entra ID credentials: ")
}
