package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// cutEntry tells whether a path of the reference lies in a provider entry, and what follows.
func cutEntry(path string) (rest string, ok bool) { return strings.CutPrefix(path, "providers[].") }

func TestReferenceFileIsTheDefaultsAndOneAccount(t *testing.T) {
	cfg, err := Load("reference.yaml", nil)
	require.NoError(t, err)
	want := defaultProvider()
	want.Name, want.Kind, want.Listen, want.Upstream = "textract-use1", "textract", "127.0.0.1:8081", "https://textract.us-east-1.amazonaws.com"
	want.Auth = Auth{Type: "sigv4", Region: "us-east-1", Service: "textract"}
	require.Len(t, cfg.Providers, 1)

	got, err := cfg.YAML()
	require.NoError(t, err)
	defaults := Default()
	defaults.Providers = []Provider{want}
	wanted, err := defaults.YAML()
	require.NoError(t, err)
	require.Equal(t, string(wanted), string(got))
}

func TestReferenceFileHasEveryKey(t *testing.T) {
	text, err := os.ReadFile("reference.yaml")
	require.NoError(t, err)
	var tree map[string]any
	require.NoError(t, yaml.Unmarshal(text, &tree))
	entry, ok := tree["providers"].([]any)[0].(map[string]any)
	require.True(t, ok)

	for _, key := range Reference() {
		at, path := tree, key.Path
		if rest, inEntry := cutEntry(path); inEntry {
			at, path = entry, rest
		}
		if strings.HasPrefix(path, "replay_auth.") || strings.HasPrefix(path, "rules[].") {
			continue // Described where they stand.
		}
		parts := strings.Split(path, ".")
		for _, part := range parts[:len(parts)-1] {
			next, ok := at[part].(map[string]any)
			require.True(t, ok, key.Path)
			at = next
		}
		require.Contains(t, at, parts[len(parts)-1], key.Path)
	}
}

func TestReferenceDescribesEveryKey(t *testing.T) {
	rows := map[string]Key{}
	for _, key := range Reference() {
		require.NotContains(t, rows, key.Path)
		require.NotEmpty(t, key.Type, key.Path)
		require.True(t, strings.HasSuffix(key.Doc, "."), "%s: %q is no sentence", key.Path, key.Doc)
		rows[key.Path] = key
	}
	require.Equal(t, Key{"retry.total_budget", "duration", "90s", rows["retry.total_budget"].Doc, Live}, rows["retry.total_budget"])
	require.Equal(t, Key{"body.max_bytes", "size", "512MiB", rows["body.max_bytes"].Doc, Live}, rows["body.max_bytes"])
	require.Equal(t, "enforce", rows["providers[].mode"].Default)
	require.Equal(t, "mapping", rows["providers[].retry"].Type)
	require.Contains(t, rows, "providers[].rules[].class")
	require.Contains(t, rows, "providers[].tls.client_ca_file")
}

func TestExamplesLoad(t *testing.T) {
	environ := []string{"AZURE_DOCUMENT_KEY=k", "MISTRAL_API_KEY=k", "OCRSPACE_API_KEY=k", "OPENAI_API_KEY=k"}
	for _, kind := range Kinds() {
		cfg, err := Load("example-"+kind+".yaml", environ)
		require.NoError(t, err, kind)
		require.Len(t, cfg.Providers, 1)
		require.Equal(t, kind, cfg.Providers[0].Kind)
		require.Empty(t, cfg.Warnings())
	}
	for _, several := range []string{"multi", "sim"} {
		cfg, err := Load("example-"+several+".yaml", environ)
		require.NoError(t, err)
		require.Len(t, cfg.Providers, 3)
		require.Empty(t, cfg.Warnings())
	}

	files, err := filepath.Glob("example-*.yaml")
	require.NoError(t, err)
	require.Len(t, files, len(Kinds())+2, "an example that no test loads")
}
