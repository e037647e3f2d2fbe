package provider

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/require"
)

// azureRead is a result in that unit with those pages, whose content is one line each.
func azureRead(unit string, more string, lines map[int]string, numbers ...int) []byte {
	measure := azureUnits()[unit]
	var pages, paragraphs []string
	content := ""
	for _, n := range numbers {
		if content != "" {
			content += "\n"
		}
		span := fmt.Sprintf(`{"offset":%d,"length":%d}`, measure(content), measure(lines[n]))
		content += lines[n]
		pages = append(pages, fmt.Sprintf(`{"pageNumber":%d,"words":[{"content":%q,"span":%s}],"spans":[%s]}`, n, lines[n], span, span))
		paragraphs = append(paragraphs, fmt.Sprintf(`{"content":%q,"spans":[%s],"boundingRegions":[{"pageNumber":%d}]}`, lines[n], span, n))
	}
	text, _ := json.Marshal(content)
	return fmt.Appendf(nil, `{"status":"succeeded","analyzeResult":{"apiVersion":"2024-11-30","modelId":"m","stringIndexType":%q,"content":%s,"pages":[%s],"paragraphs":[%s]%s}}`,
		unit, text, strings.Join(pages, ","), strings.Join(paragraphs, ","), more)
}

func plainAzure(numbers ...int) []byte {
	return azureRead("textElements", "", map[int]string{1: "a", 2: "b", 3: "c", 4: "d", 5: "e", 7: "g"}, numbers...)
}

func TestPagesThatAnAzureResultLacks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, query string
		answer      []byte
		missing     []int
	}{
		{"all there", "api-version=1", plainAzure(1, 2, 3), nil},
		{"a gap", "api-version=1", plainAzure(1, 2, 4), []int{3}},
		{"the free tier, of a document of unknown length", "", plainAzure(1, 2), nil},
		{"the free tier, asked for three", "pages=1-3", plainAzure(1, 2), []int{3}},
		{"a list", "pages=1-2%2C4&api-version=1", plainAzure(1), []int{2, 4}},
		{"up to", "pages=-3", plainAzure(1, 2), []int{3}},
		{"from, with a gap", "pages=3-", plainAzure(3, 4, 7), []int{5, 6}},
		{"from, in full", "pages=3-", plainAzure(3, 4), nil},
		{"from and a page", "pages=1,%204-", plainAzure(4, 5), []int{1}},
		{"more than came", "", plainAzure(1, 7), nil},
		{"asked twice", "pages=1&pages=2", plainAzure(1), nil},
		{"odd", "pages=x", plainAzure(1, 3), nil},
		{"odd from", "pages=x-", plainAzure(1, 3), nil},
		{"nothing but a dash", "pages=-", plainAzure(1, 3), nil},
		{"page 0", "pages=0-2", plainAzure(1), nil},
		{"far", "pages=1-99999999", plainAzure(1), nil},
		{"figures", "output=figures", plainAzure(1, 2, 4), nil},
		{"no query", "%zz", plainAzure(1, 2, 4), nil},
		{"nothing came", "pages=1", plainAzure(), nil},
		{"still running", "", []byte(`{"status":"running"}`), nil},
		{"failed", "", []byte(strings.Replace(string(plainAzure(1, 3)), "succeeded", "failed", 1)), nil},
		{"in capitals", "", []byte(strings.Replace(string(plainAzure(1, 3)), "succeeded", "Succeeded", 1)), []int{2}},
		{"version 2", "", []byte(`{"status":"succeeded","analyzeResult":{"version":"2.1.0","readResults":[{"page":1},{"page":3}]}}`), nil},
		{"what could not be merged", "", azureRead("textElements", `,"news":[1]`, nil, 1, 3), nil},
		{"an unknown unit", "", []byte(strings.Replace(string(plainAzure(1, 3)), "textElements", "bytes", 1)), nil},
		{"no JSON", "", []byte(`x`), nil},
	} {
		missing := azureMissing(Asked{Query: c.query}, c.answer)
		if len(c.missing) == 0 {
			require.Empty(t, missing, c.name)
			continue
		}
		require.Equal(t, c.missing, missing, c.name)
	}
}

