package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const oneAccount = `
providers:
  - {name: a, kind: mistral, listen: "127.0.0.1:8085", upstream: "https://api.mistral.ai"}
`

// refused parses a configuration that must be refused and returns the messages by key.
func refused(t *testing.T, text string, environ ...string) map[string]string {
	t.Helper()
	_, err := Parse([]byte(text), environ)
	byKey := map[string]string{}
	for _, p := range requireInvalid(t, err) {
		require.NotContains(t, byKey, p.Key, "one problem a key")
		require.NotEmpty(t, p.Message)
		byKey[p.Key] = p.Message
	}
	return byKey
}

// requireInvalid returns the problems of an error that must tell some.
func requireInvalid(t *testing.T, err error) []Problem {
	t.Helper()
	var invalid *InvalidError
	require.ErrorAs(t, err, &invalid)
	require.NotEmpty(t, invalid.Problems)
	return invalid.Problems
}

func accepted(t *testing.T, text string, environ ...string) *Config {
	t.Helper()
	cfg, err := Parse([]byte(text), environ)
	require.NoError(t, err)
	return cfg
}

func TestLoadReadsTheFileOverTheDefaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte("retry: {max_attempts: 2}\nbody: {max_bytes: 10MB}"+oneAccount), 0o600))
	cfg, err := Load(path, nil)
	require.NoError(t, err)

	want := Default()
	want.Retry.MaxAttempts = 2
	want.Body.MaxBytes = 10_000_000
	p := defaultProvider()
	p.Name, p.Kind, p.Listen, p.Upstream = "a", "mistral", "127.0.0.1:8085", "https://api.mistral.ai"
	p.Auth.Type, p.Retry.MaxAttempts = "passthrough", 2
	want.Providers = []Provider{p}
	require.Equal(t, want, cfg)
}

func TestLoadNamesAFileItCannotRead(t *testing.T) {
	_, err := Load("", nil)
	require.ErrorContains(t, err, "--config")
	missing := filepath.Join(t.TempDir(), "none.yaml")
	_, err = Load(missing, nil)
	require.ErrorContains(t, err, missing)
	requireInvalid(t, err)
}

func TestUnusableDocuments(t *testing.T) {
	for name, test := range map[string]struct{ text, key, message string }{
		"empty":             {"", "providers", "at least one account"},
		"comments only":     {"# nothing\n", "providers", "at least one account"},
		"broken":            {"retry: {max_attempts: [", "config file", "not valid YAML"},
		"a list":            {"- a\n- b\n", "config file", "must be a mapping"},
		"two documents":     {oneAccount + "---\nlog: {}\n", "config file", "more than one"},
		"duplicate key":     {"log: {level: info, level: warn}" + oneAccount, "log.level", "twice, in lines 1 and 1"},
		"duplicate section": {"log: {}\nretry: {}\nlog: {}" + oneAccount, "log", "lines 1 and 3"},
		"key is a list":     {"log: {[a, b]: info}" + oneAccount, "log.?", "plain text"},
		"section is a word": {"retry: often" + oneAccount, "retry", "must be a mapping"},
		"value is a list":   {"log: {level: [info]}" + oneAccount, "log.level", "one value"},
		"list is a word":    {"admin: {hosts: a}" + oneAccount, "admin.hosts", "must be a list"},
		"empty list entry":  {"admin: {hosts: [a, ]}\nproviders: [~]", "providers[0]", "is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, refused(t, test.text)[test.key], test.message)
		})
	}
}

func TestUnknownKeysAreNamedInFullWithTheNearestOne(t *testing.T) {
	found := refused(t, `
retry: {max_atempts: 3, budget: {ration: 1}}
Log: {}
zebra: 1
providers:
  - {name: a, kind: mistral, listen: "127.0.0.1:8085", upstream: "https://x.example", upstreem: x, auth: {tipe: none}}
`)
	require.Contains(t, found["retry.max_atempts"], "did you mean max_attempts?")
	require.Contains(t, found["retry.budget.ration"], "did you mean ratio?")
	require.Contains(t, found["Log"], "did you mean log?")
	require.Contains(t, found["zebra"], "known here: log, admin")
	require.Contains(t, found["providers[0].upstreem"], "did you mean upstream?")
	require.Contains(t, found["providers[0].upstreem"], `account "a"`)
	require.Contains(t, found["providers[0].auth.tipe"], "did you mean type?")
	require.Len(t, found, 6)
}

