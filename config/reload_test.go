package config

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryKeySaysWhetherItNeedsARestart(t *testing.T) {
	t.Parallel()
	for _, key := range Reference() {
		require.Contains(t, []string{Live, Restart}, key.Reload, key.Path)
	}
}

const twoAccounts = `
admin: {listen: "127.0.0.1:9090"}
providers:
  - {name: a, kind: mistral, listen: "127.0.0.1:8081", upstream: "https://a.example", auth: {type: none}}
  - {name: b, kind: mistral, listen: "127.0.0.1:8082", upstream: "https://b.example"}
`

func loaded(t *testing.T, text string) *Config {
	t.Helper()
	cfg, err := Parse([]byte(text), nil)
	require.NoError(t, err)
	return cfg
}

func TestSettleKeepsWhatNeedsARestartAndTakesTheRest(t *testing.T) {
	t.Parallel()
	running := loaded(t, twoAccounts)
	settled, pending := Settle(running, loaded(t, twoAccounts))
	require.Equal(t, running, settled)
	require.Empty(t, pending)

	wanted := loaded(t, `
log: {level: debug, format: console}
admin: {listen: "127.0.0.1:9091", hosts: [x.example]}
body: {max_bytes: 1MiB, memory_total: 1MiB, memory_per_request: 1KiB}
dead_letters: {dir: elsewhere, retention: 1h}
retry: {max_attempts: 9}
providers:
  - {name: b, kind: mistral, listen: "127.0.0.1:8084", upstream: "https://b.example", pacing: {rate: 3}}
  - {name: c, kind: azure, listen: "127.0.0.1:8083", upstream: "https://c.example"}
`)
	before := fmt.Sprintf("%+v", wanted)
	settled, pending = Settle(running, wanted)
	require.Equal(t, []string{"log.format", "admin.listen", "body.memory_per_request", "body.memory_total", "dead_letters.dir"}, pending)
	require.Equal(t, before, fmt.Sprintf("%+v", wanted), "it is not touched")
	require.Equal(t, []any{"debug", "json"}, []any{settled.Log.Level, settled.Log.Format})
	require.Equal(t, []any{"127.0.0.1:9090", []string{"x.example"}}, []any{settled.Admin.Listen, settled.Admin.Hosts})
	require.Equal(t, []any{Size(1 << 20), running.Body.MemoryTotal}, []any{settled.Body.MaxBytes, settled.Body.MemoryTotal})
	require.Equal(t, []any{running.DeadLetters.Dir, time.Hour}, []any{settled.DeadLetters.Dir, settled.DeadLetters.Retention})
	require.Equal(t, wanted.Providers, settled.Providers, "accounts come and go, and move to another address")
	require.Equal(t, 9, settled.Providers[0].Retry.MaxAttempts)
}

// A credential that was written for another provider must not go to the one that runs.
func TestAnEntryThatNamesAnotherProviderStaysAsItRuns(t *testing.T) {
	t.Parallel()
	for key, entry := range map[string]string{
		"upstream": `{name: a, kind: mistral, listen: "127.0.0.1:8081", upstream: "https://c.example", auth: {type: header, header: X, value_env: K}, retry: {max_attempts: 2}}`,
		"kind":     `{name: a, kind: azure, listen: "127.0.0.1:8081", upstream: "https://a.example", auth: {type: azure_entra}, retry: {max_attempts: 2}}`,
	} {
		running := loaded(t, twoAccounts)
		wanted, err := Parse([]byte("admin: {listen: '127.0.0.1:9090'}\nbreaker: {failure_threshold: 9}\nproviders:\n  - "+entry+"\n"), []string{"K=secret"})
		require.NoError(t, err)
		settled, pending := Settle(running, wanted)
		require.Equal(t, []string{"providers.a." + key}, pending)
		require.Equal(t, running.Providers[:1], settled.Providers)
		require.Equal(t, 9, settled.Breaker.FailureThreshold)
	}
}

// What a section says holds for all that is in it, whatever its type.
func TestSettleReachesEverySetting(t *testing.T) {
	t.Parallel()
	running, wanted := loaded(t, twoAccounts), loaded(t, twoAccounts)
	wanted.State.URL, wanted.Tracing.SampleRatio = "redis://x", 0.5
	wanted.Admin.TLS.CertFile, wanted.Providers[1].TLS.KeyFile = "c", "k"
	settled, pending := Settle(running, wanted)
	require.Equal(t, []string{"admin.tls.cert_file", "state.url", "tracing.sample_ratio", "providers.b.tls.key_file"}, pending)
	require.True(t, reflect.DeepEqual(running, settled))
}
