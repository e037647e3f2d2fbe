package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTopTellsTheShareOfFailedDocuments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/api/v1/providers", r.URL.Path)
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
