package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]string // a part of the message by key
	}{
		"the defaults": {oneAccount, nil},
		"an attempt longer than the budget, said once for all who inherit it": {
			"retry: {total_budget: 50s}" + oneAccount + `  - {name: b, kind: azure, listen: "127.0.0.1:8082", upstream: "https://b.example"}`,
			map[string]string{"retry.attempt_timeout": "60s is more than total_budget (50s)"},
		},
		"in one account": {
			providers(account("retry: {base_delay: 40s}")),
			map[string]string{"providers[0].retry.base_delay": `account "a": 40s is more than cap_delay (30s)`},
		},
		"in one operation": {
			providers(account("retry: {operations: {ocr: {attempt_timeout: 5m}}}")),
			map[string]string{"providers[0].retry.operations.ocr.attempt_timeout": "300s is more than total_budget (90s)"},
		},
		"a signature for another host": {
			providers(account("kind: textract, auth: {type: passthrough}")),
			map[string]string{"providers[0].auth.type": "use type sigv4, with which the proxy signs"},
		},
		"a key that may pass": {providers(account("kind: azure, auth: {type: passthrough}")), nil},
		"paths of another account": {
			providers(account("kind: documentai, auth: {type: none}, fallback: [b], spread: {b: 1}")) + `  - {name: b, kind: documentai, auth: {type: none}, listen: "127.0.0.1:8082", upstream: "https://b.example"}`,
			map[string]string{"providers[0].fallback": "very same processor", "providers[0].spread": "very same processor"},
		},
		"an account of the same model elsewhere": {
			providers(account("kind: vision, auth: {type: none}, fallback: [b]")) + `  - {name: b, kind: vision, auth: {type: none}, listen: "127.0.0.1:8082", upstream: "https://b.example"}`, nil,
		},
		"the proxy signs":                       {providers(account("kind: textract, auth: {type: sigv4, region: us-east-1}")), nil},
		"an operation with a budget of its own": {providers(account("retry: {operations: {ocr: {attempt_timeout: 5m, total_budget: 6m}}}")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := accepted(t, c.text).Warnings()
			require.Len(t, found, len(c.want), found)
			for _, w := range found {
				require.Contains(t, w.Message, c.want[w.Key], w.Key)
				require.Contains(t, c.want, w.Key)
			}
		})
	}
}
