// Command licenses finds the licences of everything that is linked into ocr-proxy, on all platforms that it is released for, and refuses those that
// nobody has allowed.
//
//	go run ./internal/licenses              a table of modules and licences; exit code 1 if one is missing, unknown or not allowed
//	go run ./internal/licenses -notices F   writes the texts to a file as well, to go with the program
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// program is what is released.
const program = "github.com/ocr-proxy/ocr-proxy/cmd/ocr-proxy"

func main() {
	notices := flag.String("notices", "", "`FILE` for the texts of all licences")
	flag.Parse()
	if err := check(context.Background(), os.Stdout, *notices); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func check(ctx context.Context, out io.Writer, notices string) error {
	modules, err := linked(ctx)
	if err != nil {
		return err
	}
	for i := range modules {
		if err := modules[i].read(); err != nil {
			return err
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, m := range modules {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", m.path, m.version, strings.Join(m.names(), ", "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var bad []error
	for _, m := range modules {
		bad = append(bad, m.refused())
	}
	if err := errors.Join(bad...); err != nil || notices == "" {
		return err
	}
	return os.WriteFile(notices, text(modules), 0o644)
}

// module is one that is linked into the program.
type module struct {
	path, version, root string
	folders             []string // of its packages that are linked
	texts               []license
}

// license is a file about rights.
type license struct {
	file   string // within the module
	text   string
	name   string // SPDX; "" for one that is not recognised
	notice bool   // a notice, which says nothing of its own
}

// linked are the modules of the program's packages on all platforms, by path; Go itself is the first.
func linked(ctx context.Context) ([]module, error) {
	found := map[string]*module{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, machine := range []string{"amd64", "arm64"} {
			list := exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", program)
			list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+machine, "CGO_ENABLED=0")
			list.Stderr = os.Stderr
			lines, err := list.Output()
			if err != nil {
				return nil, fmt.Errorf("list the packages for %s/%s: %w", system, machine, err)
			}
			for scan := bufio.NewScanner(bytes.NewReader(lines)); scan.Scan(); {
				f := strings.Split(scan.Text(), "\t")
				if len(f) != 4 {
					continue
				}
				m := found[f[0]]
				if m == nil {
					m = &module{path: f[0], version: f[1], root: f[2]}
					found[f[0]] = m
				}
				if !slices.Contains(m.folders, f[3]) {
					m.folders = append(m.folders, f[3])
				}
			}
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no modules found; run it within the module")
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go's folder: %w", err)
	}
	goItself := strings.TrimSpace(string(root))
	all := []module{{path: "the Go standard library", version: runtime.Version(), root: goItself, folders: []string{goItself}}}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[path])
	}
	return all, nil
}

var names = regexp.MustCompile(`(?i)^((un)?licen[cs]e|copying|notice|patents)([._-].*)?$`)

// read finds the licences of a module: at its root, and where a linked package, or a folder around it, has one of its own.
func (m *module) read() error {
	seen := map[string]bool{}
	for _, folder := range append([]string{m.root}, m.folders...) {
		for ; !seen[folder] && strings.HasPrefix(folder, m.root); folder = filepath.Dir(folder) {
			seen[folder] = true
			entries, err := os.ReadDir(folder)
			if err != nil {
				return fmt.Errorf("look for licences of %s: %w", m.path, err)
			}
			for _, e := range entries {
				if e.IsDir() || !names.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
					continue
				}
				text, err := os.ReadFile(filepath.Join(folder, e.Name()))
				if err != nil {
					return fmt.Errorf("read a licence of %s: %w", m.path, err)
				}
				within, err := filepath.Rel(m.root, filepath.Join(folder, e.Name()))
				if err != nil {
					return err
				}
				upper := strings.ToUpper(e.Name())
				notice := strings.HasPrefix(upper, "NOTICE") || strings.HasPrefix(upper, "PATENTS")
				l := license{file: within, text: string(text), notice: notice}
				if !notice {
					l.name = recognise(l.text)
				}
				m.texts = append(m.texts, l)
			}
		}
	}
	return nil
}

// names are the licences that were recognised.
func (m *module) names() (all []string) {
	for _, l := range m.texts {
		if name := l.name; !l.notice && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// refused says why a module may not be in the program.
func (m *module) refused() error {
	if len(m.names()) == 0 {
		return fmt.Errorf("%s has no licence", m.path)
	}
	for _, l := range m.texts {
		if !l.notice && !allowed(l.name) {
			return fmt.Errorf("%s: %s is %s, which is not allowed", m.path, l.file, cmp.Or(l.name, "of a kind that is not known here"))
		}
	}
	return nil
}

// text is what goes with the program.
func text(modules []module) []byte {
	var b bytes.Buffer
	b.WriteString("ocr-proxy contains the software below, each under the licence that follows its name.\n")
	for _, m := range modules {
		for _, l := range m.texts {
			fmt.Fprintf(&b, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("=", 80), m.path, m.version, filepath.ToSlash(l.file), strings.TrimSpace(strings.ReplaceAll(l.text, "\r\n", "\n")))
		}
	}
	return b.Bytes()
}
