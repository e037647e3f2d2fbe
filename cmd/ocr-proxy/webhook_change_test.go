package main

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/webhook"
)

func TestTheWebhookIsTurnedOnAndOffAndElsewhere(t *testing.T) {
	t.Parallel()
	told := make(chan string, 10)
	hook := func(name string) config.MaskedURL {
		return config.MaskedURL(provide(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			told <- name
		}))
	}
	cfg := config.Default().DeadLetters
	cfg.Dir = t.TempDir()
	a := new(announcer)
	require.NoError(t, a.open(cfg, zap.NewNop(), webhook.NewMetrics(nil)))
	t.Cleanup(func() { require.NoError(t, a.close()) })
	say := func() { require.NoError(t, a.Emit(webhook.BreakerOpened, time.Now(), 1)) }
	say() // to nobody
	for _, name := range []string{"first", "second"} {
		cfg.Webhook.URL = hook(name)
		require.NoError(t, a.change(cfg))
		say()
		require.Equal(t, name, <-told)
	}
	cfg.Webhook.URL = ""
	require.NoError(t, a.change(cfg))
	say()
	cfg.Webhook.URL = hook("third")
	cfg.Webhook.SecretFile = "missing"
	require.Error(t, a.change(cfg))
	say()
	cfg.Webhook.SecretFile = ""
	require.NoError(t, a.change(cfg))
	say()
	require.Equal(t, "third", <-told)
	require.Empty(t, told)
}
