package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Problem is one mistake in the configuration.
type Problem struct {
	Key     string // The full key, such as providers[1].upstream, the environment variable, or "config file".
	Message string // What is wrong and what to do. Never holds a secret.
}

// InvalidError is every mistake that was found in a configuration. It has at least one Problem.
type InvalidError struct {
	Problems []Problem
}

// Error returns one problem a line, each with its key.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = strings.ReplaceAll(p.Key+": "+p.Message, "\n", " ")
	}
	return strings.Join(lines, "\n")
}

func invalid(key, format string, args ...any) *InvalidError {
	return &InvalidError{Problems: []Problem{{Key: key, Message: fmt.Sprintf(format, args...)}}}
}

// problems collects mistakes so that all of them can be told at once.
type problems []Problem

func (p *problems) add(key, format string, args ...any) {
	*p = append(*p, Problem{Key: key, Message: fmt.Sprintf(format, args...)})
}

// has tells whether the key, or a section it lies in, has a problem already. What follows from a reported mistake is
// not worth a second line.
func (p *problems) has(key string) bool {
	for _, known := range *p {
		if rest, ok := strings.CutPrefix(key, known.Key); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// explain adds to each problem where its value comes from: the account whose entry it is in, by name, or the environment
// variable that set it.
func (p *problems) explain(cfg *Config, overrides map[string]any) {
	for i := range *p {
		problem := &(*p)[i]
		if _, ok := overrides[problem.Key]; ok {
			problem.Message += " (set by the environment variable " + variable(problem.Key) + ")"
		}
		rest, inside := strings.CutPrefix(problem.Key, "providers[")
		index, _, _ := strings.Cut(rest, "]")
		if n, err := strconv.Atoi(index); inside && err == nil && n >= 0 && n < len(cfg.Providers) && cfg.Providers[n].Name != "" {
			problem.Message = fmt.Sprintf("account %q: %s", cfg.Providers[n].Name, problem.Message)
		}
	}
}

// err returns an *InvalidError, or nil without problems.
func (p *problems) err() error {
	if len(*p) == 0 {
		return nil
	}
	return &InvalidError{Problems: *p}
}
