package config

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that does not know its version is of no use to whoever reads a dead letter of it. What the stamps do is tried by make release-check.
func TestEveryBuildStampsTheProgramInTheSameWay(t *testing.T) {
	flags := func(path string) string {
		found := regexp.MustCompile(`-s -w -X main\.version=.* -X main\.commit=.*`).FindString(readPage(t, path))
		require.NotEmpty(t, found, path)
		// What differs is how each of them names the version and the commit.
		return regexp.MustCompile(`=(\$\(?[A-Z]+\)?|\{\{ if .* end \}\}|\{\{ \S+ \}\})`).ReplaceAllString(strings.TrimRight(strings.Split(found, `"`)[0], " "), "=x")
	}
	const want = "-s -w -X main.version=x -X main.commit=x"
	for _, path := range []string{"../Makefile", "../Dockerfile", "../.goreleaser.yaml"} {
		require.Equal(t, want, strings.Join(strings.Fields(flags(path)), " "), path)
		text := readPage(t, path)
		require.Contains(t, text, "-trimpath", path)
		require.Contains(t, text, "CGO_ENABLED=0", path)
	}
	require.Regexp(t, `(?m)^var version, commit string$`, readPage(t, "../cmd/ocr-proxy/version.go"), "what the linker sets")
}

// A release takes its section by the heading.
func TestTheChangelogHasTheFormOfItsStandard(t *testing.T) {
	text := readPage(t, "../CHANGELOG.md")
	require.True(t, strings.HasPrefix(text, "# Changelog\n"))
	sections := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, sections)
	require.Equal(t, "[Unreleased]", sections[0][1], "the first section is what comes next")
	for _, s := range sections[1:] {
		require.Regexp(t, `^\[\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?\] - \d{4}-\d{2}-\d{2}$`, s[1])
	}
	for _, s := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(text, -1) {
		require.Contains(t, []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}, s[1])
	}
	require.Contains(t, text, "\n[Unreleased]: https://github.com/ocr-proxy/ocr-proxy/", "the heading is a link")
}
