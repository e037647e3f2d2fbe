package classify

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestReadBodyTakesWhatComes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, text string }{
		{`{"error":{"code":"X"}}`, "X"},
		{`{"error":{"code":429}}`, "429"},
		{`{"error":{"code":1e400}}`, "1e400"},
		{`{"error":{"code":99999999999999999999}}`, "99999999999999999999"},
		{`{"error":{"code":["X","Y"]}}`, "X"},
		{`{"error":[{"code":"X"},{"code":"Y"}]}`, "X"},
		{`[{"error":{"code":"X"}}]`, "X"},
		{`{"error":{"code":"X"}} trailing <html>`, "X"},
		{" \n{\"error\":{\"code\":\"X\"}}", "X"},
		{`{"error":{"code":"a\u0000b"}}`, "a\x00b"},
		{`{"error":{"code":null}}`, ""},
		{`{"error":{"code":true}}`, ""},
		{`{"error":{"code":{"a":1}}}`, ""},
		{`{"error":{"code":[]}}`, ""},
		{`{"error":[]}`, ""},
		{`{"error":"text"}`, ""},
		{`{"error":null}`, ""},
		{`{"Error":{"code":"X"}}`, ""},
		{`{"error":{"code":"X"`, ""},
		{`"text"`, ""},
		{`7`, ""},
		{`null`, ""},
		{`<html>`, ""},
		{``, ""},
		{strings.Repeat("[", 100_000), ""},
		{strings.Repeat(`{"error":`, 100_000), ""},
	} {
		require.Equal(t, c.text, ReadBody([]byte(c.body)).At("error", "code").Text(), Shorten(c.body, 60))
	}
	require.Equal(t, "text", ReadBody([]byte(`"text"`)).Text())
	require.Equal(t, "\uFFFD", ReadBody([]byte("{\"a\":\"\xff\"}")).At("a").Text())
}

func TestBodyLists(t *testing.T) {
	t.Parallel()
	body := ReadBody([]byte(`{"details":[{"reason":"A"},7,{"reason":"B"}],"none":[]}`))
	var reasons []string
	for _, d := range body.At("details").Each() {
		reasons = append(reasons, d.At("reason").Text())
	}
	require.Equal(t, []string{"A", "", "B"}, reasons)
	require.Empty(t, body.At("none").Each())
	require.Empty(t, body.At("missing").Each())
	require.Empty(t, body.Each())
	require.Empty(t, Body{}.At().Text())
}

func TestBodyTruth(t *testing.T) {
	t.Parallel()
	body := ReadBody([]byte(`{"yes":true,"word":"TRUE","no":false,"one":1,"other":"yes"}`))
	require.True(t, body.At("yes").True())
	require.True(t, body.At("word").True())
	for _, key := range []string{"no", "one", "other", "missing"} {
		require.False(t, body.At(key).True(), key)
	}
}

func TestBodyNumbers(t *testing.T) {
	t.Parallel()
	body := ReadBody([]byte(`{"a":14,"b":"14","c":-3,"d":1.5,"e":"x","f":99999999999999999999,"g":[8]}`))
	for key, want := range map[string]int{"a": 14, "b": 14, "c": -3, "g": 8} {
		n, ok := body.At(key).Int()
		require.True(t, ok, key)
		require.Equal(t, want, n, key)
	}
	for _, key := range []string{"d", "e", "f", "missing"} {
		_, ok := body.At(key).Int()
		require.False(t, ok, key)
	}
}

func TestFirst(t *testing.T) {
	t.Parallel()
	require.Equal(t, "b", First("", " \n", " b ", "c"))
	require.Empty(t, First())
	long := First(strings.Repeat("é", 2_000))
	require.Len(t, long, maxMessage)
	require.Len(t, First("a"+strings.Repeat("é", 2_000)), maxMessage-1, "cut before a character and not inside it")
	require.True(t, utf8.ValidString(long))
}

func TestShorten(t *testing.T) {
	t.Parallel()
	require.Equal(t, "abc", Shorten("abc", 3))
	require.Equal(t, "ab", Shorten("abc", 2))
	require.Equal(t, "a", Shorten("aé", 2))
	require.Empty(t, Shorten("é", 1))
	require.Empty(t, Shorten("abc", 0))
	require.Empty(t, Shorten("\x80\x80\x80", 2), "bytes that begin no character")
}

func TestCodes(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"a", "b"}, Codes("", "a", "", "b"))
	require.Empty(t, Codes("", ""))
	require.Len(t, Codes(strings.Repeat("x", 500))[0], 128)
}

func FuzzReadBody(f *testing.F) {
	f.Add([]byte(`{"error":[{"code":1}]}`))
	f.Add([]byte(`[[["x"]]]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		body := ReadBody(data)
		text := First(body.Text(), body.At("error").Text(), body.At("error", "code").Text())
		require.LessOrEqual(t, len(text), maxMessage)
		require.True(t, utf8.ValidString(text))
		for _, e := range body.Each() {
			_, _ = e.Int()
			_ = e.True()
		}
	})
}

func TestCodesAreNeverEmpty(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"a", "b"}, Codes("", "a", strings.Repeat("\x80", 200), "b"))
}