func TestScalarsFollowOneRuleInFileAndEnvironment(t *testing.T) {
	for _, test := range []struct{ key, text, message string }{
		{"retry.attempt_timeout", "600", "with a unit"},
		{"retry.attempt_timeout", `"600"`, "with a unit"},
		{"retry.attempt_timeout", "0", "with a unit"},
		{"retry.attempt_timeout", "1.5", "with a unit"},
		{"retry.attempt_timeout", "0x10", "with a unit"},
		{"retry.attempt_timeout", "true", "with a unit"},
		{"retry.attempt_timeout", "99999999h", "with a unit"},
		{"retry.total_budget", "-5s", "more than 0s"},
		{"retry.total_budget", "0s", "more than 0s"},
		{"retry.total_budget", "1m30", "with a unit"},
		{"retry.total_budget", "soon", "with a unit"},
		{"retry.max_attempts", "1.5", "whole number"},
		{"retry.max_attempts", "many", "whole number"},
		{"retry.max_attempts", "99999999999999999999", "whole number"},
		{"retry.budget.ratio", "NaN", "must be a number"},
		{"retry.budget.ratio", "+Inf", "must be a number"},
		{"body.max_bytes", "-1", "must be a size"},
		{"body.max_bytes", "a lot", "must be a size"},
		{"body.max_bytes", "9999999999GiB", "must be a size"},
		{"pacing.adaptive", "1", "true or false"},
		{"log.level", "loud", "debug, info, warn, error"},
	} {
		t.Run(test.key+"="+test.text, func(t *testing.T) {
			section, rest, _ := strings.Cut(test.key, ".")
			file := section + ": {" + rest + ": " + test.text + "}"
			if outer, inner, nested := strings.Cut(rest, "."); nested {
				file = section + ": {" + outer + ": {" + inner + ": " + test.text + "}}"
			}
			found := refused(t, file+oneAccount)
			require.Contains(t, found[test.key], test.message)
			require.Len(t, found, 1, "the account inherits the mistake and must not repeat it")

			_, err := Parse([]byte(oneAccount), []string{variable(test.key) + "=" + strings.Trim(test.text, `"`)})
			require.ErrorContains(t, err, variable(test.key))
			require.ErrorContains(t, err, test.key)
			require.ErrorContains(t, err, test.message)
		})
	}
}

func TestTextKeepsTheSpellingOfTheFile(t *testing.T) {
	cfg := accepted(t, `
dead_letters: {processing_version: 010}
providers:
  - name: a
    kind: azure
    listen: 127.0.0.1:8085
    upstream: https://x.example
    inject_token: false
    rules: [{code: 0301, class: transient}, {status: 400, code: InvalidContent, class: quota}]
`)
	require.Equal(t, "010", cfg.DeadLetters.ProcessingVersion)
	require.Equal(t, "false", cfg.Providers[0].InjectToken)
	require.Equal(t, []Rule{{Code: "0301", Class: "transient"}, {Status: 400, Code: "InvalidContent", Class: "quota"}}, cfg.Providers[0].Rules)
}

func TestNullAndEmptySectionsKeepTheDefaults(t *testing.T) {
	cfg := accepted(t, "log:\nretry: {}\nbreaker: {window: ~}"+oneAccount)
	require.Equal(t, Default().Log, cfg.Log)
	require.Equal(t, Default().Retry, cfg.Retry)
	require.Equal(t, Default().Breaker, cfg.Breaker)
}

