package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

const unknownLetter = "0192d3c0-7a1b-7c3d-8e4f-5a6b7c8d9e0f"

// runDLQ runs `ocr-proxy dlq` as a person would.
func runDLQ(args ...string) (stdout, stderr string, err error) {
	var out, warn bytes.Buffer
	cmd := dlqCommand(nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	cmd.SetErr(&warn)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return out.String(), warn.String(), err
}

// fillDLQ makes a store with the letters and gives their ids.
func fillDLQ(t *testing.T, letters ...*dlq.Envelope) (dir string, ids []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "dead-letters")
	s, err := dlq.Open(dir, dlq.Options{KeepPayloads: true})
	require.NoError(t, err)
	for _, e := range letters {
		id, err := s.Put(t.Context(), e, strings.NewReader("body of "+e.DocumentID))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	require.NoError(t, s.Close())
	return dir, ids
}

func deadLetter(document, class string) *dlq.Envelope {
	status := 503
	return &dlq.Envelope{
		Outcome: "exhausted", Provider: "acct", Kind: "generic", Operation: "ocr", DocumentID: document, ErrorClass: class, ErrorCode: "Busy",
		ErrorMessage: "come back later", HTTPStatus: &status, Diagnostic: "The provider stayed busy.", Request: dlq.Request{Method: "POST", Path: "/ocr", Query: "a=1"},
		Attempts: []dlq.Attempt{{N: 1, StartedAt: time.Now(), DurationMS: 12.3, HTTPStatus: &status, ErrorClass: class, WaitSource: "none", UpstreamRequestID: "r-1"}},
	}
}

func TestDLQListJSON(t *testing.T) {
	dir, ids := fillDLQ(t, deadLetter("doc-1", "transient"), deadLetter("doc-2", "throttle"))
	out, _, err := runDLQ("list", "--dir", dir, "--output", "json")
	require.NoError(t, err)
	var all []map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &all))
	require.Len(t, all, 2)
	require.Equal(t, ids[1], all[0]["id"], "newest first")
	require.Equal(t, "open", all[0]["status"])
	require.Contains(t, all[0], "retry_not_before")

	for _, args := range [][]string{{"--class", "throttle"}, {"--class", "throttle", "--provider", "acct", "--outcome", "exhausted", "--code", "Busy", "--since", "1h", "--status", "open"}} {
		out, _, err = runDLQ(append([]string{"list", "--dir", dir, "--output", "json"}, args...)...)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(out), &all))
		require.Len(t, all, 1, args)
	}
	for _, args := range [][]string{{"--tenant", "nobody"}, {"--since", "2100-01-01T00:00:00Z"}, {"--status", "resolved"}} {
		out, _, err = runDLQ(append([]string{"list", "--dir", dir, "--output", "json"}, args...)...)
		require.NoError(t, err)
		require.Equal(t, "[]\n", out, args)
	}
}

func TestDLQTables(t *testing.T) {
	dir, ids := fillDLQ(t, deadLetter("doc-1", "transient"), deadLetter("doc-2", "transient"))
	out, _, err := runDLQ("list", "--dir", dir)
	require.NoError(t, err)
	require.Contains(t, out, ids[0])
	require.Contains(t, out, "doc-2")
	require.True(t, strings.HasPrefix(out, "ID  "), "the id comes first")
	out, _, err = runDLQ("list", "--dir", dir, "--document", "doc-2", "--since", "1d")
	require.NoError(t, err)
	require.NotContains(t, out, ids[0])
	require.Contains(t, out, ids[1])

	out, _, err = runDLQ("show", ids[0], "--dir", dir)
	require.NoError(t, err)
	for _, want := range []string{"The provider stayed busy.", "open", "transient, HTTP 503, Busy: come back later", "POST /ocr?a=1", filepath.Join(dir, "payloads"), "(13 B)", "r-1"} {
		require.Contains(t, out, want)
	}
	short, _, err := runDLQ("show", ids[0][:idLeast], "--dir", dir)
	require.NoError(t, err)
	require.Equal(t, out, short, "the beginning of an id will do")
	out, _, err = runDLQ("show", ids[0], "--dir", dir, "--output", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"schema": "ocr-proxy/dead-letter/v1"`)

	out, _, err = runDLQ("top", "--dir", dir)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^2 +2 +2 +acct +exhausted +transient +Busy`, out)
	require.Contains(t, out, "2 letters (exhausted/transient): Replay")
	out, _, err = runDLQ("top", "--dir", dir, "--by", "hour,tenant,operation")
	require.NoError(t, err)
	require.Regexp(t, `LETTERS +DOCUMENTS +SEEN +HOUR +TENANT +OPERATION +CHANGED +NEW +OLDEST +NEWEST`, out)
	require.Regexp(t, `(?m)^2 +2 +2 +2\d\d\d-\d\d-\d\d \d\dh +- +ocr +0 +Busy `, out)
	out, _, err = runDLQ("top", "--dir", dir, "--output", "json")
	require.NoError(t, err)
	var groups []dlq.Group
	require.NoError(t, json.Unmarshal([]byte(out), &groups))
	require.Equal(t, 2, groups[0].Letters)
	require.Equal(t, []string{"Busy"}, groups[0].NewCodes)

	out, _, err = runDLQ("list", "--dir", dir, "--limit", "1")
	require.NoError(t, err)
	require.Contains(t, out, ids[1])
	require.NotContains(t, out, ids[0])
	out, _, err = runDLQ("list", "--dir", dir, "--before", ids[1], "--output", "json")
	require.NoError(t, err)
	require.Contains(t, out, ids[0])
	require.NotContains(t, out, ids[1])

	empty := t.TempDir()
	out, _, err = runDLQ("list", "--dir", empty)
	require.NoError(t, err)
	require.Equal(t, "no dead letters\n", out)
	out, _, err = runDLQ("top", "--dir", empty, "--output", "json")
	require.NoError(t, err)
	require.Equal(t, "[]\n", out)
}

