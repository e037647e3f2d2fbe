package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/config"
)

func TestTheWebhookTellsOfLettersAndCircuits(t *testing.T) {
	t.Parallel()
	verifier, err := standardwebhooks.NewWebhook("whsec_MDEyMzQ1Njc4OWFi")
	require.NoError(t, err)
	type event struct {
		Type string
		Data struct {
			ID, Account, Kind, Reason string
			Request                   struct{ Path string }
			Since                     time.Time
		}
	}
	events := make(chan event, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := verifier.Verify(body, r.Header); err != nil {
			t.Error(err)
		}
		var e event
		if err := json.Unmarshal(body, &e); err != nil || strings.Contains(string(body), "bytes of a page") {
			t.Errorf("%v in %s", err, body)
		}
		events <- e
	}))
	t.Cleanup(receiver.Close)
	next := func() event {
		select {
		case e := <-events:
			return e
		case <-time.After(patience):
			t.Error("no event")
			return event{}
		}
	}

	p := servingIn(t, []string{
		"OCR_PROXY_DEAD_LETTERS_WEBHOOK_URL=" + receiver.URL + "/hunter2?token=hunter2",
		"OCR_PROXY_DEAD_LETTERS_WEBHOOK_SECRET_FILE=" + file(t, "secret", "whsec_MDEyMzQ1Njc4OWFi\n"),
	}, "generic", provide(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bad":
			w.WriteHeader(http.StatusUnprocessableEntity)
		case "/down":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		echo(w, r)
	}), "", "retry: {max_attempts: 1}, breaker: {failure_threshold: 1, reset_timeout: 1ms}")

	_, header, _ := p.ask(http.MethodPost, p.account+"/bad", "bytes of a page")
	e := next()
	require.Equal(t, "dead_letter.created", e.Type)
	require.Equal(t, header.Get("Ocr-Proxy-Dead-Letter-Id"), e.Data.ID)
	require.Equal(t, "/bad", e.Data.Request.Path)

	p.ask(http.MethodPost, p.account+"/down", "bytes of a page")
	kinds := map[string]event{}
	for range 2 { // letters and circuits are streams of their own
		e := next()
		kinds[e.Type] = e
	}
	require.Contains(t, kinds, "dead_letter.created")
	opened := kinds["breaker.opened"].Data
	require.Equal(t, []string{"acct", "generic", "failures"}, []string{opened.Account, opened.Kind, opened.Reason})
	require.WithinDuration(t, time.Now(), opened.Since, time.Minute)

	require.Eventually(t, func() bool {
		status, _, _ := p.ask(http.MethodPost, p.account+"/", "bytes of a page")
		return status == http.StatusOK
	}, patience, time.Millisecond)
	for e = next(); e.Type == "dead_letter.created"; e = next() { // of an attempt that came too early
	}
	require.Equal(t, "breaker.closed", e.Type)
	require.Equal(t, opened.Since, e.Data.Since)

	_, _, text := p.ask(http.MethodGet, p.admin+"/metrics", "")
	require.Contains(t, text, `ocrproxy_webhook_deliveries_total{result="failed"} 0`)
	p.signal()
	require.Zero(t, p.end())
	require.NotContains(t, p.log.String(), "hunter2")
	require.NotContains(t, p.log.String(), "MDEyMzQ1Njc4OWFi")
}

func TestAProxyWithoutAWebhookKeepsNoEvents(t *testing.T) {
	t.Parallel()
	var tell announcer
	require.NoError(t, tell.open(config.Default().DeadLetters, nil, nil))
	require.NoError(t, tell.Emit("breaker.opened", time.Now(), nil))
	require.NoError(t, tell.close())
}
