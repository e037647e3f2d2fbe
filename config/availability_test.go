package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFeaturesThatAreNotAvailableYet(t *testing.T) {
	for key, text := range map[string]string{
		"providers[0].clients": providers(account("clients: {token_file: /tokens}")),
	} {
		t.Run(key, func(t *testing.T) {
			if !strings.HasPrefix(text, "providers:") {
				text += oneAccount
			}
			found := refused(t, text)
			require.Contains(t, found[key], "not available yet")
			require.Len(t, found, 1, "accounts that inherit it do not repeat it")
		})
	}
}

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
