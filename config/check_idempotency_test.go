package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// engine is an account of the kind that knows no token of its own.
func engine(more string) string { return providers(account("kind: generic, " + more)) }

func TestTheHeaderOfAnIdempotencyToken(t *testing.T) {
	for text, key := range map[string]string{
		engine("idempotency_header: 'Idempotency Key'"):                                            "providers[0].idempotency_header",
		engine("idempotency_header: content-type"):                                                 "providers[0].idempotency_header",
		engine("idempotency_header: Host"):                                                         "providers[0].idempotency_header",
		engine("idempotency_header: ocr-proxy-tenant"):                                             "providers[0].idempotency_header",
		engine("idempotency_header: authorization"):                                                "providers[0].idempotency_header",
		providers(account("idempotency_header: Idempotency-Key")):                                  "providers[0].idempotency_header",
		providers(account("idempotency_quoted: false")):                                            "providers[0].idempotency_quoted",
		providers(account("kind: vision, repair_pages: true")):                                     "providers[0].repair_pages",
		"dead_letters: {payloads: none}\n" + providers(account("kind: azure, repair_pages: true")): "providers[0].repair_pages",
	} {
		found := refused(t, text)
		require.Contains(t, found, key, text)
		require.Len(t, found, 1, text)
	}
	cfg := accepted(t, engine("idempotency_header: X-Idempotency-Key, idempotency_quoted: false"))
	require.Equal(t, "X-Idempotency-Key", cfg.Providers[0].IdempotencyHeader)
	require.False(t, cfg.Providers[0].IdempotencyQuoted)
	require.True(t, accepted(t, engine("idempotency_header: Idempotency-Key")).Providers[0].IdempotencyQuoted)
	for _, kind := range []string{"azure", "documentai", "mistral"} {
		require.True(t, accepted(t, providers(account("kind: "+kind+", repair_pages: true"))).Providers[0].RepairPages)
	}
	require.True(t, accepted(t, "dead_letters: {payloads: none}\n"+providers(account("kind: documentai, repair_pages: true"))).Providers[0].RepairPages)
}
