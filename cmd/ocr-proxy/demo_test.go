package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDemoTellsItsStory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out, problems bytes.Buffer
	code := run(t.Context(), []string{"demo", "--documents", "20", "--pace", "0.1"}, []string{"OCR_PROXY_RETRY_MAX_ATTEMPTS=1"}, strings.NewReader(""), &out, &problems)
	require.Equal(t, exitOK, code, "%s\n%s", problems.String(), out.String())
	require.Empty(t, problems.String())

	text := out.String()
	for _, told := range []string{
		"textract starts to throttle", "mistral goes down", "mistral: the breaker opens", "mistral: the probe succeeded", "permanent, HTTP 400, BadDocumentException",
		"agree",
	} {
		require.Contains(t, text, told)
	}
	require.Regexp(t, `(?m)^  documents .* 20$`, text)
	for _, line := range storyInREADME(t) {
		if !strings.Contains(line, " is a dead letter") && !strings.Contains(line, "a probe failed") { // which depend on the moment
			require.Contains(t, text, line, "README.md shows a line that the demo does not write: run it and paste")
		}
	}
	require.Contains(t, text, "Next:  "+startedAs()+" dlq list --dir ")

	dir := regexp.MustCompile(`dlq list --dir (\S+)`).FindStringSubmatch(text)
	require.Len(t, dir, 2, text)
	var list bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"dlq", "list", "--dir", dir[1], "--outcome", "permanent"}, nil, strings.NewReader(""), &list, io.Discard))
	require.Contains(t, list.String(), "damaged.png")
	log, err := os.ReadFile(filepath.Join(filepath.Dir(dir[1]), "proxy.log"))
	require.NoError(t, err)
	require.NotEmpty(t, log, "the proxy's own lines belong into its log")
}

// storyInREADME are the lines of the story as README.md shows them, without their times.
func storyInREADME(t *testing.T) (lines []string) {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, found := range regexp.MustCompile(`(?m)^ +[0-9.]+s  (.*)$`).FindAllStringSubmatch(string(readme), -1) {
		lines = append(lines, found[1])
	}
	require.NotEmpty(t, lines)
	return lines
}

func TestDemoThatIsInterruptedEndsInOrder(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var problems bytes.Buffer
	code := run(ctx, []string{"demo", "--documents", "20", "--keep=false"}, nil, strings.NewReader(""), io.Discard, &problems)
	require.Equal(t, exitFailure, code)
	require.Contains(t, problems.String(), "interrupted")
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left, "--keep=false leaves nothing behind")
}

func TestDemoDrawsPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pages")
	var out bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"demo", "--pages", dir, "--documents", "3"}, nil, strings.NewReader(""), &out, io.Discard))
	require.Equal(t, []string{"lease-01.png", "invoice-02.png", "damaged.png"}, names(out.String()))
	for line := range strings.Lines(out.String()) {
		require.FileExists(t, strings.TrimSpace(line))
	}
}

func names(list string) (names []string) {
	for line := range strings.Lines(list) {
		names = append(names, filepath.Base(strings.TrimSpace(line)))
	}
	return names
}
