package provider

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPagesThatADocumentAIAnswerLacks(t *testing.T) {
	t.Parallel()
	answer := func(numbers ...int) string {
		var pages []string
		for _, n := range numbers {
			pages = append(pages, fmt.Sprintf(`{"pageNumber":%d}`, n))
		}
		return `{"document":{"pages":[` + strings.Join(pages, ",") + `]}}`
	}
	for _, c := range []struct {
		name, request, answer string
		missing               []int
	}{
		{"all there", `{}`, answer(1, 2, 3), nil},
		{"a gap", `{}`, answer(1, 3), []int{2}},
		{"the first", `{"processOptions":null}`, answer(2, 3), []int{1}},
		{"more than came", `{}`, answer(1, 4, 9), nil},
		{"a list", `{"processOptions":{"individualPageSelector":{"pages":[4,1,9]}}}`, answer(4), []int{1, 9}},
		{"a list in the other spelling", `{"process_options":{"individual_page_selector":{"pages":[1,2]}}}`, answer(2), []int{1}},
		{"a list in full", `{"processOptions":{"individualPageSelector":{"pages":[2,5]}}}`, answer(2, 5), nil},
		{"from the start, of a shorter document", `{"processOptions":{"fromStart":9}}`, answer(1, 2), nil},
		{"from the start, with a gap", `{"processOptions":{"fromStart":9}}`, answer(1, 2, 4), []int{3}},
		{"from the end", `{"processOptions":{"fromEnd":3}}`, answer(8, 10), []int{9}},
		{"from the end, in the other spelling", `{"process_options":{"from_end":3}}`, answer(8, 10), []int{9}},
		{"an odd list", `{"processOptions":{"individualPageSelector":{"pages":["x"]}}}`, answer(1, 3), nil},
		{"page 0", `{"processOptions":{"individualPageSelector":{"pages":[0,1]}}}`, answer(1), nil},
		{"nothing came", `{}`, answer(), nil},
		{"one number twice", `{}`, answer(1, 1, 3), nil},
		{"without numbers", `{}`, `{"document":{"pages":[{},{"pageNumber":3}]}}`, nil},
		{"no document", `{}`, `{}`, nil},
		{"no JSON", `{}`, `x`, nil},
		{"no JSON asked", `x`, answer(1, 3), nil},
		{"what could not be merged", `{}`, `{"document":{"pages":[{"pageNumber":1},{"pageNumber":3}],"revisions":[{"id":"1"}]}}`, nil},
		{"anchors in another unit", `{}`, `{"document":{"text":"ä","pages":[{"pageNumber":1,"layout":{"textAnchor":{"textSegments":[{"endIndex":"2"}]}}},{"pageNumber":3}]}}`, nil},
	} {
		missing := documentaiMissing([]byte(c.request), []byte(c.answer))
		if len(c.missing) == 0 {
			require.Empty(t, missing, c.name)
			continue
		}
		require.Equal(t, c.missing, missing, c.name)
	}
}