func TestAnAzureStartNamesThosePagesAlone(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"":                             "pages=3-5,7",
		"api-version=1&locale=de":      "api-version=1&locale=de&pages=3-5,7",
		"pages=1-9&a=%2F&p%61ges=1&b=": "a=%2F&b=&pages=3-5,7",
	} {
		got, err := azurePages().Select(Asked{Query: query}, []int{3, 4, 5, 7})
		require.NoError(t, err)
		require.Equal(t, want, got.Query)
	}
	poll, err := url.Parse("https://h/base/documentintelligence/documentModels/a%2Fb/analyzeResults/r-1?api-version=1")
	require.NoError(t, err)
	require.Equal(t, "https://h/base/documentintelligence/documentModels/a%2Fb/analyzeResults/r%202?api-version=1", azurePages().Result(poll, "r 2").String())
}

// azureWords gives each span's text as a reader of that unit sees it, page by page, and each paragraph's.
func azureWords(t *testing.T, answer []byte) (pages map[int]string, paragraphs []string) {
	t.Helper()
	type spans []struct{ Offset, Length int }
	var a struct {
		AnalyzeResult struct {
			StringIndexType, Content string
			Pages                    []struct {
				PageNumber int
				Spans      spans
			}
			Paragraphs []struct {
				Content string
				Spans   spans
			}
		}
	}
	require.NoError(t, json.Unmarshal(answer, &a))
	r := a.AnalyzeResult
	read := func(all spans) string {
		s := all[0]
		switch r.StringIndexType {
		case "utf16CodeUnit":
			return string(utf16.Decode(utf16.Encode([]rune(r.Content))[s.Offset : s.Offset+s.Length]))
		case "unicodeCodePoint":
			return string([]rune(r.Content)[s.Offset : s.Offset+s.Length])
		}
		var clusters []string
		for g := uniseg.NewGraphemes(r.Content); g.Next(); {
			clusters = append(clusters, g.Str())
		}
		return strings.Join(clusters[s.Offset:s.Offset+s.Length], "")
	}
	pages = map[int]string{}
	last := 0
	for _, p := range r.Pages {
		require.Greater(t, p.PageNumber, last)
		last = p.PageNumber
		pages[p.PageNumber] = read(p.Spans)
	}
	for _, p := range r.Paragraphs {
		require.Equal(t, p.Content, read(p.Spans))
		paragraphs = append(paragraphs, p.Content)
	}
	return pages, paragraphs
}

func TestLaterAzurePagesKeepWhatTheirSpansPointAt(t *testing.T) {
	t.Parallel()
	lines := map[int]string{1: "Gro\u0308ße 😀", 2: "zwei 👩\u200d🚀", 3: "drei é"}
	for unit := range azureUnits() {
		first, second := azureRead(unit, "", lines, 1, 3), azureRead(unit, "", lines, 2)
		merged, got, err := azureMerge(first, second, []int{2})
		require.NoError(t, err, unit)
		require.Equal(t, []int{2}, got)
		pages, paragraphs := azureWords(t, merged)
		require.Equal(t, lines, pages, unit)
		require.Equal(t, []string{lines[1], lines[3], lines[2]}, paragraphs, unit)
	}
}

func TestPointersFollowTheirElements(t *testing.T) {
	t.Parallel()
	const pair = `{"key":{"content":"k","spans":[{"offset":0,"length":1}]}}`
	first := azureRead("textElements", `,"tables":[{"cells":[{"elements":["/paragraphs/0"]}]}],"sections":[{"elements":["/paragraphs/1","/tables/0"]}]`, nil, 1, 3)
	second := azureRead("textElements", `,"tables":[{"cells":[{"elements":["/paragraphs/0"]}],"caption":{"elements":[]}}],"sections":[{"elements":["/tables/0","/sections/0"]}],"keyValuePairs":[]`, map[int]string{2: "k"}, 2)
	merged, _, err := azureMerge(first, second, []int{2})
	require.NoError(t, err)
	require.Contains(t, string(merged), `"tables":[{"cells":[{"elements":["/paragraphs/0"]}]},{"cells":[{"elements":["/paragraphs/2"]}],"caption":{"elements":[]}}]`)
	require.Contains(t, string(merged), `"sections":[{"elements":["/paragraphs/1","/tables/0"]},{"elements":["/tables/1","/sections/1"]}]`)
	merged, _, err = azureMerge(plainAzure(1, 3), azureRead("textElements", `,"keyValuePairs":[`+pair+`]`, map[int]string{2: "k"}, 2), []int{2})
	require.NoError(t, err)
	require.Contains(t, string(merged), `"keyValuePairs":[{"key":{"content":"k","spans":[{"offset":4,"length":1}]}}]`)

	merged, got, err := azureMerge(plainAzure(1, 3), plainAzure(), []int{2})
	require.NoError(t, err)
	require.Empty(t, got)
	require.Equal(t, string(plainAzure(1, 3)), string(merged))
}

