package admin

import (
	"fmt"
	"net/http"
	"net/url"
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

// withLetters fills a store with letters 0 to n-1, every second one of provider b, and gives their ids.
func withLetters(t *testing.T, n int) (o Options, ids []string) {
	t.Helper()
	o = options(t)
	store, err := dlq.Open(o.LettersDir, dlq.Options{KeepPayloads: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	for i := range n {
		e := &dlq.Envelope{
			Provider: string(rune('a' + i%2)), Kind: "generic", Outcome: "permanent", ErrorClass: "permanent", ErrorCode: fmt.Sprintf("code-%d", i),
			FailureClass: "fatal", DocumentID: fmt.Sprintf("doc-%d", i), Tenant: "t", FailedAt: time.Date(2026, 1, 1, i, 0, 0, 0, time.UTC),
		}
		id, err := store.Put(t.Context(), e, strings.NewReader("the secret document"))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return o, ids
}

// documents are the names in a listing.
func documents(t *testing.T, o Options, query string) (names []string, more bool) {
	t.Helper()
	w := ask(t, o, http.MethodGet, "/api/v1/dead-letters"+query, "")
	require.NotContains(t, w.Body.String(), "the secret document", "payloads are never served")
	page := decode(t, w)
	for _, letter := range page["dead_letters"].([]any) {
		names = append(names, letter.(map[string]any)["document_id"].(string))
		require.Equal(t, "open", letter.(map[string]any)["status"])
	}
	return names, page["more"].(bool)
}

func TestListOfDeadLetters(t *testing.T) {
	t.Parallel()
	o, _ := withLetters(t, 5)
	for _, c := range []struct {
		query string
		want  []string
		more  bool
	}{
		{"", []string{"doc-4", "doc-3", "doc-2", "doc-1", "doc-0"}, false},
		{"?limit=2", []string{"doc-4", "doc-3"}, true},
		{"?limit=5", []string{"doc-4", "doc-3", "doc-2", "doc-1", "doc-0"}, false},
		{"?provider=b", []string{"doc-3", "doc-1"}, false},
		{"?provider=b&limit=1", []string{"doc-3"}, true},
		{"?code=code-2", []string{"doc-2"}, false},
		{"?class=throttle", nil, false},
		{"?tenant=t&outcome=permanent&since=2026-01-01T03:00:00Z", []string{"doc-4", "doc-3"}, false},
	} {
		names, more := documents(t, o, c.query)
		require.Equal(t, c.want, names, c.query)
		require.Equal(t, c.more, more, c.query)
	}
	require.Equal(t, []any{}, decode(t, ask(t, o, http.MethodGet, "/api/v1/dead-letters?status=resolved", ""))["dead_letters"], "a list, not null")
	for _, query := range []string{"?limit=0", "?limit=-1", "?limit=1001", "?limit=x", "?since=yesterday", "?status=lost"} {
		require.Equal(t, http.StatusBadRequest, ask(t, o, http.MethodGet, "/api/v1/dead-letters"+query, "").Code, query)
	}
}

func TestOneDeadLetter(t *testing.T) {
	t.Parallel()
	o, ids := withLetters(t, 1)
	w := ask(t, o, http.MethodGet, "/api/v1/dead-letters/"+ids[0], "")
	require.NotContains(t, w.Body.String(), "the secret document")
	letter := decode(t, w)
	require.Equal(t, ids[0], letter["id"])
	require.Equal(t, "open", letter["status"])
	require.Equal(t, dlq.Schema, letter["schema"])

	outside := filepath.Join(filepath.Dir(o.LettersDir), "outside.json")
	require.NoError(t, os.WriteFile(outside, []byte(`{"schema":"ocr-proxy/dead-letter/v1"}`), 0o600))
	t.Cleanup(func() { _ = os.Remove(outside) })
	for _, id := range []string{
		"0192d3c0-7a1b-7c3d-8e4f-5a6b7c8d9e0f", "x", "../../outside", url.PathEscape("../../outside"), "..%2f..%2foutside", "%2e%2e", ids[0] + ".json", ids[0] + "%00",
		strings.ToUpper(ids[0]),
	} {
		require.Equal(t, http.StatusNotFound, ask(t, o, http.MethodGet, "/api/v1/dead-letters/"+id, "").Code, id)
	}
}

func TestAnUnreadableLetterDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	o, ids := withLetters(t, 2)
	core, logs := observer.New(zapcore.WarnLevel)
	o.Log = zap.New(core)
	require.NoError(t, os.WriteFile(filepath.Join(o.LettersDir, "open", ids[1]+".json"), []byte("{"), 0o600))
	names, _ := documents(t, o, "")
	require.Equal(t, []string{"doc-0"}, names)
	require.Equal(t, 1, logs.Len())
	require.Equal(t, http.StatusInternalServerError, ask(t, o, http.MethodGet, "/api/v1/dead-letters/"+ids[1], "").Code)
}

func TestAStoreThatIsGone(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.LettersDir = filepath.Join(o.LettersDir, "missing")
	w := ask(t, o, http.MethodGet, "/api/v1/dead-letters", "")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.NotContains(t, w.Body.String(), o.LettersDir, "the answer tells nothing of the machine")
}
