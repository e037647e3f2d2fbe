package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
)

// account is one entry of the program's configuration.
type account struct{ name, kind, upstream, more string }

// config writes a configuration; letters go to the folder of that name.
func (p place) config(letters, more string, accounts ...account) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "admin: {listen: %q}\nbody: {dir: %q}\ndead_letters: {dir: %q}\n%sproviders:\n", "127.0.0.1:0", p.dir, letters, more)
	for _, a := range accounts {
		fmt.Fprintf(&b, "  - {name: %s, kind: %s, listen: %q, upstream: %q%s}\n", a.name, a.kind, "127.0.0.1:0", a.upstream, a.more)
	}
	path := filepath.Join(p.dir, "config.yaml")
	return path, os.WriteFile(path, []byte(b.String()), 0o600)
}

// proxy is the program as a child process.
func (p place) proxy(config string) child.Command {
	return child.Command{Name: "the program", Path: p.product, Args: []string{"serve", "--config", config}}
}

// command runs the program to its end and gives what it prints.
func (p place) command(ctx context.Context, args ...string) ([]byte, error) {
	return child.Output(ctx, p.product, args...)
}