func TestAliasesAreFollowed(t *testing.T) {
	cfg := accepted(t, `
providers:
  - {name: a, kind: mistral, listen: "127.0.0.1:1", upstream: &up "https://x.example", retry: &r {max_attempts: 3}}
  - {name: b, kind: mistral, listen: "127.0.0.1:2", upstream: *up, retry: *r}
`)
	require.Equal(t, "https://x.example", cfg.Providers[1].Upstream)
	require.Equal(t, 3, cfg.Providers[1].Retry.MaxAttempts)
	refused(t, "retry: &r {operations: *r}"+oneAccount) // An alias to itself ends.
}

func TestEntriesInheritKeyByKey(t *testing.T) {
	cfg := accepted(t, `
retry:
  max_attempts: 3
  budget: {ratio: 0.5}
  operations: {AnalyzeDocument: {max_attempts: 2}}
breaker: {window: 30s}
precheck: {skip: [blank, size, type]}
providers:
  - name: own
    kind: mistral
    listen: 127.0.0.1:8081
    upstream: https://x.example
    retry: {base_delay: 2s, budget: {floor: 0}, operations: {analyzeDOCUMENT: {cap_delay: 5s}, other: {max_attempts: 1}}}
    breaker: {failure_threshold: 9}
    precheck: {skip: [pages]}
  - {name: plain, kind: mistral, listen: "127.0.0.1:8082", upstream: "https://x.example"}
`, "OCR_PROXY_RETRY_CAP_DELAY=7s", "OCR_PROXY_RETRY_BASE_DELAY=9s")
	own, plain := cfg.Providers[0], cfg.Providers[1]
	require.Equal(t, 3, own.Retry.MaxAttempts)
	require.Equal(t, 2*time.Second, own.Retry.BaseDelay, "the entry is stronger than the environment")
	require.Equal(t, 9*time.Second, plain.Retry.BaseDelay)
	require.Equal(t, 7*time.Second, own.Retry.CapDelay)
	require.Equal(t, RetryBudget{Ratio: 0.5, Floor: 0}, own.Retry.Budget)
	require.Equal(t, 30*time.Second, own.Breaker.Window)
	require.Equal(t, 9, own.Breaker.FailureThreshold)
	require.Equal(t, []string{"pages"}, own.Precheck.Skip)

	analyze := own.Retry.For("AnalyzeDocument")
	require.Equal(t, 2, analyze.MaxAttempts)
	require.Equal(t, 5*time.Second, analyze.CapDelay)
	require.Equal(t, 1, own.Retry.For("OTHER").MaxAttempts)

	require.Equal(t, cfg.Retry, plain.Retry, "one entry must not reach into the next")
	require.Equal(t, cfg.Breaker, plain.Breaker)
	require.Equal(t, []string{"blank", "size", "type"}, plain.Precheck.Skip)
	require.Len(t, plain.Retry.Operations, 1)
}

func TestNamesThatDifferInCaseOnly(t *testing.T) {
	cfg := accepted(t, `
providers:
  - {name: Acct-A, kind: mistral, listen: "127.0.0.1:1", upstream: "https://one.example"}
  - {name: acct-a, kind: mistral, listen: "127.0.0.1:2", upstream: "https://two.example"}
`)
	require.Equal(t, "Acct-A", cfg.Providers[0].Name)
	require.Equal(t, "acct-a", cfg.Providers[1].Name)
	require.Equal(t, "https://two.example", cfg.Providers[1].Upstream)

	found := refused(t, "retry: {operations: {Detect: {max_attempts: 1}, detect: {max_attempts: 2}}}"+oneAccount)
	require.Contains(t, found["retry.operations.detect"], "without case")

	tree := readDocument([]byte("providers: [{spread: {Acct-A: 1, acct-a: 2}}]"), &problems{})
	require.Equal(t, map[string]int{"Acct-A": 1, "acct-a": 2}, assemble(tree, nil, &problems{}).Providers[0].Spread)
}

