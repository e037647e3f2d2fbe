// Package program gives tests the program of this working copy.
package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require" //nolint:depguard // a package for tests
)

// Build makes the binary and returns its path.
func Build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ocr-proxy")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/ocr-proxy") //nolint:gosec // the test chose the path
	build.Dir = filepath.Join("..", "..", "..")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// Check runs "ocr-proxy check" on a configuration under an environment, and returns the effective one. A warning is a failure.
func Check(t *testing.T, binary, config string, environ []string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	check := exec.CommandContext(t.Context(), binary, "check", "--config", file) //nolint:gosec // the test chose the path
	check.Env = environ
	var complaint strings.Builder
	check.Stderr = &complaint
	out, err := check.Output()
	require.NoError(t, err, complaint.String())
	require.NotContains(t, complaint.String(), "warning", "an example that check warns of")
	return string(out)
}