func TestDocumentAIOptionsNameThosePagesAlone(t *testing.T) {
	t.Parallel()
	const pages = `"individualPageSelector":{"pages":[3,7]}`
	for request, want := range map[string]string{
		`{"rawDocument":{"content":"QQ=="}}`:                                        `{"processOptions":{` + pages + `},"rawDocument":{"content":"QQ=="}}`,
		`{"processOptions":null}`:                                                   `{"processOptions":{` + pages + `}}`,
		`{"processOptions":{"fromStart":9,"ocrConfig":{"a":1}},"x":1}`:              `{"processOptions":{` + pages + `,"ocrConfig":{"a":1}},"x":1}`,
		`{"process_options":{"from_end":9,"fromEnd":1,"schemaOverride":{}}}`:        `{"process_options":{` + pages + `,"schemaOverride":{}}}`,
		`{"processOptions":{"individual_page_selector":{"pages":[1,2,3,4,5,6,7]}}}`: `{"processOptions":{` + pages + `}}`,
	} {
		got, err := documentaiSelect([]byte(request), []int{3, 7})
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	for _, request := range []string{``, `[]`, `{"processOptions":1}`, `{"processOptions":{},"process_options":{}}`, `{"processOptions":{},"processOptions":{}}`} {
		_, err := documentaiSelect([]byte(request), []int{1})
		require.Error(t, err, request)
	}
}

// documentaiText is what an answer's anchors point at, page by page, and the pages at which its entities are, as a reader sees them.
func documentaiText(t *testing.T, answer []byte) (pages map[int]string, entities []string) {
	t.Helper()
	type anchor struct {
		TextSegments []struct{ StartIndex, EndIndex json.RawMessage }
	}
	var a struct {
		Document struct {
			Text  string
			Pages []struct {
				PageNumber int
				Layout     struct{ TextAnchor anchor }
			}
			Entities []struct {
				ID         string
				TextAnchor anchor
				PageAnchor struct {
					PageRefs []struct{ Page json.RawMessage }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(answer, &a))
	number := func(raw json.RawMessage) int {
		n, _ := strconv.Atoi(strings.Trim(string(raw), `"`))
		return n
	}
	read := func(at anchor) string {
		var text strings.Builder
		for _, s := range at.TextSegments {
			text.WriteString(string([]rune(a.Document.Text)[number(s.StartIndex):number(s.EndIndex)]))
		}
		return text.String()
	}
	pages = map[int]string{}
	last := 0
	for _, p := range a.Document.Pages {
		require.Greater(t, p.PageNumber, last)
		last = p.PageNumber
		pages[p.PageNumber] = read(p.Layout.TextAnchor)
	}
	for _, e := range a.Document.Entities {
		for _, ref := range e.PageAnchor.PageRefs {
			entities = append(entities, fmt.Sprintf("%s %s on %d", e.ID, read(e.TextAnchor), a.Document.Pages[number(ref.Page)].PageNumber))
		}
	}
	return pages, entities
}

const documentaiGapped = `{"document":{"mimeType":"application/pdf","text":"Größe 😀\ndrei\n",
	"pages":[{"pageNumber":1,"image":{"content":"QQ=="},"layout":{"textAnchor":{"textSegments":[{"endIndex":"8"}]}}}, {"pageNumber":3,"layout":{"textAnchor":{"textSegments":[{"startIndex":"8","endIndex":"13"}]}}}],
	"entities":[{"id":"0","textAnchor":{"textSegments":[{"endIndex":"5"}]},"pageAnchor":{"pageRefs":[{}]}},{"id":"1","textAnchor":{"textSegments":[{"startIndex":"8","endIndex":"12"}]},"pageAnchor":{"pageRefs":[{"page":"1"}]}}],
	"shardInfo":{"shardCount":"1"}},"humanReviewStatus":{"state":"SKIPPED"}}`

const documentaiLater = `{"document":{"text":"zwei é\n","pages":[{"pageNumber":2,"layout":{"textAnchor":{"textSegments":[{"endIndex":7}]}}}],
	"entities":[{"id":"0","textAnchor":{"textSegments":[{"startIndex":"0","endIndex":"4"}]},"pageAnchor":{"pageRefs":[{}]}}]}}`

func TestLaterDocumentAIPagesKeepWhatTheirAnchorsPointAt(t *testing.T) {
	t.Parallel()
	merged, got, err := documentaiMerge([]byte(documentaiGapped), []byte(documentaiLater), []int{2})
	require.NoError(t, err)
	require.Equal(t, []int{2}, got)
	pages, entities := documentaiText(t, merged)
	require.Equal(t, map[int]string{1: "Größe 😀\n", 2: "zwei é\n", 3: "drei\n"}, pages)
	require.Equal(t, []string{"0 Größe on 1", "1 drei on 3", "2 zwei on 2"}, entities)
	require.Contains(t, string(merged), `"image":{"content":"QQ=="},"layout":{"textAnchor":{"textSegments":[{"endIndex":"8"}]}}`, "what was read first stays")
	require.True(t, strings.HasSuffix(string(merged), `"shardInfo":{"shardCount":"1"}},"humanReviewStatus":{"state":"SKIPPED"}}`))

	open := strings.Replace(documentaiGapped, `drei\n`, `drei`, 1)
	merged, _, err = documentaiMerge([]byte(strings.Replace(open, `"endIndex":"13"`, `"endIndex":"12"`, 1)), []byte(documentaiLater), []int{2})
	require.NoError(t, err)
	pages, _ = documentaiText(t, merged)
	require.Equal(t, map[int]string{1: "Größe 😀\n", 2: "zwei é\n", 3: "drei"}, pages, "no word runs into the next")

	merged, got, err = documentaiMerge([]byte(documentaiGapped), []byte(`{"document":{"pages":[]}}`), []int{2})
	require.NoError(t, err)
	require.Empty(t, got)
	require.Equal(t, documentaiGapped, string(merged))

	merged, _, err = documentaiMerge([]byte(`{"document":{"pages":[{"pageNumber":2}]}}`), []byte(`{"document":{"pages":[{"pageNumber":1}],"text":"a","textStyles":[{"textAnchor":{"textSegments":[{"endIndex":"1"}]}}]}}`), []int{1})
	require.NoError(t, err)
	require.JSONEq(t, `{"document":{"pages":[{"pageNumber":1},{"pageNumber":2}],"text":"a","textStyles":[{"textAnchor":{"textSegments":[{"endIndex":"1"}]}}]}}`, string(merged))
}

func TestDocumentAIAnswersThatCannotBeOneAreLeft(t *testing.T) {
	t.Parallel()
	later := func(members string) string {
		return `{"document":{"text":"b","pages":[{"pageNumber":2}],` + members + `}}`
	}
	for name, second := range map[string]string{
		"another page":          `{"document":{"pages":[{"pageNumber":4}]}}`,
		"a page that came":      `{"document":{"pages":[{"pageNumber":2},{"pageNumber":3}]}}`,
		"no number":             `{"document":{"pages":[{}]}}`,
		"no document":           `{}`,
		"no JSON":               `x`,
		"cut off":               `{"document":{"pages":[{"pageNumber":2}]`,
		"an anchor too far":     later(`"textStyles":[{"textAnchor":{"textSegments":[{"endIndex":"2"}]}}]`),
		"an anchor backwards":   later(`"textStyles":[{"textAnchor":{"textSegments":[{"startIndex":"1"}]}}]`),
		"an anchor of words":    later(`"textStyles":[{"textAnchor":{"textSegments":[{"endIndex":"x"}]}}]`),
		"a negative anchor":     later(`"textStyles":[{"textAnchor":{"textSegments":[{"startIndex":"-1","endIndex":"1"}]}}]`),
		"a reference too far":   later(`"entities":[{"pageAnchor":{"pageRefs":[{"page":"1"}]}}]`),
		"an entity of it all":   later(`"entities":[{"type":"invoice","confidence":0.9}]`),
		"a taken id of letters": later(`"entities":[{"id":"0","pageAnchor":{}},{"id":"a","pageAnchor":{}}]`),
		"relations":             later(`"entityRelations":[{"subjectId":"0"}]`),
		"revisions":             later(`"revisions":[{}]`),
		"corrections":           later(`"textChanges":[{}]`),
		"layout":                later(`"documentLayout":{"blocks":[{}]}`),
		"a shard":               later(`"shardInfo":{"shardIndex":"1","shardCount":"2"}`),
		"what nobody knows":     later(`"news":true`),
		"one member twice":      later(`"entities":[{"a":1,"a":2}]`),
		"a text that is none":   `{"document":{"text":5,"pages":[{"pageNumber":2}]}}`,
	} {
		_, _, err := documentaiMerge([]byte(documentaiGapped), []byte(second), []int{2})
		require.Error(t, err, name)
	}
	_, _, err := documentaiMerge([]byte(documentaiGapped), []byte(`{"document":{"pages":[{"pageNumber":3}]}}`), []int{2, 3})
	require.Error(t, err, "a page that came, although somebody asks for it")
	for _, empty := range []string{`"revisions":[]`, `"error":null`, `"entityRelations":[ ]`, `"shardInfo":{}`, `"shardInfo":{ "shardCount": 1 }`, `"entities":null`} {
		_, got, err := documentaiMerge([]byte(documentaiGapped), []byte(later(empty)), []int{2})
		require.NoError(t, err, empty)
		require.Equal(t, []int{2}, got)
	}
}

func FuzzDocumentAIPages(f *testing.F) {
	f.Add([]byte(`{}`), []byte(documentaiGapped), []byte(documentaiLater))
	f.Add([]byte(`{"processOptions":{"fromEnd":2}}`), []byte(`{"document":{"pages":[{"pageNumber":1},{"pageNumber":3}],"text":"a\ud83d"}}`), []byte(`{"document":{"text":"\ude00","pages":[{"pageNumber":2}]}}`))
	f.Add([]byte(`{"process_options":{"individual_page_selector":{"pages":[1,2]}}}`), []byte(`{"document":{"pages":[{"pageNumber":2}],"entities":[{}]}}`), []byte(`{"document":{"pages":[{"pageNumber":1}],"text":"x","entities":[{"id":"","pageAnchor":{"pageRefs":[{"page":null}]}}]}}`))
	f.Fuzz(func(t *testing.T, request, answer, later []byte) {
		missing := documentaiMissing(request, answer)
		require.LessOrEqual(t, len(missing), maxPages)
		if len(missing) == 0 {
			return
		}
		if selected, err := documentaiSelect(request, missing); err == nil {
			require.True(t, json.Valid(selected))
			again, ok := documentaiAsked(selected)
			require.True(t, ok)
			require.Equal(t, missing, again.pages)
		}
		merged, got, err := documentaiMerge(answer, later, missing)
		if err != nil || len(got) == 0 {
			return
		}
		require.True(t, json.Valid(merged))
		require.Subset(t, missing, got)
		whole, err := readDocumentai(merged)
		require.NoError(t, err)
		move := documentaiMove{document: whole, order: whole.numbers}
		require.NoError(t, move.run(), "all anchors and references lead somewhere")
		require.Empty(t, move.edits)
	})
}
