package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// parse reads the Dockerfile of a folder with the parser and the lint rules of BuildKit. A warning is an error.
func parse(root string) (builds, final instructions.Stage, err error) {
	file, err := os.Open(filepath.Join(root, "Dockerfile")) //nolint:gosec // reading the project is what this program is for
	if err != nil {
		return builds, final, err
	}
	defer func() { _ = file.Close() }()
	tree, err := parser.Parse(file)
	if err != nil {
		return builds, final, err
	}
	var warnings []error
	for _, w := range tree.Warnings {
		warnings = append(warnings, errors.New(w.Short))
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, text string, at []parser.Range) {
		line := 0
		if len(at) > 0 {
			line = at[0].Start.Line
		}
		warnings = append(warnings, fmt.Errorf("line %d of the Dockerfile: %s: %s", line, rule, text))
	}})
	stages, global, err := instructions.Parse(tree.AST, lint)
	if err := errors.Join(append(warnings, err)...); err != nil {
		return builds, final, err
	}
	if len(stages) != 2 || len(global) != 0 || stages[0].Name != "build" || stages[1].BaseName != "scratch" {
		return builds, final, errors.New("the Dockerfile is expected to have two stages, build and one from scratch, and no argument before them")
	}
	return stages[0], stages[1], nil
}
