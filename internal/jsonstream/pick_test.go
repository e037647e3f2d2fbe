package jsonstream_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

func pick(t *testing.T, text string, paths ...string) jsonstream.Found {
	t.Helper()
	found, err := jsonstream.Pick(strings.NewReader(text), paths, 100)
	require.NoError(t, err)
	bytewise, err := jsonstream.Pick(iotest.OneByteReader(strings.NewReader(text)), paths, 100)
	require.NoError(t, err)
	require.Equal(t, found, bytewise)
	return found
}

func TestPickScalars(t *testing.T) {
	t.Parallel()
	found := pick(t, `{"status":"failed","n":14.0,"f":-2.5e1,"yes":true,"no":false,"nil":null,"other":{"status":1},
		"error":{"code":"A","innererror":{"code":"B\u00e9"}},"s":"14"}`,
		"status", "n", "f", "yes", "no", "nil", "error.innererror.code", "error.innererror", "missing", "other.status.x", "s")

	require.Equal(t, "failed", found.String("status"))
	require.Equal(t, "Bé", found.String("error.innererror.code"))
	require.False(t, found.Has("error.innererror"), "an object is no scalar")
	require.False(t, found.Has("missing"))
	require.False(t, found.Has("other.status.x"))
	require.True(t, found.Has("nil"))
	require.Empty(t, found.String("nil"))
	require.Empty(t, found.String("n"), "a number is no string")
	n, ok := found.Int("n")
	require.True(t, ok)
	require.Equal(t, int64(14), n)
	_, ok = found.Int("f")
	require.True(t, ok)
	_, ok = found.Int("s")
	require.False(t, ok, "a string is no number")
	f, ok := found.Float("f")
	require.True(t, ok)
	require.InDelta(t, -25, f, 0)
	yes, ok := found.Bool("yes")
	require.True(t, ok)
	require.True(t, yes)
	no, ok := found.Bool("no")
	require.True(t, ok)
	require.False(t, no)
	_, ok = found.Bool("status")
	require.False(t, ok)
	require.Equal(t, jsonstream.Null, found["nil"][0].Type)
}

func TestIntegers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "-7": -7, "1e3": 1000, "9223372036854775807": 9223372036854775807, "2.50e1": 25} {
		n, ok := pick(t, `{"n":`+text+`}`, "n").Int("n")
		require.True(t, ok, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"0.5", "1e300", "9223372036854775808", "null", `"1"`, "true"} {
		_, ok := pick(t, `{"n":`+text+`}`, "n").Int("n")
		require.False(t, ok, text)
	}
}

func TestPickKeepsIndexes(t *testing.T) {
	t.Parallel()
	const code = "responses[].error.code"
	const deep = "responses[].responses[].text"
	found := pick(t, `{"responses":[{"ok":[1]},{"error":{"code":14}},[{"error":{"code":99}}],{"error":{"code":3},"responses":[{},{"text":"x"}]}]}`, code, deep)
	require.Len(t, found[code], 2)
	require.Equal(t, []int{1}, found[code][0].Index)
	require.Equal(t, "14", found[code][0].Text)
	require.Equal(t, []int{3}, found[code][1].Index)
	require.Equal(t, []int{3, 1}, found[deep][0].Index)
}

func TestPickArraysOfArraysAndScalars(t *testing.T) {
	t.Parallel()
	found := pick(t, `[["a","b"],"c",[["d"],"e"]]`, "[][]", "[]", "x")
	texts := func(path string) (all []string) {
		for _, v := range found[path] {
			all = append(all, v.Text)
		}
		return all
	}
	require.Equal(t, []string{"a", "b", "e"}, texts("[][]"))
	require.Equal(t, []string{"c"}, texts("[]"))
	require.Equal(t, []int{2, 1}, found["[][]"][2].Index)
}

func TestStarStandsForEveryMember(t *testing.T) {
	t.Parallel()
	const all, total, array = "documents[].fields.*.confidence", "documents[].fields.Total.confidence", "*[]"
	found := pick(t, `{"documents":[{"fields":{"Total":{"confidence":0.5},"a.b":{"confidence":0.6,"x":1}}}],"list":["v"]}`, all, total, array)
	require.Len(t, found[all], 2)
	require.Equal(t, []string{"documents", "fields", "Total", "confidence"}, found[all][0].Names)
	require.Equal(t, []string{"documents", "fields", "a.b", "confidence"}, found[all][1].Names)
	require.Len(t, found[total], 1)
	require.Nil(t, found[total][0].Names)
	require.Len(t, found[array], 1)
	require.Equal(t, []string{"list"}, found[array][0].Names)
}

func TestPickCutsStrings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, want string
		limit      int
		cut        bool
	}{
		{`"abcdef"`, "abcdef", 6, false},
		{`"abcdef"`, "abcde", 5, true},
		{`"abcdef"`, "", 0, true},
		{`"aé"`, "a", 2, true},
		{`"aé"`, "aé", 3, false},
		{`"a\u20ac"`, "a", 3, true},
		{"\"a\xffb\"", "a\uFFFDb", 3, false},
		{"123456", "123456", 2, false},
	} {
		found, err := jsonstream.Pick(iotest.OneByteReader(strings.NewReader(`{"s":`+c.text+`,"t":"z"}`)), []string{"s", "t"}, c.limit)
		require.NoError(t, err)
		require.Equal(t, c.want, found["s"][0].Text, c.text)
		require.Equal(t, c.cut, found["s"][0].Cut, c.text)
		require.Equal(t, c.limit < 1, found["t"][0].Cut, "the next value starts afresh")
	}
}

