package classify

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Body is an error's body read leniently: providers and the gateways before them send objects, lists, strings, numbers and pages of HTML
// where an error is promised, and none of that may surprise anybody.
type Body struct{ value any }

// ReadBody reads the JSON value at the beginning of an error's body; what is no JSON gives an empty Body.
func ReadBody(data []byte) Body {
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return Body{}
	}
	return Body{v}
}

// At goes down by object keys; a list on the way stands for its first element. A missing step gives an empty Body.
func (b Body) At(keys ...string) Body {
	v := b.value
	for _, k := range keys {
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		object, ok := v.(map[string]any)
		if !ok {
			return Body{}
		}
		v = object[k]
	}
	return Body{v}
}

// Each returns the elements of a list, and nothing for any other value.
func (b Body) Each() []Body {
	list, _ := b.value.([]any)
	all := make([]Body, 0, len(list))
	for _, v := range list {
		all = append(all, Body{v})
	}
	return all
}

// Text is the value as a word: a string, or a number as it was written, or the first such element of a list; "" for all else.
func (b Body) Text() string {
	switch v := b.value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case []any:
		if len(v) > 0 {
			return Body{v[0]}.Text()
		}
	}
	return ""
}

// True reports whether the value is true, as a boolean or as the word.
func (b Body) True() bool {
	switch v := b.value.(type) {
	case bool:
		return v
	case string:
		return strings.EqualFold(v, "true")
	}
	return false
}

// Int is the value as a whole number, also when it is written as a string.
func (b Body) Int() (int, bool) {
	n, err := strconv.Atoi(b.Text())
	return n, err == nil
}

// maxMessage bounds what is kept of a provider's sentence, in bytes.
const maxMessage = 1000

// First is the first text that is not empty.
func First(texts ...string) string {
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" {
			return Shorten(t, maxMessage)
		}
	}
	return ""
}

// Shorten cuts a text to at most limit bytes at a character's boundary.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// Codes drops the empty ones, and those that are bytes without a character at which they could be cut short.
func Codes(codes ...string) []string {
	var all []string
	for _, c := range codes {
		if c = Shorten(c, 128); c != "" {
			all = append(all, c)
		}
	}
	return all
}
