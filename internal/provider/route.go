package provider

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// route recognises one operation by its method and the end of its path, so that a prefix that a gateway puts in front does not matter.
// The pattern's segments are compared without regard to case; "*" stands for a whole segment and "*:process" for one with that ending.
type route struct {
	method  string
	pattern string
	Operation
}

// operations are the names that the routes give, each once.
func operations(routes []route) []string {
	var all []string
	for _, known := range routes {
		if !slices.Contains(all, known.Name) {
			all = append(all, known.Name)
		}
	}
	return all
}

// recogniser names calls by the first route that fits; what fits none is Other.
func recogniser(routes []route) func(r *http.Request) Operation {
	patterns := make([][]string, len(routes))
	for i, known := range routes {
		patterns[i] = strings.Split(known.pattern, "/")
	}
	return func(r *http.Request) Operation {
		path := segments(r.URL.EscapedPath())
		for i, known := range routes {
			if known.method == r.Method && endsWith(path, patterns[i]) {
				return known.Operation
			}
		}
		return other(r.Method)
	}
}

// segments splits before it unescapes, so that an escaped slash stays inside its segment. Empty segments are left out.
func segments(escaped string) []string {
	all := strings.Split(escaped, "/")
	all = slices.DeleteFunc(all, func(s string) bool { return s == "" })
	for i, s := range all {
		if plain, err := url.PathUnescape(s); err == nil {
			all[i] = plain
		}
	}
	return all
}

func endsWith(path, pattern []string) bool {
	if len(path) < len(pattern) {
		return false
	}
	path = path[len(path)-len(pattern):]
	for i, want := range pattern {
		got := path[i]
		if ending, ok := strings.CutPrefix(want, "*"); ok {
			if len(got) <= len(ending) {
				return false
			}
			got, want = got[len(got)-len(ending):], ending
		}
		if !strings.EqualFold(got, want) {
			return false
		}
	}
	return true
}
