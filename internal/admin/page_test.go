package admin

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	markup "golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// look asks for a page and gives its source.
func look(t *testing.T, o Options, target string, want int) string {
	t.Helper()
	w := ask(t, o, http.MethodGet, target, "")
	text := w.Body.String()
	require.Equal(t, want, w.Code, "%s: %s", target, text)
	isGuarded(t, w)
	return text
}

// isGuarded checks what every page must say to the browser.
func isGuarded(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	h := w.Header()
	require.Equal(t, "text/html; charset=utf-8", h.Get("Content-Type"))
	require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", h.Get("Cache-Control"))
	require.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
	policy := map[string]string{}
	for part := range strings.SplitSeq(h.Get("Content-Security-Policy"), ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), " ")
		policy[name] = value
	}
	for _, name := range []string{"default-src", "base-uri", "frame-ancestors"} {
		require.Equal(t, "'none'", policy[name], name)
	}
	for _, name := range []string{"script-src", "style-src", "connect-src", "img-src", "form-action"} {
		require.Equal(t, "'self'", policy[name], name)
	}
	root, err := markup.Parse(w.Body)
	require.NoError(t, err)
	for node := range root.Descendants() {
		if node.DataAtom == atom.Script {
			require.Equal(t, []markup.Attribute{{Key: "src", Val: "/assets/page.js"}, {Key: "defer"}}, node.Attr)
			require.Nil(t, node.FirstChild)
		}
		require.NotContains(t, []atom.Atom{atom.Style, atom.Iframe, atom.Object, atom.Embed, atom.Base}, node.DataAtom)
		for _, a := range node.Attr {
			require.False(t, a.Key == "style" || strings.HasPrefix(a.Key, "on"), "%s of %s", a.Key, node.Data)
			if slices.Contains([]string{"src", "href", "action"}, a.Key) {
				require.Regexp(t, "^/([^/]|$)", a.Val, "nothing leads away")
			}
		}
	}
}

func TestTheFirstPage(t *testing.T) {
	t.Parallel()
	o, _ := withLetters(t, 3)
	text := look(t, o, "/", http.StatusOK)
	for _, want := range []string{"acct", "circuit open for 2s (failures)", "op paused for 3s", "2 in progress", "https://up.example", `href="/letters?provider=acct"`} {
		require.Contains(t, text, want)
	}
	require.Contains(t, text, `href="/letters?class=permanent&amp;code=code-1&amp;outcome=permanent&amp;provider=b"`, "a group leads to its letters")

	text = look(t, options(t), "/", http.StatusOK)
	require.Contains(t, text, "No dead letter is open.")
}

func TestTheFirstPageNamesTheBiggestGroups(t *testing.T) {
	t.Parallel()
	o, _ := withLetters(t, pageGroups+3)
	require.Equal(t, pageGroups, strings.Count(look(t, o, "/", http.StatusOK), `data-h="Letters"`))
}

func TestTheListOfLetters(t *testing.T) {
	t.Parallel()
	o, ids := withLetters(t, 4)
	decode(t, post(t, o, ids[0]+"/resolve", `{"note":"typed in","label":"handwriting","by":"ann"}`))
	for query, want := range map[string][]int{
		"":            {3, 2, 1},
		"?provider=b": {3, 1},
		"?provider=&code=&class=&outcome=&tenant=&document=&operation=&since=&until=&status=open": {3, 2, 1}, // the form as it is sent
		"?code=code-2":          {2},
		"?operation=op-1":       {3, 2},
		"?status=resolved":      {0},
		"?document=doc-1":       {1},
		"?tenant=somebody-else": nil,
		"?since=2026-01-01T02:00:00Z&until=2026-01-01T03:00:00Z": {2},
		"?provider=gone": nil,
	} {
		text := look(t, o, "/letters"+query, http.StatusOK)
		var got []int
		for i, id := range slices.Backward(ids) {
			if strings.Contains(text, `<code>doc-`+strconv.Itoa(i)+`</code>`) {
				require.Contains(t, text, `href="/letters/`+id+`"`)
				got = append(got, i)
			}
		}
		require.Equal(t, want, got, query)
		wanted, err := url.ParseQuery(strings.TrimPrefix(query, "?"))
		require.NoError(t, err)
		for name, values := range wanted {
			if values[0] == "" {
				continue
			}
			require.Regexp(t, `<option selected>`+regexp.QuoteMeta(values[0])+`<|name="`+name+`" value="`+regexp.QuoteMeta(values[0])+`"`, text, "%s is still set", name)
		}
		seldom := slices.ContainsFunc([]string{"operation", "tenant", "document", "since", "until"}, func(name string) bool { return wanted.Get(name) != "" })
		require.Equal(t, seldom, strings.Contains(text, "<details open>"), "a filter that is set shows: %s", query)
		open := wanted.Get("status") != "resolved" && want != nil
		require.Equal(t, open, strings.Contains(text, `data-act="discard"`), "only open letters are dealt with: %s", query)
		if open {
			wanted.Del("cursor")
			require.Contains(t, text, `data-act="replay" data-query="`+html.EscapeString(wanted.Encode())+`"`, "all that are selected, and only those")
		}
	}
	require.Contains(t, look(t, o, "/letters?status=resolved", http.StatusOK), "ann: typed in (handwriting)")
}

