package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseScriptLinesAndYAMLAgree(t *testing.T) {
	lines := `
# the provider has a bad day
503
400 code=ThrottlingException header=Retry-After:2 header="X-Note: two words"
500 delay=2s times=2
200 body='{"pages": []}'
201 body="a\nb"
ok delay=1s
lose
hang
`
	yamlText := `
# the provider has a bad day
- status: 503
- {status: 400, code: ThrottlingException, headers: {Retry-After: "2", X-Note: two words}}
- {status: 500, delay: 2s, times: 2}
- {status: 200, body: '{"pages": []}'}
- {status: 201, body: "a\nb"}
- {ok: true, delay: 1s}
- lose: true
- hang: true
`
	want := []Step{
		{Status: 503},
		{Status: 400, Code: "ThrottlingException", Headers: map[string]string{"Retry-After": "2", "X-Note": "two words"}},
		{Status: 500, Delay: 2 * time.Second},
		{Status: 500, Delay: 2 * time.Second},
		{Status: 200, Body: `{"pages": []}`},
		{Status: 201, Body: "a\nb"},
		{Delay: time.Second},
		{Lose: true},
		{Hang: true},
	}
	for _, text := range []string{lines, yamlText} {
		got, err := ParseScript(strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestScriptHelpShowsScriptsThatParse(t *testing.T) {
	var lines, yamlText []string
	for line := range strings.Lines(ScriptHelp) {
		text, ok := strings.CutPrefix(line, "    ")
		switch {
		case !ok:
		case strings.HasPrefix(text, "- "):
			yamlText = append(yamlText, text)
		default:
			example, _, _ := strings.Cut(strings.TrimSpace(text), "    ")
			lines = append(lines, example+"\n")
		}
	}
	require.Len(t, lines, 7)
	require.Len(t, yamlText, 6)
	for _, text := range [][]string{lines, yamlText} {
		_, err := ParseScript(strings.NewReader(strings.Join(text, "")))
		require.NoError(t, err)
	}
}

func TestParseScriptErrorsNameThePlace(t *testing.T) {
	tests := []struct{ text, want string }{
		{"503\nlate", `script line 2: "late": begin with a status`},
		{"0", "begin with a status"},
		{"99", "status 99: must be from 200 to 599"},
		{"101", "must be from 200 to 599"},
		{"503 now", `"now": write options as key=value`},
		{"503 colour=red", `unknown option "colour"`},
		{"503 delay=5", "must be a duration with a unit"},
		{"503 delay=-1s", "must be from 0s to 24h"},
		{"503 times=0", "times 0: must be from 1 on"},
		{"503 times=99999", "at most 10000 steps"},
		{"503 times=x", `times "x"`},
		{"503 header=Retry-After", "write header=Name:value"},
		{"503 header='Bad Name:1'", "not a header name"},
		{"503 header=Content-Length:1", "belongs to the connection"},
		{`503 header="X: a\nb"`, "control character"},
		{"503 body='open", "the closing quote is missing"},
		{`503 body="open`, "malformed"},
		{"503 code=X body=y", "exclude one another"},
		{"200 code=X", "a code needs a status from 400 on"},
		{"204 body=x", "has no body"},
		{"lose body=x", "a body needs a status"},
		{"hang header=A:b", "headers need an answer"},
		{"- status: 503\n- status: 42\n", "script step 2: status 42"},
		{"- {status: 503, lose: true}", "exclude one another"},
		{"- {delay: 1s}", "give a status, ok, lose or hang"},
		{"- {ok: true, hang: true}", "ok excludes"},
		{"- {status: 503, delay: 5}", "must be a duration with a unit"},
		{"- {status: 503, times: 0}", "times 0"},
		{"- {statu: 503}", "field statu not found"},
		{"- [", "yaml"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			_, err := ParseScript(strings.NewReader(tt.text))
			require.ErrorContains(t, err, tt.want)
		})
	}
	_, err := ParseScript(strings.NewReader(strings.Repeat("#\n", maxScriptBytes)))
	require.ErrorContains(t, err, "larger than")
}

func FuzzParseScript(f *testing.F) {
	for _, seed := range []string{"503\nok", "400 code=X header=A:b delay=1s times=3", "- {status: 503}", `200 body="\x00"`, "503 body='"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		steps, err := ParseScript(strings.NewReader(text))
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(steps), maxScriptSteps)
		require.NoError(t, Faults{Script: steps}.Validate())
	})
}

func TestLedgerForgetsTheOldest(t *testing.T) {
	l := newLedger[int]()
	for i := range ledgerSize + 2 {
		l.put(string(rune('a'+i%26))+strings.Repeat("x", i/26), i)
	}
	_, ok := l.get("a")
	require.False(t, ok)
	_, ok = l.get("c")
	require.True(t, ok)
	require.Len(t, l.entries, ledgerSize)
	v, fresh := l.claim("c", 99)
	require.False(t, fresh)
	require.Equal(t, 2, v)
}
