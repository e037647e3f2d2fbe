package provider

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPagesThatAMistralAnswerLacks(t *testing.T) {
	t.Parallel()
	const three = `{"pages":[{"index":0},{"index":1},{"index":2}],"usage_info":{"pages_processed":3}}`
	for _, c := range []struct {
		name, request, answer string
		missing               []int
	}{
		{"nothing asked, nothing missing", `{}`, three, nil},
		{"a gap", `{"pages":null}`, `{"pages":[{"index":0},{"index":3}]}`, []int{1, 2}},
		{"processed and not given", `{}`, `{"pages":[{"index":0}],"usage_info":{"pages_processed":2}}`, []int{1}},
		{"as many as came", `{}`, `{"pages":[{"index":0},{"index":1}],"usage_info":{"pages_processed":4}}`, []int{2, 3}},
		{"more than came", `{}`, `{"pages":[{"index":0},{"index":1}],"usage_info":{"pages_processed":5}}`, nil},
		{"a count of something else", `{}`, `{"pages":[{"index":0},{"index":1}],"usage_info":{"pages_processed":9999}}`, nil},
		{"a far gap", `{}`, `{"pages":[{"index":0},{"index":9998}]}`, nil},
		{"a list", `{"pages":[0,2,4]}`, `{"pages":[{"index":0},{"index":4}]}`, []int{2}},
		{"a list in full", `{"pages":[4,0]}`, `{"pages":[{"index":0},{"index":4}],"usage_info":{"pages_processed":9}}`, nil},
		{"ranges", `{"pages":"0-2, 5"}`, `{"pages":[{"index":1},{"index":2}]}`, []int{0, 5}},
		{"marked as failed", `{}`, `{"pages":[{"index":0},{"index":1,"error":{"message":"x"}},{"index":2,"error":null}]}`, []int{1}},
		{"nothing came", `{"pages":[1]}`, `{"pages":[]}`, nil},
		{"everything failed", `{"pages":[1]}`, `{"pages":[{"index":1,"error":"x"}]}`, nil},
		{"odd ranges", `{"pages":"1-"}`, `{"pages":[{"index":0}]}`, nil},
		{"backwards", `{"pages":"5-1"}`, `{"pages":[{"index":0}]}`, nil},
		{"negative", `{"pages":[-1,0]}`, `{"pages":[{"index":0}]}`, nil},
		{"far", `{"pages":"0-99999999"}`, `{"pages":[{"index":0}]}`, nil},
		{"far away page", `{}`, `{"pages":[{"index":99999999}]}`, nil},
		{"a number", `{"pages":3}`, `{"pages":[{"index":0}]}`, nil},
		{"without numbers", `{}`, `{"pages":[{"markdown":"x"}]}`, nil},
		{"one number twice", `{}`, `{"pages":[{"index":2},{"index":2}]}`, nil},
		{"no pages", `{}`, `{}`, nil},
		{"no JSON", `x`, `y`, nil},
	} {
		missing := mistralMissing([]byte(c.request), []byte(c.answer))
		if len(c.missing) == 0 {
			require.Empty(t, missing, c.name)
			continue
		}
		require.Equal(t, c.missing, missing, c.name)
	}
}

func TestOnlyThosePagesAreAskedFor(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		`{"model":"m", "pages": "0-9" ,"document":{"pages":1}}`: `{"model":"m", "pages": [3,7] ,"document":{"pages":1}}`,
		` {"model":"m"}`:       ` {"pages":[3,7],"model":"m"}`,
		`{ }`:                  `{"pages":[3,7] }`,
		`{"pages":null,"a":1}`: `{"pages":[3,7],"a":1}`,
		`{"pages":[0,[1]]}`:    `{"pages":[3,7]}`,
	} {
		got, err := mistralPages().Select(Asked{Body: []byte(request)}, []int{3, 7})
		require.NoError(t, err)
		require.Equal(t, want, string(got.Body))
	}
	for _, request := range []string{``, `[]`, `{"pages":1,"pages":2}`, `{"pages":`, `{"a":1`} {
		_, err := mistralPages().Select(Asked{Body: []byte(request)}, []int{1})
		require.Error(t, err, request)
	}
}

func TestLaterPagesStandInTheirPlaces(t *testing.T) {
	t.Parallel()
	const answer = `{"model":"m","pages":[ {"index":0,"t":"a"},  {"index":2,"error":"x"}, {"index":4,"error":"y"}, {"index":9} ],"usage_info":{"pages_processed":4}}`
	merged, got, err := mistralMerge([]byte(answer), []byte(`{"pages":[{"index":3,"t":"d"},{"index":2,"t":"c"},{"index":4,"error":"z"}]}`), []int{2, 3, 4})
	require.NoError(t, err)
	require.Equal(t, []int{2, 3}, got)
	require.Equal(t, `{"model":"m","pages":[ {"index":0,"t":"a"},{"index":2,"t":"c"},{"index":3,"t":"d"},{"index":4,"error":"y"},{"index":9} ],"usage_info":{"pages_processed":4}}`, string(merged))
	for name, later := range map[string]string{
		"another page":  `{"pages":[{"index":0}]}`,
		"a page beside": `{"pages":[{"index":2},{"index":5}]}`,
		"no numbers":    `{"pages":[{}]}`,
		"no pages":      `{}`,
		"no JSON":       `x`,
	} {
		_, _, err := mistralMerge([]byte(answer), []byte(later), []int{2, 3, 4})
		require.Error(t, err, name)
	}
	merged, got, err = mistralMerge([]byte(answer), []byte(`{"pages":[]}`), []int{2})
	require.NoError(t, err)
	require.Empty(t, got)
	require.Equal(t, answer, string(merged))
}

func FuzzMistralPages(f *testing.F) {
	f.Add([]byte(`{"pages":"0-3"}`), []byte(`{"pages":[{"index":0},{"index":2,"error":"x"}]}`), []byte(`{"pages":[{"index":1},{"index":2}]}`))
	f.Add([]byte(`{}`), []byte(`{"pages":[{"index":5}],"usage_info":{"pages_processed":1e9}}`), []byte(`{"pages":[{"index":0}],"pages":[]}`))
	f.Add([]byte(`{"pages":"1-3"}`), []byte(`{"pages":[{"index":0},{"index":1,"error":"0"}`), []byte(`{"pages":[`)) // cut off
	f.Fuzz(func(t *testing.T, request, answer, later []byte) {
		missing := mistralMissing(request, answer)
		require.LessOrEqual(t, len(missing), maxPages)
		if len(missing) == 0 {
			return
		}
		selected, err := mistralPages().Select(Asked{Body: request}, missing)
		if err == nil {
			require.True(t, json.Valid(selected.Body))
		}
		merged, got, err := mistralMerge(answer, later, missing)
		if err != nil {
			return
		}
		require.True(t, json.Valid(merged))
		require.LessOrEqual(t, len(got), len(missing))
		require.Subset(t, missing, got)
	})
}