func TestDLQMistakesGetASentence(t *testing.T) {
	dir, ids := fillDLQ(t, deadLetter("1", "transient"))
	missing := filepath.Join(dir, "none")
	for want, args := range map[string][]string{
		"does not exist":        {"list", "--dir", missing},
		"none does not exist":   {"verify", "--dir", missing},
		"--dir DIR or --config": {"list"},
		"use table, json":       {"list", "--dir", dir, "--output", "yaml"},
		"--since \"soon\"":      {"list", "--dir", dir, "--since", "soon"},
		"--since \"-1h\"":       {"list", "--dir", dir, "--since", "-1h"},
		"--since \"1.5d\"":      {"list", "--dir", dir, "--since", "1.5d"},
		"resolved, discarded":   {"list", "--dir", dir, "--status", "lost"},
		"not a dead letter's":   {"show", "../" + ids[0], "--dir", dir},
		"no dead letter has":    {"show", unknownLetter, "--dir", dir},
		"say which letter":      {"show", "--dir", dir},
		"--limit -1":            {"list", "--dir", dir, "--limit", "-1"},
		"\"x\" is not a dead":   {"list", "--dir", dir, "--before", "x"},
		"color":                 {"top", "--dir", dir, "--by", "provider,color"},
		"--by is empty":         {"top", "--dir", dir, "--by", ""},
		"--new-within \"soon\"": {"top", "--dir", dir, "--new-within", "soon"},
		"no-such-file.yaml":     {"list", "--config", filepath.Join(dir, "no-such-file.yaml")},
	} {
		_, _, err := runDLQ(args...)
		require.ErrorContains(t, err, want)
	}
}

func TestDLQFindsTheFolderByConfiguration(t *testing.T) {
	dir, ids := fillDLQ(t, deadLetter("1", "transient"))
	path := file(t, "config.yaml", "dead_letters: {dir: "+dir+"}\nproviders:\n"+
		"  - {name: a, kind: generic, listen: '127.0.0.1:8081', upstream: 'http://127.0.0.1:9', auth: {type: header, header: X-Key, value_env: NOT_SET_HERE}}\n")
	out, _, err := runDLQ("list", "--config", path)
	require.NoError(t, err)
	require.Contains(t, out, ids[0])
}

func TestDLQVerify(t *testing.T) {
	e := deadLetter("1", "transient")
	dir, ids := fillDLQ(t, e)
	out, _, err := runDLQ("verify", "--dir", dir)
	require.NoError(t, err)
	require.Contains(t, out, "nothing is wrong")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "open", unknownLetter+".json"), []byte("{"), 0o600))
	_, warn, err := runDLQ("list", "--dir", dir)
	require.NoError(t, err)
	require.Contains(t, warn, unknownLetter)
	require.NoError(t, os.Remove(filepath.Join(dir, e.RawPayloadRef)))
	from, to := filepath.Join(dir, "open", unknownLetter+".json"), filepath.Join(dir, "quarantine", unknownLetter+".json")
	moved := "moved " + from + " to " + to
	out, warn, err = runDLQ("verify", "--dir", dir)
	require.ErrorContains(t, err, "moved to quarantine: 1")
	require.True(t, strings.HasPrefix(out, moved+": unreadable dead letter: unexpected end of JSON input\n"), out)
	require.Equal(t, 1, strings.Count(out, "moved "), "once")
	require.Contains(t, out, "broken: open/"+ids[0])
	require.Contains(t, out, "in quarantine: 1. Nothing reads or deletes them there.")
	require.Empty(t, warn)

	require.NoError(t, os.Rename(to, from))
	require.NoError(t, os.Symlink("loop.json", filepath.Join(dir, "open", "loop.json")))
	out, warn, err = runDLQ("verify", "--dir", dir, "--output", "json")
	require.ErrorContains(t, err, "not readable now: 1")
	require.Contains(t, warn, moved)
	var report dlq.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, 1, report.InQuarantine)
	require.Equal(t, from, filepath.Join(report.Dir, report.Quarantined[0].From))
	require.Equal(t, to, filepath.Join(report.Dir, report.Quarantined[0].Path))
	require.Equal(t, "open/loop.json", report.Unread[0].Path)
	out, _, err = runDLQ("verify", "--dir", dir)
	require.Error(t, err)
	require.Contains(t, out, "not read, left where it is: open/loop.json: ")
}

