package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestSecretsPrintAPlaceholderHoweverTheyArePrinted(t *testing.T) {
	type holder struct {
		Key Secret
		URL MaskedURL
	}
	h := holder{"hunter2", "redis://user:hunter2@host:6379/hunter2?key=hunter2"}
	hexed := fmt.Sprintf("%x", "hunter2")
	var out []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10s", "% x"} {
		for _, v := range []any{h, &h, h.Key, h.URL, []Secret{h.Key}, map[Secret]int{h.Key: 1}} {
			out = append(out, fmt.Sprintf(verb, v))
		}
	}
	asJSON, err := json.Marshal(h)
	require.NoError(t, err)
	asYAML, err := yaml.Marshal(h)
	require.NoError(t, err)
	out = append(out, string(asJSON), string(asYAML), h.Key.String(), h.Key.GoString(), h.URL.GoString())
	for _, text := range out {
		require.NotContains(t, text, "hunter2")
		require.NotContains(t, strings.ToLower(text), hexed)
	}
	require.Equal(t, "hunter2", h.Key.Reveal())
	require.Equal(t, "redis://host:6379", h.URL.String())
	require.Empty(t, MaskedURL("").String())
	require.Equal(t, redacted, MaskedURL("hunter2").String())
	require.Equal(t, redacted, MaskedURL("http://%zz").String())
}

func TestReadSecretFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for text, want := range map[string]string{
		"KEY123": "KEY123", "KEY123\n": "KEY123", "  KEY123\r\n": "KEY123", "two words\n": "two words",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		secret, err := ReadSecretFile("some.key", path)
		require.NoError(t, err)
		require.Equal(t, want, secret.Reveal())
	}
	for text, message := range map[string]string{
		"": "is empty", " \n\t": "is empty", "KEYONE\nKEYTWO": "control character", "KEY\x00ONE": "control character",
		strings.Repeat("KEYONE", 20000): "64 KiB",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := ReadSecretFile("some.key", path)
		requireInvalid(t, err)
		require.ErrorContains(t, err, "some.key: ")
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, message)
		require.NotContains(t, err.Error(), "KEYONE")
	}
	for _, unreadable := range []string{filepath.Dir(path), path + ".missing"} {
		_, err := ReadSecretFile("some.key", unreadable)
		require.ErrorContains(t, err, "some.key: cannot read")
		require.ErrorContains(t, err, unreadable)
	}
}

func TestReadSecretEnv(t *testing.T) {
	environ := []string{"A=  KEY123\n", "B=KEYONE\nKEYTWO", "C= ", "AA=wrong"}
	secret, err := ReadSecretEnv("some.key", "A", environ)
	require.NoError(t, err)
	require.Equal(t, "KEY123", secret.Reveal())
	for name, message := range map[string]string{"B": "control character", "C": "is empty", "D": "D is not set"} {
		_, err := ReadSecretEnv("some.key", name, environ)
		requireInvalid(t, err)
		require.ErrorContains(t, err, "some.key: ")
		require.ErrorContains(t, err, message)
		require.NotContains(t, err.Error(), "KEYONE")
	}
	_, err = ReadSecretEnv("some.key", "sk-the-key-itself", environ)
	require.ErrorContains(t, err, "not the key itself")
	require.NotContains(t, err.Error(), "sk-the")
}

func TestBrokenKeysAreRefusedWithTheirSetting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte("KEYONE\nKEYTWO"), 0o600))
	found := refused(t, "admin: {token_file: "+path+"}\ndead_letters: {webhook: {secret_file: "+path+"}}\n"+
		providers(account("auth: {type: header, header: X-Key, value_file: "+path+"}")))
	require.Len(t, found, 3)
	for _, key := range []string{"admin.token_file", "dead_letters.webhook.secret_file", "providers[0].auth.value_file"} {
		require.Contains(t, found[key], path)
		require.NotContains(t, found[key], "KEY")
	}
}