func TestPickGivesWhatItFoundBeforeAnError(t *testing.T) {
	t.Parallel()
	found, err := jsonstream.Pick(strings.NewReader(`{"error":{"code":"X","message":"cut of`), []string{"error.code", "error.message"}, 100)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "X", found.String("error.code"))
	require.False(t, found.Has("error.message"), "half a value is none")

	_, err = jsonstream.Pick(strings.NewReader(`{"code":"X"} trailing`), []string{"code"}, 100)
	require.Error(t, err, "the whole text is checked")
}

func TestOverlongNamesMatchNothing(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", jsonstream.MaxToken)
	found := pick(t, `{"`+long+`code":1,"code":2,"`+long+`":3}`, "code", "*")
	require.Len(t, found["code"], 1)
	require.Equal(t, "2", found["code"][0].Text)
	require.Len(t, found["*"], 2)
}

func TestEachReusesItsSlices(t *testing.T) {
	t.Parallel()
	var got []int
	err := jsonstream.Each(strings.NewReader(`{"a":[1,2,3]}`), []string{"a[]"}, 10, func(path string, v jsonstream.Value) {
		require.Equal(t, "a[]", path)
		got = append(got, v.Index[0])
	})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2}, got)
}

func TestNilNodeIsNowhere(t *testing.T) {
	t.Parallel()
	root := jsonstream.Compile("a[].b")
	require.Equal(t, []int{0}, root.Member([]byte("a")).Item().Member([]byte("b")).Matches())
	require.Empty(t, root.Member([]byte("x")).Item().Member([]byte("b")).Matches())
}

// Names that no path needs cost nothing.
func TestNamesDoNotAllocate(t *testing.T) {
	paths := []string{"JobStatus"}
	small, large := textractAnswer(10), textractAnswer(1000)
	allocs := func(text string) float64 {
		return testing.AllocsPerRun(5, func() {
			_, err := jsonstream.Pick(io.MultiReader(strings.NewReader(text)), paths, 100)
			require.NoError(t, err)
		})
	}
	require.InDelta(t, allocs(small), allocs(large), 2)
}

func FuzzPick(f *testing.F) {
	f.Add(`{"a":{"b":[1,"x",{"c":null}]}}`, "a.b[].c", "a.*[]", 3)
	f.Add(`[[1]]`, "[][]", "*", 0)
	f.Fuzz(func(t *testing.T, text, one, two string, limit int) {
		found, err := jsonstream.Pick(strings.NewReader(text), []string{one, two}, limit)
		require.Equal(t, jsonstream.Valid(strings.NewReader(text)) == nil, err == nil)
		for path, values := range found {
			for _, v := range values {
				require.LessOrEqual(t, len(v.Index), strings.Count(path, "[]"))
			}
		}
	})
}

func TestTheEndsOfObjectsAreTold(t *testing.T) {
	t.Parallel()
	var told []string
	err := jsonstream.Each(strings.NewReader(`{"a":[{"b":1,"c":{"b":2}},{},3,[{}],{"c":{}}],"d":{"x":{"b":4}},"e":{}}`),
		[]string{"a[]{}", "a[].b", "d.*{}", "e{}", "a[].c{}"}, 10, func(path string, v jsonstream.Value) {
			what := v.Text
			if v.Type == jsonstream.Ended {
				what = "end"
			}
			told = append(told, fmt.Sprint(path, v.Index, v.Names, what))
		})
	require.NoError(t, err)
	require.Equal(t, []string{
		"a[].b[0] []1", "a[].c{}[0] []end", "a[]{}[0] []end", "a[]{}[1] []end", "a[].c{}[4] []end", "a[]{}[4] []end", "d.*{}[] [d x]end", "e{}[] []end",
	}, told)
}

// A byte order mark should not be there, and may be passed over. What is checked strictly is not.
func TestAByteOrderMark(t *testing.T) {
	t.Parallel()
	const mark = "\xEF\xBB\xBF"
	found, err := jsonstream.Pick(strings.NewReader(mark+`{"a":1}`), []string{"a"}, 10)
	require.NoError(t, err)
	require.Equal(t, "1", found["a"][0].Text)
	for _, text := range []string{mark, mark + mark + "1", " " + mark + "1", mark[:2] + "1", `[` + mark + `1]`, "1" + mark} {
		_, err := jsonstream.Pick(strings.NewReader(text), []string{"a"}, 10)
		require.Error(t, err, "%q", text)
	}
	require.Error(t, jsonstream.Valid(strings.NewReader(mark+"1")))
}

// Numbers of protobuf can be what JSON has no number for.
func TestWhatIsNoNumberIsNone(t *testing.T) {
	t.Parallel()
	_, ok := jsonstream.Value{Type: jsonstream.Number, Text: "NaN"}.Float()
	require.False(t, ok)
}
