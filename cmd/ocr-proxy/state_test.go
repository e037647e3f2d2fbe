package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
)

// untilMetric waits until a process shows a line among its metrics.
func untilMetric(t *testing.T, p *proxyProcess, line string) {
	t.Helper()
	var text string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, _, text = p.ask(http.MethodGet, p.admin+"/metrics", ""); strings.Contains(text, line+"\n") {
			return
		}
	}
	require.FailNow(t, "no "+line, "%s", text)
}

// Two processes share what they know of an account, go on when the server is lost, and show nothing of its address but where it is.
func TestProcessesShareTheirState(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.RequireUserAuth(mark+"user", mark+"password")
	var down atomic.Bool
	var calls atomic.Int32
	upstream := provide(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		if down.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	const settings = "log: {level: debug}\nretry: {max_attempts: 1}\nbreaker: {failure_threshold: 1, reset_timeout: 1s, on_open: reject}\npacing: {start_rate: 50}\n"
	at := server.Addr()
	address := "redis://" + mark + "user:" + mark + "password@" + at
	environ := []string{"OCR_PROXY_STATE_URL=" + address}
	all := []*proxyProcess{servingIn(t, environ, "generic", upstream, settings), servingIn(t, environ, "generic", upstream, settings)}
	for _, p := range all {
		untilMetric(t, p, "ocrproxy_state_connected 1")
		untilMetric(t, p, `ocrproxy_state_peers{provider="acct"} 2`)
	}

	down.Store(true)
	status, _, _ := all[0].ask(http.MethodPost, all[0].account+"/ocr", "x")
	require.Equal(t, http.StatusInternalServerError, status)
	untilMetric(t, all[1], `ocrproxy_breaker_state{provider="acct",state="open"} 1`)
	before := calls.Load()
	status, header, _ := all[1].ask(http.MethodPost, all[1].account+"/ocr", "x")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "circuit_open", header.Get("Ocr-Proxy-Outcome"))
	require.Equal(t, before, calls.Load(), "the other process knows that it is of no use")

	down.Store(false)
	for end := time.Now().Add(patience); status != http.StatusOK && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		status, _, _ = all[1].ask(http.MethodPost, all[1].account+"/ocr", "x")
	}
	require.Equal(t, http.StatusOK, status)
	for _, p := range all {
		untilMetric(t, p, `ocrproxy_breaker_state{provider="acct",state="closed"} 1`)
	}

	server.Close()
	for _, p := range all {
		untilMetric(t, p, "ocrproxy_state_connected 0")
		status, _, _ = p.ask(http.MethodPost, p.account+"/ocr", "x")
		require.Equal(t, http.StatusOK, status)
	}

	shown := map[string]string{}
	for _, page := range []string{"/metrics", "/", "/api/v1/providers"} {
		_, _, shown[page] = all[0].ask(http.MethodGet, all[0].admin+page, "")
	}
	for _, p := range all {
		p.signal()
		require.Zero(t, p.end())
	}
	shown["the log"] = all[0].log.String()
	require.Contains(t, shown["the log"], "going on alone")
	conf := file(t, "config.yaml", "state: {url: '"+address+"'}\ndead_letters: {dir: /x}\nproviders:\n  - {name: acct, kind: generic, listen: '127.0.0.1:8080', upstream: 'http://x.example'}\n")
	_, shown["check"], _ = command(t, "", nil, "check", "--config", conf)
	require.Contains(t, shown["check"], "redis://"+at)
	for place, text := range shown {
		require.NotContains(t, text, mark, place)
	}
	for _, bad := range []string{address + "/x", address + "?x=" + mark, strings.Replace(address, "redis:", "http:", 1), "redis://" + mark + "@"} {
		conf := file(t, "config.yaml", "state: {url: '"+bad+"'}\ndead_letters: {dir: /x}\nproviders:\n  - {name: acct, kind: generic, listen: '127.0.0.1:8080', upstream: 'http://x.example'}\n")
		code, out, errors := command(t, "", nil, "check", "--config", conf)
		require.Equal(t, 2, code)
		require.Contains(t, out+errors, "state.url")
		require.NotContains(t, out+errors, mark)
	}
}
