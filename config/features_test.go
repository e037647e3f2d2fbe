package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSayingThatAFeatureIsOffIsFine(t *testing.T) {
	accepted(t, `
dead_letters: {webhook: {url: "", secret_file: "", timeout: 5s}, auto_replay: {enabled: false, max_age: 1h, rate: 2}}
review: {threshold: 0, aggregate: mean, fields: {}, required: {}, empty_text: accept}
precheck: {enabled: false, reject_blank: false, skip: [blank]}
rescue: {ttl: 0s, max_bytes: 1GiB}
state: {url: ""}
tracing: {otlp_endpoint: "", sample_ratio: 0.1}
breaker: {on_sustained: alert}
`+providers(account("mode: enforce, fallback: [], spread: {}, repair_pages: false, replay_auth: {}, clients: {}")))
}

func TestClientTokensNeedACredentialOfTheAccounts(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("a-token-of-a-worker\n"), 0o600))
	accepted(t, providers(account("auth: {type: none}, clients: {token_file: "+tokens+"}")))
	found := refused(t, providers(account("clients: {token_file: "+tokens+"}")))
	require.Contains(t, found["providers[0].clients.token_file"], "other than passthrough")
	found = refused(t, providers(account("auth: {type: none}, clients: {token_file: /no/such/file}")))
	require.Contains(t, found["providers[0].clients.token_file"], "cannot read the file")
}

// The threat model names tests; a name that is none would be a promise that nobody holds.
func TestEveryThreatHasItsTest(t *testing.T) {
	known := map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(readPage(t, path), -1) {
			known[found[1]] = true
		}
		return nil
	}))
	rows := 0
	for line := range strings.Lines(readPage(t, "../SECURITY.md")) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && !strings.Contains(line, "---") && !strings.Contains(cells[1], "From") {
			tests := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(cells[4], -1)
			require.NotEmpty(t, tests, line)
			for _, test := range tests {
				require.True(t, known[test[1]], "%s is no test", test[1])
			}
			rows++
		}
	}
	require.Greater(t, rows, 15)
}

// A goroutine that is left behind is a leak in the proxy, or a test that tells less than it seems to.
func TestEveryPackageWithTestsLooksForGoroutinesThatAreLeft(t *testing.T) {
	tested, looking := map[string]bool{}, map[string]bool{}
	look := regexp.MustCompile(`(?s)\nfunc TestMain\(m \*testing\.M\) \{[^\n]*(\n\t[^\n]*)*\bgoleak\.VerifyTestMain\(m\)`)
	for _, root := range []string{"../cmd", "../config", "../internal"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			dir, text := filepath.Dir(path), readPage(t, path)
			tested[dir] = true
			looking[dir] = looking[dir] || look.MatchString(text)
			return nil
		}))
	}
	require.Greater(t, len(tested), 25)
	for dir := range tested {
		require.True(t, looking[dir], "%s needs a TestMain with goleak.VerifyTestMain", dir)
	}
}
