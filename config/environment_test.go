package config

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnvironmentReachesNestedSettings(t *testing.T) {
	cfg := accepted(t, "retry: {max_attempts: 2}"+oneAccount,
		"OCR_PROXY_RETRY_MAX_ATTEMPTS=7", "OCR_PROXY_RETRY_BUDGET_RATIO=0.5", "OCR_PROXY_DEAD_LETTERS_DIR=/data=1",
		"OCR_PROXY_DEAD_LETTERS_WEBHOOK_TIMEOUT=3s", "OCR_PROXY_BODY_MAX_BYTES=1GiB", "OCR_PROXY_PRECHECK_REJECT_BLANK=false",
		"OCR_PROXY_LOG_LEVEL=warn", "OCR_PROXY_LOG_LEVEL=debug")
	require.Equal(t, 7, cfg.Retry.MaxAttempts)
	require.Equal(t, 7, cfg.Providers[0].Retry.MaxAttempts)
	require.InDelta(t, 0.5, cfg.Retry.Budget.Ratio, 0)
	require.Equal(t, "/data=1", cfg.DeadLetters.Dir)
	require.Equal(t, "3s", formatDuration(cfg.DeadLetters.Webhook.Timeout))
	require.Equal(t, Size(1<<30), cfg.Body.MaxBytes)
	require.False(t, cfg.Precheck.RejectBlank)
	require.Equal(t, "debug", cfg.Log.Level, "the last one counts")
}

func TestVariablesThatAreNoSettings(t *testing.T) {
	for name, message := range map[string]string{
		"OCR_PROXY_PROVIDERS_1_UPSTREAM":         "in the file",
		"OCR_PROXY_PROVIDERS_ACCT_UPSTREAM":      "in the file",
		"OCR_PROXY_PROVIDERS":                    "in the file",
		"OCR_PROXY_RETRY":                        "names no setting",
		"OCR_PROXY_RETRY_MAX_ATEMPTS":            "did you mean OCR_PROXY_RETRY_MAX_ATTEMPTS?",
		"OCR_PROXY_RETRY_OPERATIONS_DETECT_X":    "names no setting",
		"OCR_PROXY_ADMIN_HOSTS":                  "names no setting",
		"OCR_PROXY_DEAD_LETTERS_SOMETHING_ELSE_": "names no setting",
	} {
		found := refused(t, oneAccount, name+"=SECRET-VALUE")
		require.Contains(t, found[name], message)
		require.Len(t, found, 1)
		require.NotContains(t, found[name], "SECRET-VALUE")
	}
}

func TestVariablesOfOthersAreIgnored(t *testing.T) {
	accepted(t, oneAccount, "OCR_PROXY_PORT=tcp://10.0.0.1:80", "OCR_PROXY_SERVICE_HOST=10.0.0.1", "OCR_PROXY_LOGS=x",
		"OCR_PROXY_DEAD=x", "RETRY_MAX_ATTEMPTS=0", "ocr_proxy_retry_max_attempts=0", "OCR_PROXY_", "PATH")
}

func TestEverySettingHasAVariableOfItsOwn(t *testing.T) {
	settings := map[string]setting{}
	collectSettings(reflect.TypeFor[Config](), "", settings)
	scalars := 0
	for _, key := range Reference() {
		if _, inEntry := cutEntry(key.Path); inEntry || key.Type == "list" || key.Type == "mapping" {
			continue
		}
		scalars++
		require.Equal(t, key.Path, settings[variable(key.Path)].path)
	}
	require.Len(t, settings, scalars)
}

func TestAVariableOutOfRangeIsNamed(t *testing.T) {
	found := refused(t, oneAccount, "OCR_PROXY_RETRY_MAX_ATTEMPTS=0")
	require.Len(t, found, 1)
	require.Contains(t, found["retry.max_attempts"], "OCR_PROXY_RETRY_MAX_ATTEMPTS")
}
