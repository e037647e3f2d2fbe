package jsonstream_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// recorder writes down what a walk reports, tokens put together again.
type recorder struct {
	events []string
	part   []byte
	parts  int
	skip   func(what string) bool // A container or name not to go into.
}

func (r *recorder) Begin(kind jsonstream.Kind) bool {
	r.events = append(r.events, string(kind))
	return r.skip == nil || !r.skip(string(kind))
}

func (r *recorder) End() { r.events = append(r.events, "end") }

func (r *recorder) Key(part []byte, last bool) bool {
	name, done := r.token("key ", part, last)
	return !done || r.skip == nil || !r.skip(name)
}

func (r *recorder) String(part []byte, last bool) { r.token("string ", part, last) }

func (r *recorder) Literal(part []byte, last bool) { r.token("", part, last) }

func (r *recorder) token(label string, part []byte, last bool) (string, bool) {
	r.part = append(r.part, part...)
	r.parts++
	if !last {
		return "", false
	}
	text := string(r.part)
	r.events, r.part = append(r.events, label+text), r.part[:0]
	return text, true
}

func TestWalkReportsInOrder(t *testing.T) {
	t.Parallel()
	text := ` {"a" : [1, -2.5e+3, true,false,null,"x"], "":{}, "é\n":[[]] } `
	want := []string{
		"{", "key a", "[", "1", "-2.5e+3", "true", "false", "null", "string x", "end",
		"key ", "{", "end", "key é\n", "[", "[", "end", "end", "end",
	}
	for name, r := range map[string]io.Reader{
		"sized":      strings.NewReader(text),
		"unsized":    io.MultiReader(strings.NewReader(text)),
		"one byte":   iotest.OneByteReader(strings.NewReader(text)),
		"data + EOF": iotest.DataErrReader(strings.NewReader(text)),
	} {
		var got recorder
		require.NoError(t, jsonstream.Walk(r, &got), name)
		require.Equal(t, want, got.events, name)
	}
}

func TestWalkLeavesOutWhatIsNotWanted(t *testing.T) {
	t.Parallel()
	text := `{"a":{"deep":[{"x":1}]},"b":[1,2],"c":3,"a":"s"}`
	got := recorder{skip: func(what string) bool { return what == "a" || what == "[" }}
	require.NoError(t, jsonstream.Walk(strings.NewReader(text), &got))
	require.Equal(t, []string{"{", "key a", "key b", "[", "key c", "3", "key a", "end"}, got.events)
}