func TestTheListHasPages(t *testing.T) {
	t.Parallel()
	o, ids := withLetters(t, 2*pageLetters+3) // half of provider a, the first among them
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	first := look(t, o, "/letters?provider=a", http.StatusOK)
	found := next.FindStringSubmatch(first)
	require.NotNil(t, found)
	target := html.UnescapeString(found[1])
	require.Contains(t, target, "provider=a")
	second := look(t, o, target, http.StatusOK)
	require.Nil(t, next.FindStringSubmatch(second))
	require.Contains(t, second, ids[0], "the oldest is on the last page")
	require.Equal(t, []int{pageLetters, 2}, []int{strings.Count(first, `data-h="Document"`), strings.Count(second, `data-h="Document"`)})
	for _, text := range []string{first, second} {
		require.Contains(t, text, `data-act="discard" data-query="provider=a"`, "all, wherever in the list one is")
	}
}

func TestFiltersThatMakeNoSense(t *testing.T) {
	t.Parallel()
	o, _ := withLetters(t, 1)
	for query, want := range map[string]string{
		"?since=yesterday": "since must be a time such as 2026-01-31T12:00:00Z",
		"?status=lost":     "status must be open, claimed, resolved or discarded",
		"?clas=auth":       `there is no parameter "clas"`,
		"?%3Cb%3E=1":       `there is no parameter "<b>"`,
	} {
		text := look(t, o, "/letters"+query, http.StatusBadRequest)
		require.Contains(t, text, html.EscapeString(want), query)
		require.NotContains(t, text, "data-act")
	}
	require.Contains(t, look(t, o, "/letters?since=yesterday", http.StatusBadRequest), `value="yesterday"`, "it can be put right")
}

func TestOneLetter(t *testing.T) {
	t.Parallel()
	o, ids := withLetters(t, 2)
	text := look(t, o, "/letters/"+ids[0], http.StatusOK)
	require.Contains(t, text, "doc-0")
	require.Contains(t, text, `data-act="resolve" data-letter="`+ids[0]+`"`)
	require.NotContains(t, text, "the secret document")
	require.Contains(t, look(t, o, "/letters/"+ids[1][:len(ids[1])-1], http.StatusOK), ids[1], "the beginning of an id will do")

	decode(t, post(t, o, ids[0]+"/resolve", `{"by":"ann"}`))
	text = look(t, o, "/letters/"+ids[0], http.StatusOK)
	require.Contains(t, text, "resolved by ann")
	require.NotContains(t, text, "data-act", "nothing is left to be done")

	for _, id := range []string{"0192d3c0-7a1b-7c3d-8e4f-5a6b7c8d9e0f", "x", "..%2f..%2fetc", "%3Cscript%3E", strings.Repeat("a", 3000)} {
		text := look(t, o, "/letters/"+id, http.StatusNotFound)
		require.Contains(t, text, "There is no such dead letter")
	}
}

