package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestYAMLIsAConfigurationAgain(t *testing.T) {
	cfg := accepted(t, `
body: {max_bytes: 10MB, memory_per_request: 1000001}
dead_letters: {processing_version: "true", retention: 90m}
retry: {base_delay: 1500ms, operations: {Detect: {max_attempts: 2}}}
providers:
  - name: a
    kind: textract
    listen: 127.0.0.1:8081
    upstream: https://x.example
    auth: {region: us-east-1}
    inject_token: content
    rules: [{status: 400, code: "0301", class: quota}]
    retry: {max_attempts: 2, operations: {start: {total_budget: 5m}}}
  - {name: b, kind: generic, listen: "127.0.0.1:8082", upstream: "https://x.example", auth: {type: header, header: X, value_env: KEY}}
`, "KEY=hunter2")
	text, err := cfg.YAML()
	require.NoError(t, err)
	for _, part := range []string{
		"max_bytes: 10MB\n", "memory_per_request: 1000001\n", "retention: 5400s\n", "base_delay: 1.5s\n", "total_budget: 90s\n",
		"max_bytes: 10GiB\n", "drain_timeout: 100s\n", "value_env: KEY\n", `processing_version: "true"`, "  - name: a\n",
	} {
		require.Contains(t, string(text), part)
	}
	require.NotContains(t, string(text), "hunter2")
	again := accepted(t, string(text), "KEY=hunter2")
	againText, err := again.YAML()
	require.NoError(t, err)
	require.Equal(t, string(text), string(againText))
	require.Equal(t, cfg.Providers[0].Retry, again.Providers[0].Retry)
}

func TestYAMLMasksAddresses(t *testing.T) {
	cfg := Default()
	cfg.DeadLetters.Webhook.URL = "https://user:hunter2@hooks.example/hunter2?token=hunter2"
	cfg.State.URL = "rediss://:hunter2@redis.example:6380/0"
	cfg.Tracing.OTLPEndpoint = "https://otlp.example/hunter2"
	text, err := cfg.YAML()
	require.NoError(t, err)
	require.NotContains(t, string(text), "hunter2")
	for _, part := range []string{"url: https://hooks.example\n", "url: rediss://redis.example:6380\n", "otlp_endpoint: https://otlp.example\n"} {
		require.Contains(t, string(text), part)
	}
	require.NotContains(t, refusal(t, cfg), "hunter2")
}

func refusal(t *testing.T, cfg *Config) string {
	t.Helper()
	err := cfg.Validate(nil)
	require.Error(t, err)
	return err.Error()
}

func TestSizesAndDurationsReadBack(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "1023": 1023, "1KiB": 1 << 10, "512MiB": 512 << 20, "10GiB": 10 << 30, "10MB": 10_000_000, "1.5GiB": 3 << 29, "7kB": 7000,
	} {
		got, err := parseSize(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
		again, err := parseSize(got.String())
		require.NoError(t, err)
		require.Equal(t, want, again)
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "90s", 24 * time.Hour: "24h", 1500 * time.Millisecond: "1.5s", 5 * time.Minute: "300s", -time.Second: "-1s",
	} {
		require.Equal(t, want, formatDuration(d))
		again, err := parseDuration(want)
		require.NoError(t, err)
		require.Equal(t, d, again)
	}
}
