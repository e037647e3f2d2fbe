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
	for i := range n {
		e := &dlq.Envelope{
			Provider: string(rune('a' + i%2)), Kind: "generic", Outcome: "permanent", ErrorClass: "permanent", ErrorCode: fmt.Sprintf("code-%d", i),
			FailureClass: "fatal", Operation: fmt.Sprintf("op-%d", i/2), DocumentID: fmt.Sprintf("doc-%d", i), Tenant: "t", FailedAt: time.Date(2026, 1, 1, i, 0, 0, 0, time.UTC),
		}
		id, err := o.Letters.Put(t.Context(), e, strings.NewReader("the secret document"))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return o, ids
}

// documents are the names in a listing, and the cursor of the next one.
func documents(t *testing.T, o Options, query string) (names []string, next string) {
	t.Helper()
	w := ask(t, o, http.MethodGet, "/api/v1/dead-letters"+query, "")
	require.NotContains(t, w.Body.String(), "the secret document", "payloads are never served")
	page := decode(t, w)
	for _, letter := range page["dead_letters"].([]any) {
		names = append(names, letter.(map[string]any)["document_id"].(string))
		require.Equal(t, "open", letter.(map[string]any)["status"])
	}
	return names, page["next"].(string)
}

func TestListOfDeadLetters(t *testing.T) {
	t.Parallel()
	o, _ := withLetters(t, 5)
	for query, want := range map[string][]string{
		"":                       {"doc-4", "doc-3", "doc-2", "doc-1", "doc-0"},
		"?limit=5":               {"doc-4", "doc-3", "doc-2", "doc-1", "doc-0"},
		"?provider=b":            {"doc-3", "doc-1"},
		"?code=code-2":           {"doc-2"},
		"?operation=op-1":        {"doc-3", "doc-2"},
		"?document=doc-0":        {"doc-0"},
		"?class=throttle":        nil,
		"?provider=&status=open": {"doc-4", "doc-3", "doc-2", "doc-1", "doc-0"},
		"?tenant=t&outcome=permanent&since=2026-01-01T03:00:00Z": {"doc-4", "doc-3"},
		"?since=2026-01-01T01:00:00Z&until=2026-01-01T03:00:00Z": {"doc-2", "doc-1"},
	} {
		names, next := documents(t, o, query)
		require.Equal(t, want, names, query)
		require.Empty(t, next, query)
	}
	require.Equal(t, []any{}, decode(t, ask(t, o, http.MethodGet, "/api/v1/dead-letters?status=resolved", ""))["dead_letters"], "a list, not null")
	for _, query := range []string{"?limit=0", "?limit=-1", "?limit=1001", "?limit=x", "?since=yesterday", "?status=lost", "?clas=auth", "?until=1"} {
		require.Equal(t, http.StatusBadRequest, ask(t, o, http.MethodGet, "/api/v1/dead-letters"+query, "").Code, query)
	}
}

func TestPagesGiveEveryLetterOnce(t *testing.T) {
	t.Parallel()
	o, _ := withLetters(t, 5)
	for limit, filter := range map[int]string{1: "", 2: "", 3: "", 4: "&provider=a"} {
		want, _ := documents(t, o, "?"+filter)
		var all []string
		for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
			var names []string
			names, cursor = documents(t, o, fmt.Sprintf("?limit=%d&cursor=%s%s", limit, cursor, filter))
			require.NotEmpty(t, names)
			all = append(all, names...)
			require.Less(t, pages, 5)
		}
		require.Equal(t, want, all)
	}

	_, cursor := documents(t, o, "?limit=2")
	_, err := o.Letters.Put(t.Context(), &dlq.Envelope{Provider: "a", Outcome: "permanent", DocumentID: "newer"}, nil)
	require.NoError(t, err)
	names, _ := documents(t, o, "?cursor="+cursor)
	require.Equal(t, []string{"doc-2", "doc-1", "doc-0"}, names, "what is written meanwhile moves nothing")
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

	require.Equal(t, letter, decode(t, ask(t, o, http.MethodGet, "/api/v1/dead-letters/"+ids[0][:8], "")), "the beginning of an id will do")
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
	for _, path := range []string{"", "/0192d3c0-7a1b-7c3d-8e4f-5a6b7c8d9e0f"} {
		w := ask(t, o, http.MethodGet, "/api/v1/dead-letters"+path, "")
		require.Equal(t, http.StatusInternalServerError, w.Code)
		require.NotContains(t, w.Body.String(), o.LettersDir, "the answer tells nothing of the machine")
	}
}

func TestThePageOfLettersRefusesACursorThatIsNone(t *testing.T) {
	t.Parallel()
	o, _ := withLetters(t, 1)
	require.Equal(t, http.StatusBadRequest, ask(t, o, http.MethodGet, "/letters?cursor=%3Cscript%3E", "").Code)
	require.Equal(t, http.StatusOK, ask(t, o, http.MethodGet, "/letters", "").Code)
}