func TestNamesWithDotsStayWhole(t *testing.T) {
	var found problems
	cfg := assemble(readDocument([]byte(`review: {fields: {invoice: {Total.Amount: 0.9}}}`), &found), nil, &found)
	require.Empty(t, found)
	require.Equal(t, map[string]map[string]float64{"invoice": {"total.amount": 0.9}}, cfg.Review.Fields)
}

func TestForKeepsWhatHasNoOverride(t *testing.T) {
	r := Default().Retry
	require.Equal(t, r, r.For("anything"))
	budget, often := 5*time.Second, "always"
	r.Operations = map[string]RetryOverride{"Start": {TotalBudget: &budget, Ambiguous: &often}}
	want := Default().Retry
	want.TotalBudget, want.Ambiguous = budget, often
	require.Equal(t, want, r.For("start"))
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", oneAccount, "retry: &r {operations: *r}", "a: [", "providers: [~, 1, {}]", "? [a]\n: b", "{<<: {a: 1}}",
		"retry: {operations: {A: {max_attempts: 1}, a: ~}}", "providers: [{retry: {operations: {\"a\\x1fb\": {}}}}]",
		"dead_letters: {webhook: {url: \"http://[::1\"}}", "\"providers[-1]\": 1",
	} {
		f.Add(seed, "OCR_PROXY_RETRY_MAX_ATTEMPTS=7")
	}
	f.Fuzz(func(t *testing.T, text, variable string) {
		cfg, err := Parse([]byte(text), []string{variable})
		if err != nil {
			requireInvalid(t, err)
			require.NotEmpty(t, err.Error())
			return
		}
		_, err = cfg.YAML()
		require.NoError(t, err)
	})
}

func TestLoadWithoutSecretsNeedsNoneButChecksAllElse(t *testing.T) {
	const text = `
admin: {listen: "0.0.0.0:9191", token_file: /no/token, tls: {cert_file: /no/cert, key_file: /no/key}}
providers:
  - {name: env, kind: mistral, listen: "127.0.0.1:8085", upstream: "https://api.mistral.ai", auth: {type: header, header: Authorization, value_env: NOT_SET}}
  - {name: file, kind: azure, listen: "127.0.0.1:8082", upstream: "https://a.example", auth: {type: header, header: X-Key, value_file: /no/key}, upstream_tls: {ca_file: /no/ca}}
  - {name: aws, kind: textract, listen: "127.0.0.1:8081", upstream: "https://textract.us-east-1.amazonaws.com"}
`
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, err := Load(path, nil)
	require.Len(t, requireInvalid(t, err), 6)

	cfg, err := LoadWithoutSecrets(path, []string{"OCR_PROXY_DEAD_LETTERS_DIR=/letters"})
	require.NoError(t, err)
	require.Equal(t, "0.0.0.0:9191", cfg.Admin.Listen)
	require.True(t, cfg.Admin.TLS.Enabled())
	require.Equal(t, "/letters", cfg.DeadLetters.Dir)

	require.NoError(t, os.WriteFile(path, []byte(text+"colour: red\n"), 0o600))
	_, err = LoadWithoutSecrets(path, nil)
	require.ErrorContains(t, err, "colour: unknown key")
	_, err = LoadWithoutSecrets(path+".none", nil)
	requireInvalid(t, err)
}

func TestMistakenDurationsAreRepeatedUnlessTheyCouldBeSecret(t *testing.T) {
	require.Contains(t, refused(t, "retry: {cap_delay: 30}"+oneAccount)["retry.cap_delay"], `it is "30"`)
	require.Contains(t, refused(t, "retry: {cap_delay: -5s}"+oneAccount)["retry.cap_delay"], "it is -5s")
	require.Contains(t, refused(t, oneAccount, "OCR_PROXY_RETRY_CAP_DELAY=soon")["OCR_PROXY_RETRY_CAP_DELAY"], `it is "soon"`)
	require.NotContains(t, refused(t, "retry: {cap_delay: planted-key-5f2c}"+oneAccount)["retry.cap_delay"], "planted")
}
