package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

const isJSON = "Content-Type: application/json"

func post(t *testing.T, o Options, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	return order(t, o, http.MethodPost, "/api/v1/dead-letters/"+path, isJSON, body)
}

func TestLettersComeToTheirEnd(t *testing.T) {
	t.Parallel()
	o, ids := withLetters(t, 2)
	core, logs := observer.New(zapcore.InfoLevel)
	o.Log = zap.New(core)
	letter := decode(t, post(t, o, ids[0]+"/resolve", `{"note":"typed in","label":"handwriting","by":"ann"}`))
	require.Equal(t, "resolved", letter["status"])
	require.Equal(t, ids[0], letter["id"])
	resolution := letter["resolution"].(map[string]any)
	require.Equal(t, "typed in", resolution["note"])
	require.Equal(t, "handwriting", resolution["label"])
	require.Equal(t, "ann", resolution["by"])
	require.Equal(t, 1, logs.FilterMessage("dead letter resolved").Len(), "who did what is in the log")

	short := ids[1][:len(ids[1])-2]
	letter = decode(t, order(t, o, http.MethodPost, "/api/v1/dead-letters/"+short+"/discard", isJSON+"; charset=utf-8", `{"note":"blank"}`))
	require.Equal(t, "discarded", letter["status"])
	require.Equal(t, "admin API", letter["resolution"].(map[string]any)["by"])

	require.Equal(t, http.StatusConflict, post(t, o, ids[0]+"/resolve", "").Code)
	names := decode(t, ask(t, o, http.MethodGet, "/api/v1/dead-letters?status=discarded", ""))
	require.Len(t, names["dead_letters"], 1)
}

func TestALetterCanBeResolvedWithoutAWord(t *testing.T) {
	t.Parallel()
	o, ids := withLetters(t, 1)
	require.Equal(t, "resolved", decode(t, ask(t, o, http.MethodPost, "/api/v1/dead-letters/"+ids[0]+"/resolve", ""))["status"])
}

func TestOrdersThatMakeNoSense(t *testing.T) {
	t.Parallel()
	o, ids := withLetters(t, 2)
	claim, err := o.Letters.Claim(ids[1])
	require.NoError(t, err)
	defer func() { require.NoError(t, claim.Release(nil)) }()
	const unknown = "0192d3c0-7a1b-7c3d-8e4f-5a6b7c8d9e0f"
	for _, c := range []struct {
		path, header, body string
		want               int
		says               string
	}{
		{ids[0] + "/discard", isJSON, `{}`, 400, "note"},
		{ids[0] + "/discard", "", ``, 400, "note"},
		{ids[0] + "/resolve", isJSON, `{"note":`, 400, "openapi.yaml"},
		{ids[0] + "/resolve", isJSON, `{"nota":"x"}`, 400, "nota"},
		{ids[0] + "/resolve", isJSON, `{} {}`, 400, "one JSON object"},
		{ids[0] + "/resolve", isJSON, `[]`, 400, "openapi.yaml"},
		{ids[0] + "/resolve", "", `{}`, 415, "application/json"},
		{ids[0] + "/resolve", "Content-Type: text/plain", `{}`, 415, "application/json"},
		{ids[0] + "/resolve", "Content-Type: application/x-www-form-urlencoded", `note=x`, 415, "application/json"},
		{ids[0] + "/resolve", isJSON, `{"note":"` + strings.Repeat("x", 65<<10) + `"}`, 413, "64 KiB"},
		{unknown + "/resolve", isJSON, `{}`, 404, "no such dead letter"},
		{"x/resolve", isJSON, `{}`, 404, "eight characters"},
		{"..%2f..%2fetc/resolve", isJSON, `{}`, 404, ""},
		{ids[0][:8] + "/resolve", isJSON, `{}`, 400, "give more"},
		{ids[1] + "/resolve", isJSON, `{}`, 409, "not open but claimed"},
		{"prune", isJSON, `{"older_than":"soon"}`, 400, "720h"},
		{"prune", isJSON, `{"older_than":"0s"}`, 400, "above zero"},
		{"prune", isJSON, `{"older_than":"-1h"}`, 400, "above zero"},
		{ids[0] + "/burn", isJSON, `{}`, 404, ""},
	} {
		w := order(t, o, http.MethodPost, "/api/v1/dead-letters/"+c.path, c.header, c.body)
		require.Equal(t, c.want, w.Code, "%s %s: %s", c.path, c.body, w.Body)
		require.Contains(t, w.Body.String(), c.says)
		require.Equal(t, 1, strings.Count(w.Body.String(), "\n"), "one sentence: %s", w.Body)
	}
	require.Equal(t, http.StatusMethodNotAllowed, ask(t, o, http.MethodGet, "/api/v1/dead-letters/"+ids[0]+"/resolve", "").Code, "a link decides nothing")
	require.Equal(t, "open", decode(t, ask(t, o, http.MethodGet, "/api/v1/dead-letters/"+ids[0], ""))["status"], "none of that did anything")
}

func TestOnlyTheListenersOwnPageMakesABrowserDecide(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]int{
		"":                              200, // no browser
		"Sec-Fetch-Site: same-origin":   200,
		"Origin: http://127.0.0.1:9090": 200,
		"Sec-Fetch-Site: cross-site":    403,
		"Sec-Fetch-Site: same-site":     403,
		"Origin: https://evil.example":  403,
		"Origin: null":                  403,
		"Host: evil.example":            421,
		"Host: evil.example:9090|Origin: http://evil.example:9090": 421,
	} {
		o, ids := withLetters(t, 1)
		require.Equal(t, want, order(t, o, http.MethodPost, "/api/v1/dead-letters/"+ids[0]+"/resolve", header+"|"+isJSON, `{}`).Code, header)
		require.Equal(t, want, order(t, o, http.MethodPost, "/api/v1/dead-letters/prune", header+"|"+isJSON, `{}`).Code, header)
	}
}

func TestPruning(t *testing.T) {
	t.Parallel()
	o, ids := withLetters(t, 3)
	decode(t, post(t, o, ids[0]+"/resolve", ""))
	decode(t, post(t, o, ids[1]+"/discard", `{"note":"blank"}`))
	pruned := func(body string) (r dlq.PruneReport) {
		w := post(t, o, "prune", body)
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
		return r
	}
	require.Zero(t, pruned("").Letters, "without a retention they are kept")
	dry := pruned(`{"dry_run":true,"older_than":"1ns"}`)
	require.Equal(t, 2, dry.Letters)
	require.True(t, dry.DryRun)
	o.Retention = time.Hour
	require.Zero(t, pruned("").Letters, "they are young")
	o.Retention = time.Nanosecond
	require.Equal(t, 2, pruned("").Letters)
	require.Len(t, decode(t, ask(t, o, http.MethodGet, "/api/v1/dead-letters", ""))["dead_letters"], 1)
}

func TestAStoreThatCannotBeChanged(t *testing.T) {
	t.Parallel()
	o, ids := withLetters(t, 1)
	require.NoError(t, os.RemoveAll(filepath.Join(o.LettersDir, "resolved")))
	require.NoError(t, os.WriteFile(filepath.Join(o.LettersDir, "resolved"), nil, 0o600))
	w := post(t, o, ids[0]+"/resolve", "")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.NotContains(t, w.Body.String(), o.LettersDir)
	require.NoError(t, o.Letters.Close())
	for _, path := range []string{ids[0] + "/resolve", "prune"} {
		require.Equal(t, http.StatusServiceUnavailable, post(t, o, path, "").Code)
	}
}