func TestWhatIsSkippedIsStillChecked(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"a":[1,]}`, `{"a":"\x"}`, `{"a":{"b" 1}}`, `{"a":01}`, `{"a":1`} {
		got := recorder{skip: func(what string) bool { return what == "a" }}
		var syntax *jsonstream.SyntaxError
		require.ErrorAs(t, jsonstream.Walk(strings.NewReader(text), &got), &syntax, text)
	}
}

func TestStringsAreDecoded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70_000)
	for text, want := range map[string]string{
		`""`:                           "",
		`"\"\\\/\b\f\n\r\t"`:           "\"\\/\b\f\n\r\t",
		`"\u0041\u00e9\u20AC"`:         "Aé€",
		`"\ud83d\ude00"`:               "😀",
		`"\ud83d"`:                     "\uFFFD",
		`"\ude00\ud83d"`:               "\uFFFD\uFFFD",
		`"\ud83d\u0041"`:               "\uFFFDA",
		`"\ud83d\ud83d\ude00"`:         "\uFFFD😀",
		`"\ud83d\n"`:                   "\uFFFD\n",
		"\"\xff\"":                     "\xff",
		`"` + long + `\n` + long + `"`: long + "\n" + long,
	} {
		for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			var got recorder
			require.NoError(t, jsonstream.Walk(r, &got))
			require.Equal(t, []string{"string " + want}, got.events)
		}
	}
}

// Escapes at every offset around a refill of the buffer.
func TestEscapesAcrossRefills(t *testing.T) {
	t.Parallel()
	for shift := range 16 {
		pad := strings.Repeat("p", 32<<10-shift)
		var got recorder
		require.NoError(t, jsonstream.Walk(io.MultiReader(strings.NewReader(`["`+pad+`\ud83d\ude00\/","`+pad+`"]`)), &got))
		require.Equal(t, []string{"[", "string " + pad + "😀/", "string " + pad, "end"}, got.events)
	}
}

func TestEscapedSlashesArriveInLargeParts(t *testing.T) {
	t.Parallel()
	text := `"` + strings.Repeat(`abc\/`, 20_000) + `"`
	var got recorder
	require.NoError(t, jsonstream.Walk(strings.NewReader(text), &got))
	require.Equal(t, "string "+strings.Repeat("abc/", 20_000), got.events[0])
	require.Less(t, got.parts, 10)
}

func TestLongNamesAndNumbersComeInParts(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, jsonstream.MaxToken - 1, jsonstream.MaxToken, jsonstream.MaxToken + 1, 3 * jsonstream.MaxToken, 100_000} {
		name, number := strings.Repeat("n", n), strings.Repeat("7", n)
		for _, r := range []io.Reader{
			strings.NewReader(`{"` + name + `":` + number + `}`),
			iotest.HalfReader(strings.NewReader(`{"` + name + `":` + number + `}`)),
		} {
			var got recorder
			require.NoError(t, jsonstream.Walk(r, &got))
			require.Equal(t, []string{"{", "key " + name, number, "end"}, got.events)
			parts := (n + jsonstream.MaxToken - 1) / jsonstream.MaxToken
			require.Equal(t, 2*parts, got.parts, "%d bytes", n)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		offset int64
		short  bool // Only the end is missing.
	}{
		{"", 0, true},
		{"  ", 2, true},
		{"{", 1, true},
		{`{"a`, 3, true},
		{`{"a"`, 4, true},
		{`{"a":`, 5, true},
		{`{"a":1`, 6, true},
		{`["\`, 3, true},
		{`["\u00`, 6, true},
		{"tru", 3, true},
		{"-", 1, true},
		{"1.", 2, true},
		{"1e+", 3, true},
		{"[1,", 3, true},
		{"[1 2]", 3, false},
		{"[1,]", 3, false},
		{`{"a":1,}`, 7, false},
		{`{"a" 1}`, 5, false},
		{`{a:1}`, 1, false},
		{`{"a":1]`, 6, false},
		{"[1}", 2, false},
		{"]", 0, false},
		{"1 1", 2, false},
		{"{} x", 3, false},
		{"01", 1, false},
		{"+1", 0, false},
		{".5", 0, false},
		{"1.e5", 2, false},
		{"-a", 1, false},
		{"truth", 0, false},
		{"nul ", 0, false},
		{"NaN", 0, false},
		{"\"\x01\"", 1, false},
		{`"\x"`, 1, false},
		{`"\u12g4"`, 1, false},
		{"\ufeff{}", 0, false},
		{"'a'", 0, false},
		{"\x0b1", 0, false},
	} {
		err := jsonstream.Valid(strings.NewReader(c.text))
		var syntax *jsonstream.SyntaxError
		require.ErrorAs(t, err, &syntax, "%q", c.text)
		require.Equal(t, c.offset, syntax.Offset, "%q: %v", c.text, err)
		require.Equal(t, c.short, errors.Is(err, io.ErrUnexpectedEOF), "%q: %v", c.text, err)
		require.False(t, json.Valid([]byte(c.text)), "%q", c.text)
	}
}

func TestOffsetsBeyondTheFirstBuffer(t *testing.T) {
	t.Parallel()
	text := `["` + strings.Repeat("x", 100_000) + `", ?]`
	var syntax *jsonstream.SyntaxError
	require.ErrorAs(t, jsonstream.Valid(iotest.HalfReader(strings.NewReader(text))), &syntax)
	require.Equal(t, int64(strings.IndexByte(text, '?')), syntax.Offset)
}

func TestErrorsDoNotQuoteTheText(t *testing.T) {
	t.Parallel()
	err := jsonstream.Valid(strings.NewReader(`{"apikey":"s3cret" s3cret}`))
	require.EqualError(t, err, "no JSON: expected a comma or a closing brace at offset 19")
}

func TestReadErrorsComeBackAsTheyAre(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	wrapped := fmt.Errorf("upstream: %w", io.EOF)
	for _, want := range []error{broken, io.ErrUnexpectedEOF, wrapped} {
		for _, text := range []string{"", "{", `{"a`, `"\ud8`, "12", "tr", "{} "} {
			err := jsonstream.Valid(io.MultiReader(strings.NewReader(text), iotest.ErrReader(want)))
			require.Equal(t, want, err, "%q", text)
		}
	}
}

func TestReaderWithoutProgress(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, jsonstream.Valid(idle{}), io.ErrNoProgress)
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestDepth(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	require.NoError(t, jsonstream.Valid(strings.NewReader(nested(jsonstream.MaxDepth))))
	require.True(t, json.Valid([]byte(nested(jsonstream.MaxDepth))))

	var syntax *jsonstream.SyntaxError
	require.ErrorAs(t, jsonstream.Valid(strings.NewReader(nested(jsonstream.MaxDepth+1))), &syntax)
	require.Equal(t, int64(jsonstream.MaxDepth), syntax.Offset)
	require.False(t, json.Valid([]byte(nested(jsonstream.MaxDepth+1))))

	// What is open is remembered over several words of the bit set.
	mixed := strings.Repeat(`[{"a":`, 500) + "1" + strings.Repeat("}]", 500)
	require.NoError(t, jsonstream.Valid(strings.NewReader(mixed)))
	require.Error(t, jsonstream.Valid(strings.NewReader(strings.Replace(mixed, "}]}]", "}]]}", 1))))
}

// A string far larger than the buffer passes without being held.
func TestMemoryIsBounded(t *testing.T) {
	const size = 64 << 20
	text := io.MultiReader(strings.NewReader(`{"a":"`), io.LimitReader(endless{}, size), strings.NewReader(`"}`))
	var count counter
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, jsonstream.Walk(text, &count))
	runtime.ReadMemStats(&after)
	require.Equal(t, size, count.bytes)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<10))
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'A'
	}
	return len(p), nil
}