func TestAStoreThatIsGoneHasAPage(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.LettersDir = filepath.Join(o.LettersDir, "missing")
	for _, path := range []string{"/", "/letters", "/letters/0192d3c0-7a1b-7c3d-8e4f-5a6b7c8d9e0f"} {
		text := look(t, o, path, http.StatusInternalServerError)
		require.Contains(t, text, "The dead letters cannot be read")
		require.NotContains(t, text, o.LettersDir, "the page tells nothing of the machine")
	}
	o, ids := withLetters(t, 2)
	require.NoError(t, os.WriteFile(filepath.Join(o.LettersDir, "open", ids[1]+".json"), []byte("{"), 0o600))
	look(t, o, "/letters/"+ids[1], http.StatusInternalServerError)
	for _, path := range []string{"/", "/letters"} {
		require.Contains(t, look(t, o, path, http.StatusOK), "code-0", "one that cannot be read does not hide the others")
	}
}

func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	const evil = `</code></pre></title><script>alert(1)</script><img src=x onerror=alert(1)>" onfocus="alert(1)' {{.}} ` + "\u202eright to left"
	o := options(t)
	status := 400
	id, err := o.Letters.Put(t.Context(), &dlq.Envelope{
		Provider: "acct", Outcome: "permanent", ErrorClass: "permanent", ErrorCode: evil, ErrorMessage: evil, DocumentID: evil, Tenant: evil, Operation: evil, Diagnostic: evil, StackTrace: evil, TraceID: evil,
		HTTPStatus: &status, Job: &dlq.Job{ID: evil}, Request: dlq.Request{Method: "POST", Path: evil, Query: evil, Credentials: []string{evil}, ContentType: evil},
		Attempts: []dlq.Attempt{{N: 1, StartedAt: time.Now(), ErrorClass: "permanent", ErrorCode: evil, UpstreamRequestID: evil}},
	}, nil)
	require.NoError(t, err)
	for _, path := range []string{"/", "/letters", "/letters/" + id, "/letters?" + url.Values{"code": {evil}, "tenant": {evil}, "document": {evil}}.Encode(), "/letters?since=" + url.QueryEscape(evil)} {
		w := ask(t, o, http.MethodGet, path, "")
		text := w.Body.String()
		isGuarded(t, w)
		require.Contains(t, html.UnescapeString(text), evil, path)
		require.NotContains(t, text, "<script>", path)
		require.NotContains(t, text, "<img src=x", path)
	}
	decode(t, post(t, o, id+"/discard", `{"note":"<script>alert(1)</script>","by":"<b>","label":"<i>"}`))
	for _, path := range []string{"/letters?status=discarded", "/letters/" + id} {
		text := look(t, o, path, http.StatusOK)
		require.Contains(t, text, "&lt;script&gt;alert(1)&lt;/script&gt;")
		require.NotContains(t, text, "<b>")
		require.NotContains(t, text, "<i>")
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	o := options(t)
	for name, kind := range map[string]string{"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		w := ask(t, o, http.MethodGet, "/assets/"+name, "")
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, kind+"; charset=utf-8", w.Header().Get("Content-Type"))
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.NotEmpty(t, w.Body.String())
		require.Contains(t, look(t, o, "/", http.StatusOK), `"/assets/`+name+`"`)
		require.NotRegexp(t, `https?://(?:[^w]|w[^w])`, strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", ""), "everything is in the binary")
	}
	for _, name := range []string{"layout.html", "", "..%2fpage.go"} {
		require.Equal(t, http.StatusNotFound, ask(t, o, http.MethodGet, "/assets/"+name, "").Code, name)
	}
}

func TestPagesAreGuardedAsTheAPIIs(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("correct horse"), 0o600))
	for _, path := range []string{"/", "/letters", "/letters/x", "/assets/page.js"} {
		o := options(t)
		require.Equal(t, http.StatusMisdirectedRequest, ask(t, o, http.MethodGet, path, "Host: evil.example").Code, path)
		require.Equal(t, http.StatusForbidden, ask(t, o, http.MethodGet, path, "Sec-Fetch-Site: cross-site").Code, path)
		o.Listen = everywhere
		require.Equal(t, http.StatusForbidden, ask(t, o, http.MethodGet, path, "").Code, path)
		o.TokenFile = token
		w := ask(t, o, http.MethodGet, path, "")
		require.Equal(t, http.StatusUnauthorized, w.Code, path)
		require.Contains(t, strings.Join(w.Header().Values("WWW-Authenticate"), " "), "Basic", "a browser then asks for it")
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.SetBasicAuth("anybody", "correct horse")
		require.NotEqual(t, http.StatusUnauthorized, ask(t, o, http.MethodGet, path, "Authorization: "+r.Header.Get("Authorization")).Code, path)
	}
}
