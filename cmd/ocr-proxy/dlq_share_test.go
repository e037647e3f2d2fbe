package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

func TestTopTellsTheShareOfFailedDocuments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/providers" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(`{"providers":[{"name":"a","last_hour":{"requests":300,"dead_lettered":37}},
			{"name":"idle","last_hour":{"requests":0}},{"name":"b","last_hour":{"requests":8,"dead_lettered":0}}]}`))
	}))
	configured := func(listen string) string {
		return file(t, "config.yaml", fmt.Sprintf("admin: {listen: %q}\ndead_letters: {dir: %q}\nproviders: [{name: a, kind: generic, listen: \"127.0.0.1:8081\", upstream: \"http://x\"}]\n", listen, dir))
	}
	path := configured(strings.TrimPrefix(admin.URL, "http://"))
	code, out, errs := command(t, "", nil, "dlq", "top", "--config", path)
	require.Zero(t, code, errs)
	require.Equal(t, "no dead letters\nrequests of the last hour that ended as dead letters: a 37 of 300 (12.3 %), b 0 of 8 (0.0 %)\n", out)
	_, out, _ = command(t, "", nil, "dlq", "top", "--config", path, "--provider", "b")
	require.Equal(t, "no dead letters\nrequests of the last hour that ended as dead letters: b 0 of 8 (0.0 %)\n", out)
	_, out, _ = command(t, "", nil, "dlq", "top", "--config", path, "--output", "json")
	require.Equal(t, "[]\n", out, "groups alone")

	for name, args := range map[string][]string{"no configuration": {"--dir", dir}, "another folder": {"--config", path, "--dir", t.TempDir()}} {
		_, out, _ = command(t, "", nil, append([]string{"dlq", "top"}, args...)...)
		require.Equal(t, "no dead letters\n", out, name)
	}
	admin.Close()
	code, out, errs = command(t, "", nil, "dlq", "top", "--config", path)
	require.Zero(t, code, errs)
	require.Equal(t, "no dead letters\n", out, "no proxy runs")
}

func TestTopAdvisesOnLettersThatAreNotDoneWith(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := dlq.Open(dir, dlq.Options{})
	require.NoError(t, err)
	ids := make([]string, 2)
	for i := range ids {
		ids[i], err = s.Put(t.Context(), &dlq.Envelope{Provider: "a", Kind: "generic", Outcome: "exhausted", ErrorClass: "transient", FailureClass: "transient"}, nil)
		require.NoError(t, err)
	}
	_, err = s.Resolve(ids[0], dlq.Resolution{By: "me"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for status, advises := range map[string]bool{"open": true, "resolved": false} {
		code, out, errs := command(t, "", nil, "dlq", "top", "--dir", dir, "--status", status)
		require.Zero(t, code, errs)
		require.Contains(t, out, "transient")
		require.Equal(t, advises, strings.Contains(out, "Replay at a low rate"), out)
	}
}