func TestAzureResultsThatCannotBeOneAreLeft(t *testing.T) {
	t.Parallel()
	later := func(more string) []byte { return azureRead("textElements", more, map[int]string{2: "b"}, 2) }
	changed := func(old, now string) []byte { return []byte(strings.Replace(string(later("")), old, now, 1)) }
	for name, second := range map[string][]byte{
		"another page":           plainAzure(4),
		"a page that came":       plainAzure(2, 3),
		"no number":              changed(`"pageNumber":2,"words"`, `"words"`),
		"no JSON":                []byte("x"),
		"still running":          []byte(`{"status":"running"}`),
		"another unit":           azureRead("utf16CodeUnit", "", nil, 2),
		"another model":          changed(`"modelId":"m"`, `"modelId":"n"`),
		"another version":        changed("2024-11-30", "2023-07-31"),
		"another format":         later(`,"contentFormat":"markdown"`),
		"a pointer to a page":    later(`,"sections":[{"elements":["/pages/0"]}]`),
		"a pointer into another": later(`,"sections":[{"elements":["/tables/0/cells/1"]}]`),
		"no pointers":            later(`,"sections":[{"elements":[1]}]`),
		"a span without length":  later(`,"styles":[{"spans":[{"offset":0}]}]`),
		"a span beyond":          later(`,"styles":[{"spans":[{"offset":1,"length":1}]}]`),
		"a negative span":        later(`,"styles":[{"spans":[{"offset":-1,"length":1}]}]`),
		"what nobody knows":      later(`,"news":{"a":1}`),
		"combined characters, counted otherwise": []byte(strings.ReplaceAll(string(azureRead("textElements", "", map[int]string{2: "🇩🇪🇫🇷"}, 2)),
			`"length":2`, `"length":1`)),
	} {
		_, _, err := azureMerge(plainAzure(1, 3), second, []int{2})
		require.Error(t, err, name)
	}
	_, got, err := azureMerge(plainAzure(1, 3), later(`,"news":[],"documents":null`), []int{2})
	require.NoError(t, err)
	require.Equal(t, []int{2}, got)
}

func FuzzAzurePages(f *testing.F) {
	lines := map[int]string{1: "Gro\u0308ße 😀", 2: "zwei 👩\u200d🚀", 3: "drei é"}
	for unit := range azureUnits() {
		f.Add("pages=1-3", azureRead(unit, "", lines, 1, 3), azureRead(unit, `,"sections":[{"elements":["/paragraphs/0"]}]`, lines, 2))
	}
	f.Add("pages=2,5-", plainAzure(2, 5, 7), plainAzure(6))
	f.Add("", azureRead("textElements", `,"tables":[{"elements":[]}]`, nil, 1, 3), []byte(`{"status":"succeeded","analyzeResult":{"stringIndexType":"textElements","content":"","pages":[{"pageNumber":2}]}}`))
	f.Fuzz(func(t *testing.T, query string, answer, later []byte) {
		missing := azureMissing(Asked{Query: query}, answer)
		require.LessOrEqual(t, len(missing), maxPages)
		if len(missing) == 0 {
			return
		}
		selected, err := azurePages().Select(Asked{Query: query}, missing)
		require.NoError(t, err)
		values, err := url.ParseQuery(selected.Query)
		require.NoError(t, err)
		require.Equal(t, []string{ranges(missing)}, values["pages"])
		merged, got, err := azureMerge(answer, later, missing)
		if err != nil || len(got) == 0 {
			return
		}
		require.True(t, json.Valid(merged))
		require.Subset(t, missing, got)
		whole, err := readAzure(merged)
		require.NoError(t, err)
		whole.exact = false // confirmed for each part of it
		require.NoError(t, (&azureMove{result: whole}).run(), "all spans lie in the content")
	})
}
