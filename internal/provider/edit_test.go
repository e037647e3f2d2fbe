package provider

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithMember(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`:                           `{"k":"v"}`,
		`{ }`:                          `{"k":"v" }`,
		` {"a":1.50}`:                  ` {"k":"v","a":1.50}`,
		"{\n \"a\" : [1]}":             "{\"k\":\"v\",\n \"a\" : [1]}",
		`{"a":{"k":1}}`:                `{"k":"v","a":{"k":1}}`,
		`{"a":1, "k": "old" ,"b":[ ]}`: `{"a":1, "k": "v" ,"b":[ ]}`,
		`{"k":"a","k":"b"}`:            "",
		`{"k":1} {}`:                   "",
		`{"a":`:                        "",
		`[]`:                           "",
		`"{"`:                          "",
		``:                             "",
		"\xef\xbb\xbf{}":               "",
	} {
		got, err := WithMember([]byte(text), "k", []byte(`"v"`))
		require.Equal(t, want, string(got), "%q", text)
		require.Equal(t, want == "", err != nil, "%q", text)
	}
}

func FuzzWithMember(f *testing.F) {
	for _, text := range []string{`{}`, ` { } `, `{"a":1}`, `{"a":{"b":[]}}`, `[]`, `{"k":"x"}`, "{\n\t\"a\":null\r\n}", `{"}":"{"}`, `{"a":1,"k":{"k":2}}`} {
		f.Add(text, "v")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		quoted, err := json.Marshal(value)
		require.NoError(t, err)
		got, err := WithMember([]byte(text), "k", quoted)
		if err != nil {
			return
		}
		var before, after map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(text), &before))
		require.NoError(t, json.Unmarshal(got, &after), "%q", got)
		require.JSONEq(t, string(quoted), string(after["k"]))
		_, stood := before["k"]
		delete(before, "k")
		delete(after, "k")
		require.Equal(t, before, after, "the rest is unchanged")
		if start := strings.IndexByte(text, '{') + 1; !stood {
			require.True(t, strings.HasPrefix(string(got), text[:start]) && strings.HasSuffix(string(got), text[start:]), "byte for byte")
		}
	})
}