type counter struct{ bytes int }

func (*counter) Begin(jsonstream.Kind) bool   { return true }
func (*counter) End()                         {}
func (*counter) Key([]byte, bool) bool        { return true }
func (*counter) Literal([]byte, bool)         {}
func (c *counter) String(part []byte, _ bool) { c.bytes += len(part) }

func FuzzValidAgreesWithEncodingJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.5e-3,"\u00e9\ud83d\ude00",true,null]}`, `"`, `[1,]`, "\"\xff\"", "1e", "-0", "[[[]]]", `{"a":{}}`, "nul", "0123", " \t\r\n1 ",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want := json.Valid(text)
		require.Equal(t, want, jsonstream.Valid(bytes.NewReader(text)) == nil, "%q", text)
		require.Equal(t, want, jsonstream.Valid(iotest.OneByteReader(bytes.NewReader(text))) == nil, "%q", text)

		var whole, bytewise recorder
		err := jsonstream.Walk(bytes.NewReader(text), &whole)
		require.Equal(t, want, err == nil, "%q", text)
		err = jsonstream.Walk(iotest.OneByteReader(bytes.NewReader(text)), &bytewise)
		require.Equal(t, want, err == nil, "%q", text)
		require.Equal(t, whole.events, bytewise.events)

		var decoded string
		if want && json.Unmarshal(text, &decoded) == nil && len(whole.events) == 1 && whole.events[0] != "null" {
			// encoding/json replaces what is no UTF-8; so does a conversion to runes.
			require.Equal(t, "string "+decoded, string([]rune(whole.events[0])))
		}
	})
}
