package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSigningKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{
		"plain words":              "plain words",
		"  trimmed\n":              "trimmed",
		"whsec_MDEyMzQ1Njc4OWFi\n": "0123456789ab",
		"MDEyMzQ1Njc4OWFi":         "MDEyMzQ1Njc4OWFi",
		"whsec_":                   "",
		"whsec_not base64":         "",
		"whsec_hunter2":            "",
		"":                         "",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		key, err := Webhook{SecretFile: path}.SigningKey()
		if want != "" {
			require.NoError(t, err)
			require.Equal(t, want, string(key))
			continue
		}
		require.ErrorContains(t, err, "dead_letters.webhook.secret_file")
		require.NotContains(t, err.Error(), "hunter2")
		found := refused(t, "dead_letters: {webhook: {url: 'http://x.example', secret_file: "+path+"}}"+oneAccount)
		require.Contains(t, found, "dead_letters.webhook.secret_file", text)
	}
}

func TestTheAddressOfTheWebhook(t *testing.T) {
	require.Nil(t, Webhook{}.Address())
	require.Equal(t, "https://u:p@x.example/in?token=1", Webhook{URL: "https://u:p@x.example/in?token=1"}.Address().String())
}
