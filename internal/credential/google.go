package credential

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// GoogleOptions say which token of Google's is used.
type GoogleOptions struct {
	Account string   // named in errors
	Scopes  []string // OAuth scopes, at least one
}

// GoogleADC sends an access token of Google's application default credentials: the file that GOOGLE_APPLICATION_CREDENTIALS names, gcloud's
// own, or the service account of the machine. They are looked for when a token is needed, so that making this asks nobody and a key file that
// was replaced is found.
func GoogleADC(o GoogleOptions) *Credential {
	return newTokens(func(ctx context.Context) (token, error) { return googleToken(ctx, o.Scopes) }).credential(o.Account)
}

func googleToken(ctx context.Context, scopes []string) (token, error) {
	const advice = "set GOOGLE_APPLICATION_CREDENTIALS to a credential file, or run where a service account is attached"
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{
		Timeout:   fetchTimeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}, // one call an hour
	})
	found, err := google.FindDefaultCredentials(ctx, scopes...)
	if err != nil {
		return token{}, fmt.Errorf("no Google credentials: %s; %s", reason(err), advice)
	}
	got, err := found.TokenSource.Token()
	if err != nil {
		return token{}, fmt.Errorf("no Google access token: %s; %s", reason(err), advice)
	}
	return token{value: got.AccessToken, expires: got.Expiry, project: quotaProject(found.JSON)}, nil
}

// quotaProject is the project that calls are counted for, where the credential names one.
func quotaProject(file []byte) string {
	var f struct {
		Project string `json:"quota_project_id"`
	}
	_ = json.Unmarshal(file, &f) // there is none on a machine with a service account
	return cmp.Or(os.Getenv("GOOGLE_CLOUD_QUOTA_PROJECT"), f.Project)
}
