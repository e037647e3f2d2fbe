package provider

import "github.com/ocr-proxy/ocr-proxy/internal/jsonstream"

// words are the strings and numbers at a path, as text, in the order of the answer.
func words(v jsonstream.Found, path string) []string {
	var all []string
	for _, value := range v[path] {
		if value.Type == jsonstream.String || value.Type == jsonstream.Number {
			all = append(all, value.Text)
		}
	}
	return all
}

// word is the first string or number at a path, or "".
func word(v jsonstream.Found, path string) string {
	if all := words(v, path); len(all) > 0 {
		return all[0]
	}
	return ""
}

// isTrue reports whether a path holds true.
func isTrue(v jsonstream.Found, path string) bool {
	value, _ := v.Bool(path)
	return value
}
