package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const goodConfig = `
retry: {max_attempts: 3}
providers:
  - name: acct
    kind: mistral
    listen: 127.0.0.1:8085
    upstream: https://api.mistral.ai
    auth: {type: header, header: Authorization, scheme: Bearer, value_env: MISTRAL_API_KEY}
`

func TestCheck(t *testing.T) {
	t.Parallel()
	key := "MISTRAL_API_KEY=planted-key-5f2c"
	code, stdout, stderr := command(t, "", []string{key, "OCR_PROXY_RETRY_CAP_DELAY=7s"}, "check", "--config", file(t, "good.yaml", goodConfig))
	require.Zero(t, code, stderr)
	require.Equal(t, "ok: 1 account: acct on 127.0.0.1:8085\n", stderr)
	require.Contains(t, stdout, "max_attempts: 3")
	require.Contains(t, stdout, "cap_delay: 7s", "the environment overrides")
	require.Contains(t, stdout, "drain_timeout", "defaults are shown")
	require.NotContains(t, stdout, "planted-key-5f2c")

	effective := file(t, "effective.yaml", stdout)
	code, again, stderr := command(t, "", []string{key}, "check", "--config", effective)
	require.Zero(t, code, stderr)
	require.Equal(t, stdout, again, "what is printed is itself a configuration")

	doubtful := strings.ReplaceAll(goodConfig, "max_attempts: 3", "total_budget: 30s, base_delay: 40s")
	code, _, stderr = command(t, "", []string{key}, "check", "--config", file(t, "doubtful.yaml", doubtful))
	require.Zero(t, code)
	require.Regexp(t, `^warning: retry\.attempt_timeout: 60s .*\nwarning: retry\.base_delay: 40s .*\nok: 1 account`, stderr)

	bad := strings.ReplaceAll(goodConfig, "max_attempts: 3", "max_attempts: 0, base_delay: 30, colour: red") + "  - {name: acct, kind: tesseract, listen: nowhere}\n"
	code, stdout, stderr = command(t, "", []string{key}, "check", "--config", file(t, "bad.yaml", bad))
	require.Equal(t, exitBadConfig, code)
	require.Empty(t, stdout)
	for _, problem := range []string{"retry.max_attempts", "retry.base_delay", "retry.colour", "providers[1].name", "providers[1].kind", "providers[1].listen", "providers[1].upstream"} {
		require.Contains(t, stderr, problem)
	}
	require.NotContains(t, stderr, "planted-key-5f2c")
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		args  []string
		stdin string
		want  map[string]any
	}{
		{
			"a throttle with status 400",
			[]string{"--kind", "textract", "--status", "400", "--body", "-"},
			`{"__type":"com.amazonaws#ThrottlingException","message":"slow"}`,
			map[string]any{"class": "throttle", "failure_class": "transient", "error_code": "ThrottlingException", "error_message": "slow", "retry": true, "retry_after_seconds": nil, "breaker": "neutral"},
		},
		{
			"a hint",
			[]string{"--kind", "azure", "--status", "503", "--header", "Retry-After: 7"},
			"",
			map[string]any{"class": "transient", "retry": true, "retry_after_seconds": 7.0, "breaker": "failure"},
		},
		{
			"a hint in the body",
			[]string{"--kind", "documentai", "--status", "429", "--body", "-"},
			`{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"@type":"x"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.5s"}]}}`,
			map[string]any{"class": "throttle", "retry_after_seconds": 1.5},
		},
		{
			"milliseconds before seconds",
			[]string{"--kind", "generic", "--status", "429", "--header", "retry-after-ms: 1200", "--header", "Retry-After: 60"},
			"",
			map[string]any{"retry_after_seconds": 1.2},
		},
		{
			"permanent",
			[]string{"--kind", "mistral", "--status", "422"},
			"",
			map[string]any{"class": "permanent", "failure_class": "fatal", "retry": false, "breaker": "success"},
		},
		{"unknown", []string{"--kind", "generic", "--status", "418"}, "", map[string]any{"class": "unknown", "retry": false, "breaker": "neutral"}},
		{"success", []string{"--kind", "generic", "--status", "200"}, "", map[string]any{"class": "success", "failure_class": "success", "breaker": "success"}},
		{
			"a job that failed in a 200",
			[]string{"--kind", "azure", "--operation", "getAnalyzeResult", "--status", "200", "--header", "Content-Type: application/json", "--body", "-"},
			`{"status":"failed","error":{"code":"InternalServerError"}}`,
			map[string]any{"class": "permanent", "error_code": "InternalServerError"},
		},
		{
			"a 200 that is no JSON",
			[]string{"--kind", "mistral", "--status", "200", "--header", "Content-Type: application/json", "--body", "-"},
			"<html>",
			map[string]any{"class": "permanent", "error_code": "malformed_output"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := command(t, c.stdin, nil, append([]string{"explain"}, c.args...)...)
			require.Zero(t, code, stderr)
			var got map[string]any
			require.NoError(t, json.Unmarshal([]byte(stdout), &got))
			for key, want := range c.want {
				require.Contains(t, got, key)
				require.Equal(t, want, got[key], key)
			}
			require.NotEmpty(t, got["reason"])
			require.Len(t, got, 8)
		})
	}
	body := file(t, "body.json", `{"code":"from a file"}`)
	_, stdout, _ := command(t, "", nil, "explain", "--kind", "generic", "--status", "400", "--body", body)
	require.Contains(t, stdout, "from a file")
}

func TestCommandLinesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"serv"}, []string{`"serv"`, "did you mean serve?", "ocr-proxy --help"}},
		{[]string{"dlq", "lst"}, []string{`"lst"`, "did you mean list?", "ocr-proxy dlq --help"}},
		{[]string{"dlq", "prune"}, []string{"--dir DIR or --config FILE"}},
		{[]string{"dlq", "prune", "--dir", ".", "--older-than", "0s"}, []string{"--older-than", "30d"}},
		{[]string{"dlq", "prune", "--dir", ".", "--older-than", "soon"}, []string{"--older-than \"soon\""}},
		{[]string{"dlq", "resolve", "--dir", "."}, []string{"say which letter"}},
		{[]string{"dlq", "resolve", "--dir", ".", "0192d3"}, []string{"0192d3", "first 8 characters"}},
		{[]string{"dlq", "discard", "--dir", ".", "0192d3c0-7a1b"}, []string{"--note"}},
		{[]string{"dlq", "discard", "--dir", ".", "0192d3c0-7a1b", "--note", " "}, []string{"--note"}},
		{[]string{"dlq", "export", "--dir", "."}, []string{"--to DIR"}},
		{[]string{"dlq", "export", "--dir", ".", "--to", "x", "0192d3"}, []string{"0192d3", "first 8 characters"}},
		{[]string{"dlq", "export", "--dir", ".", "--to", "x", "0192d3c0-7a1b", "--class", "auth"}, []string{"--class", "not both"}},
		{[]string{"sim"}, []string{"textract", "ocr-proxy sim --help"}},
		{[]string{"sim", "--kind", "tesseract"}, []string{"tesseract", "textract"}},
		{[]string{"sim", "--kind", "azure", "--outage", "soon"}, []string{"soon"}},
		{[]string{"demo", "--documents", "3"}, []string{"give 20 to 200"}},
		{[]string{"quality"}, []string{"--config or --dir", "ocr-proxy quality --help"}},
		{[]string{"quality", "--dir", ".", "--days", "36"}, []string{"--days 36", "2 to 35"}},
		{[]string{"quality", "--dir", ".", "--days", "3", "--last", "3"}, []string{"--last 3", "1 to 2"}},
		{[]string{"quality", "--dir", ".", "-o", "yaml"}, []string{"table nor json"}},
		{[]string{"check", "x.yaml"}, []string{"did you mean --config x.yaml?", "ocr-proxy check --help"}},
		{[]string{"serve", "x.yaml"}, []string{"did you mean --config x.yaml?"}},
		{[]string{"health", "x.yaml"}, []string{"did you mean --config x.yaml?"}},
		{[]string{"dlq", "list", "x.yaml"}, []string{"did you mean --config x.yaml?"}},
		{[]string{"check", "--config", "x.yaml", "y.yaml"}, []string{`"y.yaml" is not expected`}},
		{[]string{"dlq", "list"}, []string{"--dir DIR or --config FILE", "ocr-proxy dlq list --help"}},
		{[]string{"dlq", "list", "--dir", ".", "--class", "slow"}, []string{`"slow"`, "throttle, transient, permanent", "soft"}},
		{[]string{"dlq", "top", "--dir", ".", "--outcome", "success"}, []string{`"success"`, "permanent, exhausted, circuit_open, review"}},
		{[]string{"dlq", "verify", "--dir", ".", "--output", "yaml"}, []string{"table, json"}},
		{[]string{"dlq", "show", "--dir", "."}, []string{"say which letter"}},
		{[]string{"dlq", "show", "--dir", ".", "a", "b"}, []string{`"b"`}},
		{[]string{"dlq", "show", "--dir", ".", "0192d3"}, []string{"0192d3", "first 8 characters"}},
		{[]string{"serve"}, []string{"config"}},
		{[]string{"check", "--colour"}, []string{"--colour", "ocr-proxy check --help"}},
		{[]string{"explain", "--kind", "tesseract", "--status", "400"}, []string{"tesseract", "textract", "ocr-proxy explain --help"}},
		{[]string{"explain", "--kind", "generic", "--status", "4"}, []string{"--status 4", "--help"}},
		{[]string{"explain", "--kind", "generic", "--status", "many"}, []string{"many", "--help"}},
		{[]string{"explain", "--kind", "generic", "--status", "400", "--header", "no colon"}, []string{"no colon", "--help"}},
		{[]string{"explain", "--kind", "generic"}, []string{"status"}},
		{[]string{"version", "now"}, []string{"now"}},
	} {
		code, stdout, stderr := command(t, "", nil, c.args...)
		require.Equal(t, exitBadConfig, code, "%v: %s", c.args, stderr)
		require.Empty(t, stdout)
		require.Equal(t, 1, strings.Count(stderr, "\n"), "one sentence: %s", stderr)
		for _, want := range c.want {
			require.Contains(t, stderr, want, "%v", c.args)
		}
	}
	code, _, stderr := command(t, "", nil, "explain", "--kind", "generic", "--status", "400", "--body", "/does/not/exist")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "/does/not/exist")
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--help"}, {"serve", "--help"}, {"check", "--help"}, {"explain", "--help"}, {"health", "--help"}, {"version", "--help"}} {
		code, stdout, stderr := command(t, "", nil, args...)
		require.Zero(t, code)
		require.Contains(t, stdout, "Usage:")
		require.Empty(t, stderr)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"version", "--version"} {
		code, stdout, _ := command(t, "", nil, way)
		require.Zero(t, code)
		require.Regexp(t, `^ocr-proxy \S* ?\(commit \S+, go1\.\S+ \w+/\w+\)\n$`, stdout, way)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	ready := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(ready)
		}
	}))
	address := server.Listener.Addr().String()
	_, port, _ := strings.Cut(address, ":")
	ask := func(listen string) (int, string) {
		config := fmt.Sprintf("admin: {listen: %q}\n", listen) + goodConfig
		code, _, stderr := command(t, "", nil, "health", "--config", file(t, "c.yaml", config))
		return code, stderr
	}
	for _, listen := range []string{address, "0.0.0.0:" + port, ":" + port} {
		code, stderr := ask(listen)
		require.Zero(t, code, "%s: %s", listen, stderr)
	}
	ready = http.StatusServiceUnavailable
	code, stderr := ask(address)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "not ready: status 503")
	server.Close()
	code, stderr = ask(address)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "not ready")
}