func TestDLQOutputCarriesNoControlCharacters(t *testing.T) {
	evil := "a\x1b[2J\r\n\u009b31m\u202e\x7f\U000e0041 é"
	e := deadLetter(evil, "transient")
	e.Tenant, e.Operation, e.ErrorCode, e.ErrorMessage, e.Diagnostic, e.Request.Path = evil, evil, evil, evil, evil, evil
	e.Attempts[0].ErrorCode, e.Attempts[0].UpstreamRequestID, e.Attempts[0].WaitSource = evil, evil, evil
	e.Request.Credentials, e.TraceID, e.Job = []string{evil}, evil, &dlq.Job{ID: evil}
	e.Replays = []dlq.Replay{{Outcome: evil, ErrorClass: evil}}
	dir, ids := fillDLQ(t, e)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "open", "x\x1b[2J\n.json"), nil, 0o600))
	for _, args := range [][]string{
		{"list"},
		{"list", "--output", "json"},
		{"show", ids[0]},
		{"show", ids[0], "--output", "json"},
		{"top"},
		{"top", "--output", "json"},
		{"verify", "--output", "json"},
		{"verify"},
	} {
		out, warn, _ := runDLQ(append(args, "--dir", dir)...)
		for _, r := range out + warn {
			require.True(t, r == '\n' || unicode.IsPrint(r), "%v wrote %q", args, r)
		}
		require.Contains(t, out+"é", "é")
		if args[len(args)-1] == "json" && args[0] == "show" {
			var back dlq.Envelope
			require.NoError(t, json.Unmarshal([]byte(out), &back))
			require.Equal(t, evil, back.ErrorMessage, "escaping must not change what the JSON means")
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"": "-", "plain é 文": "plain é 文", "a\x1b[31m": `a\x1b[31m`, "tab\tand\nline": `tab\tand\nline`, "bad\xff": `bad\xff`, "\u202e": `\u202e`, "it's \"": "it's \"",
	} {
		require.Equal(t, want, printable(in))
	}
}

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "90m": now.Add(-90 * time.Minute), "1d": now.AddDate(0, 0, -1), "2w": now.AddDate(0, 0, -14), "2026-03-01T00:00:00Z": time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
	} {
		got, err := parseTime("since", text, now)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), "%s: %s", text, got)
	}
	for _, bad := range []string{"d", "-1d", "1d12h", "99999999w", "yesterday"} {
		_, err := parseTime("since", bad, now)
		require.Error(t, err, bad)
	}
}

func TestLettersFitIntoATerminal(t *testing.T) {
	hash := strings.Repeat("0123456789abcdef", 4)
	var letters []*dlq.Envelope
	for _, document := range []string{hash, "a-document-with-a-rather-long-name-2026-11-30.pdf"} {
		e := deadLetter(document, "permanent")
		e.ID, e.Provider, e.Operation, e.ErrorCode, e.Outcome = "01a22cef-29cf-7abc-94bd-813fd1c5d627", "azure-westeurope", "analyzeDocumentFromStream", "UnsupportedDocumentException", "circuit_open"
		letters = append(letters, e)
	}
	for _, width := range []int{0, 250, 160, 120, 100} {
		var out strings.Builder
		table := &letterTable{w: &out, width: width}
		for _, e := range letters {
			require.NoError(t, table.add(dlq.Letter{Envelope: e, Status: dlq.StatusOpen}))
		}
		require.NoError(t, table.end())
		text := out.String()
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			require.True(t, width == 0 || utf8.RuneCountInString(line) <= width, "%d characters: %s", width, line)
			require.Equal(t, strings.TrimRight(line, " "), line)
		}
		require.Contains(t, text, letters[0].ID[:idLeast], width)
		require.Contains(t, text, "\n"+letters[0].ID[:idLeast], width)
		require.Contains(t, text, hash[:dlq.ShortHash], width)
		require.NotContains(t, text, hash[:dlq.ShortHash+1], "a hash is told by its beginning")
		require.Contains(t, text, "circuit_open", width)
		require.Equal(t, width == 0 || width == 250, strings.Contains(text, "OPERATION"), width)
	}
}

func TestThereIsAnActionForEveryCause(t *testing.T) {
	fallback := dlq.Action("", "")
	for outcome, classes := range map[string][]string{
		"permanent": {"permanent", "auth", "quota", "unknown"}, "exhausted": {"transient", "throttle"}, "circuit_open": {"transient", "throttle", "auth"}, "review": {"soft"},
	} {
		require.Contains(t, letterOutcomes(), outcome)
		for _, class := range classes {
			require.Contains(t, letterClasses(), class)
			require.NotEqual(t, fallback, dlq.Action(outcome, class), "%s %s", outcome, class)
		}
	}
}
