package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
)

const (
	readme        = "../README.md"
	settingsBegin = "<!-- settings: written by UPDATE_README=1 go test ./config -run README -->\n"
	settingsEnd   = "<!-- end of settings -->\n"
)

// pages are the texts for people that are checked against the code.
func pages(t *testing.T) []string {
	t.Helper()
	top, err := filepath.Glob("../*.md")
	require.NoError(t, err)
	docs, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	return append(top, docs...)
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// cells returns the rows of the Markdown table whose first heading is this one, without heading and rule.
func cells(t *testing.T, text, heading string) [][]string {
	t.Helper()
	_, after, found := strings.Cut(text, "\n| "+heading+" |")
	require.True(t, found, "no table begins with %q", heading)
	var rows [][]string
	for i, line := range strings.Split(after, "\n") {
		if i < 2 {
			continue // The rest of the heading, and the rule.
		}
		if !strings.HasPrefix(line, "|") {
			break
		}
		row := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
		for j := range row {
			row[j] = strings.TrimSpace(row[j])
		}
		rows = append(rows, row)
	}
	require.NotEmpty(t, rows)
	return rows
}

func code(text string) string { return strings.Trim(text, "`") }

func settingsTable() string {
	var b strings.Builder
	b.WriteString("| Key | Type | Default | Meaning |\n|---|---|---|---|\n")
	for _, key := range Reference() {
		value := ""
		if key.Default != "" {
			value = "`" + key.Default + "`"
		}
		doc := strings.ReplaceAll(key.Doc, "|", `\|`)
		if key.Reload == Restart {
			doc += " *Needs a restart.*"
		}
		b.WriteString("| `" + key.Path + "` | " + key.Type + " | " + value + " | " + doc + " |\n")
	}
	return b.String()
}

func TestREADMEListsEverySetting(t *testing.T) {
	text := readPage(t, readme)
	before, rest, found := strings.Cut(text, settingsBegin)
	require.True(t, found, "README.md has lost the mark before its table of settings: %s", settingsBegin)
	have, after, found := strings.Cut(rest, settingsEnd)
	require.True(t, found, "README.md has lost the mark after its table of settings: %s", settingsEnd)
	want := "\n" + settingsTable() + "\n"
	if have != want && os.Getenv("UPDATE_README") != "" {
		require.NoError(t, os.WriteFile(readme, []byte(before+settingsBegin+want+settingsEnd+after), 0o600))
		return
	}
	require.Equal(t, want, have, "README.md is out of date; rewrite it: UPDATE_README=1 go test ./config -run README")
}

func TestREADMEHasEveryClassAndWhatFollowsFromIt(t *testing.T) {
	var listed []string
	for _, row := range cells(t, readPage(t, readme), "Class") {
		class, err := classify.Parse(code(row[0]))
		require.NoError(t, err)
		listed = append(listed, class.String())
		retried := "no"
		switch {
		case class.Retryable():
			retried = "yes"
		case class == classify.Unknown:
			retried = "`retry.unknown_retries` times"
		}
		require.Equal(t, retried, row[1], class)
		require.Equal(t, class.Health().String(), row[2], class)
		require.Equal(t, code(row[3]), class.Failure(), class)
	}
	var all []string
	for _, class := range classify.Classes() {
		all = append(all, class.String())
	}
	require.ElementsMatch(t, all, listed)
}

func TestREADMEHasEveryOutcome(t *testing.T) {
	var listed []proxy.Outcome
	for _, row := range cells(t, readPage(t, readme), "Outcome") {
		listed = append(listed, proxy.Outcome(code(row[0])))
	}
	require.ElementsMatch(t, proxy.Outcomes(), listed)
}

func TestREADMEHasEveryKindWithItsExample(t *testing.T) {
	text := readPage(t, readme)
	for _, kind := range Kinds() {
		require.Contains(t, text, "(config/example-"+kind+".yaml)")
	}
}

// TestREADMEAnswersAreClassifiedAsDocumented covers the table of answers in docs/retries.md: a code stands in backticks, a part of the message
// in quotes.
func TestREADMEAnswersAreClassifiedAsDocumented(t *testing.T) {
	quoted := regexp.MustCompile("`([^`]+)`|\"([^\"]+)\"")
	seen := map[string]bool{}
	for _, row := range cells(t, readPage(t, "../docs/retries.md"), "Kind") {
		kind, err := provider.Find(code(row[0]))
		require.NoError(t, err)
		seen[kind.Name] = true
		status, err := strconv.Atoi(row[1])
		require.NoError(t, err, row)
		for _, says := range quoted.FindAllStringSubmatch(row[2], -1) {
			fault := classify.Fault{Codes: classify.Codes(says[1]), Message: says[2]}
			attempt := classify.Attempt{Status: status, Sent: true, Operation: "analyze"}
			require.Equal(t, code(row[3]), classify.Decide(attempt, fault, nil, kind.Table).Class.String(), "%s %d %s", kind.Name, status, says[0])
		}
	}
	for _, kind := range Kinds() {
		require.True(t, seen[kind], "docs/retries.md has no answer of kind %s", kind)
	}
}

func TestREADMEConfigurationsLoad(t *testing.T) {
	environ := []string{"AZURE_DOCUMENT_KEY=k", "MISTRAL_API_KEY=k", "OCRSPACE_API_KEY=k", "OPENAI_API_KEY=k", "OTHER_API_KEY=k"}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	loaded := 0
	for _, path := range pages(t) {
		for _, found := range block.FindAllStringSubmatch(readPage(t, path), -1) {
			if !strings.Contains(found[1], "providers:") {
				continue
			}
			file := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(file, []byte(found[1]), 0o600))
			_, err := Load(file, environ)
			require.NoError(t, err, "%s:\n%s", path, found[1])
			loaded++
		}
	}
	require.Positive(t, loaded)
}

func TestREADMELinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, path := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(readPage(t, path), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
				require.FileExists(t, target, "in %s", path)
			}
			if anchor != "" {
				require.Contains(t, anchors(readPage(t, target)), anchor, "in %s", path)
			}
		}
	}
}

// anchors are the names that a Markdown page's headings get.
func anchors(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}
