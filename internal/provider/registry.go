package provider

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
)

// All describes every kind, in the order in which the documentation lists them. A new kind is one more line.
func All() []*Provider {
	return []*Provider{
		textract(),
		azure(),
		documentai(),
		vision(),
		mistral(),
		ocrspace(),
		openai(),
		tika(),
		generic(),
	}
}

// Find returns the description of a kind.
func Find(kind string) (*Provider, error) {
	var known []string
	for _, p := range All() {
		if p.Name == kind {
			return p, nil
		}
		known = append(known, p.Name)
	}
	return nil, fmt.Errorf("no provider kind is called %q; it is one of %s", kind, strings.Join(known, ", "))
}

func names(operations []Operation) []string {
	all := make([]string, 0, len(operations))
	for _, op := range operations {
		all = append(all, op.Name)
	}
	return all
}

// find looks an operation up by name; an unknown one is Other.
func find(operations []Operation, name, method string) Operation {
	if i := slices.IndexFunc(operations, func(op Operation) bool { return op.Name == name }); i >= 0 {
		return operations[i]
	}
	return other(method)
}

// codes are rows that decide by a code alone.
func codes(class classify.Class, list ...string) classify.Table {
	var t classify.Table
	for _, code := range list {
		t = append(t, classify.Row{Code: code, Class: class})
	}
	return t
}
