// Package child runs programs as child processes for the commands that measure and try ocr-proxy from outside: it builds the program, starts it,
// waits until it says that it is ready, and ends it by its process and nothing else.
package child

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// program is the package of the real program.
const program = "github.com/ocr-proxy/ocr-proxy/cmd/ocr-proxy"

// Build compiles the real program to a file, with the flags of a release and those given. It must be called inside of this module.
func Build(ctx context.Context, to string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", to}, flags...)
	build := exec.CommandContext(ctx, "go", append(args, program)...)
	build.Env = os.Environ()
	if !slices.Contains(flags, "-race") { // The race detector needs cgo.
		build.Env = append(build.Env, "CGO_ENABLED=0")
	}
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, text)
	}
	return nil
}

// Output runs a program to its end and gives what it prints; the error has what it says on its standard error, too.
func Output(ctx context.Context, path string, args ...string) ([]byte, error) {
	var errs textBuffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		return text, fmt.Errorf("%s %v: %w\n%s%s", path, args, err, errs.text(), text)
	}
	return text, nil
}
