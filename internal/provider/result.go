package provider

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
)

// Result says where good answers of some operations hold what was read of the whole document, so that it can be seen when there is less than there
// should be.
type Result struct {
	// Operations are those whose answers hold it.
	Operations []string
	// Text are the paths of what was read. One of them that is not empty is enough.
	Text []string
	// Pages are the paths of the objects that stand for pages, each with "{}"; none: answers do not tell how many were read.
	Pages []string
	// SomePages reports whether a call asks for a part of its document only; nil: none can.
	SomePages func(rawQuery string, body io.Reader) bool
	// Asked reports from the request whether text was asked for; nil: it always is.
	Asked func(rawQuery string, request io.Reader) bool
	// Whole reports whether an answer is the end of a job and not one part of several; nil: it always is.
	Whole func(v jsonstream.Found) bool
	// Watch are the paths that Whole looks at.
	Watch []string
}

// Of reports whether an operation's answers hold a result.
func (r *Result) Of(operation string) bool {
	return r != nil && slices.Contains(r.Operations, operation)
}

// Paths are those that have to be watched.
func (r *Result) Paths() []string { return slices.Concat(r.Text, r.Pages, r.Watch) }

// IsText reports whether a value holds any text. What Markdown shows where a page was taken for pictures, ![name](address), is none.
func IsText(v jsonstream.Value) bool {
	if v.Type != jsonstream.String {
		return false
	}
	text := strings.TrimSpace(v.Text)
	for strings.HasPrefix(text, "![") {
		_, address, _ := strings.Cut(text, "](")
		_, rest, picture := strings.Cut(address, ")")
		if !picture {
			break
		}
		text = strings.TrimSpace(rest)
	}
	return text != ""
}

// Structured says how calls ask for output that is JSON, and where the answers hold it.
type Structured struct {
	// Asked are the members of a request, with the words that ask for JSON, and where it is given then.
	Asked []StructuredOutput
}

// StructuredOutput is one way to ask for JSON.
type StructuredOutput struct {
	Path    string
	Words   []string
	Outputs []Output
}

// Output is a place of an answer where there must be JSON.
type Output struct {
	Path   string // of a string
	Item   string // path of the object that holds the string and tells its type; "": none does
	But    string // the type whose string is no output
	Object bool   // the JSON must be an object
}

// jsonObject is the word that asks for any JSON object. A schema may ask for something else, at engines that allow it.
const jsonObject = "json_object"

// WantedOutputs lists where the answer to a request must hold JSON; none: it was not asked for, or the request cannot be read.
func (s *Structured) WantedOutputs(request io.Reader) []Output {
	var paths []string
	var outputs []Output
	for _, way := range s.Asked {
		paths = append(paths, way.Path)
	}
	found, err := jsonstream.Pick(request, paths, maxWord)
	if err != nil {
		return nil
	}
	for _, way := range s.Asked {
		word := found.String(way.Path)
		if !slices.Contains(way.Words, word) {
			continue
		}
		for _, output := range way.Outputs {
			output.Object = word == jsonObject
			outputs = append(outputs, output)
		}
	}
	return outputs
}

const (
	// maxWord bounds the words of a request that are looked at, in bytes.
	maxWord = 64
	// maxOutput bounds the output that is looked at, in bytes. What is longer is taken for what was asked for.
	maxOutput = 8 << 20
)

// Malformed reports whether an answer holds a string where JSON was asked for that is none.
func Malformed(answer io.Reader, outputs []Output) bool {
	var paths []string
	reads := map[string]func(v jsonstream.Value){}
	malformed := false
	for _, output := range outputs {
		if output.Item == "" {
			reads[output.Path] = func(v jsonstream.Value) { malformed = malformed || output.malformed(v) }
			continue
		}
		bad, counts := false, true // of the item that is being read: its type may come after its text
		reads[output.Path] = func(v jsonstream.Value) { bad = bad || output.malformed(v) }
		reads[output.Item+".type"] = func(v jsonstream.Value) { counts = v.Text != output.But }
		reads[output.Item+"{}"] = func(jsonstream.Value) {
			malformed = malformed || bad && counts
			bad, counts = false, true
		}
	}
	for path := range reads {
		paths = append(paths, path)
	}
	err := jsonstream.Each(answer, paths, maxOutput, func(path string, v jsonstream.Value) { reads[path](v) })
	return err == nil && malformed
}

// malformed reports whether a string is not the JSON that it should be. Without a text something else was answered, such as the call of a tool.
func (o Output) malformed(v jsonstream.Value) bool {
	text := strings.TrimSpace(v.Text)
	if v.Type != jsonstream.String || v.Cut || text == "" {
		return false
	}
	return !json.Valid([]byte(text)) || o.Object && text[0] != '{'
}

// chatOutput are the ways to ask for JSON that language models share.
func chatOutput() StructuredOutput {
	return StructuredOutput{
		Path: "response_format.type", Words: []string{jsonObject, "json_schema"},
		Outputs: []Output{{Path: "choices[].message.content"}, {Path: "choices[].message.content[].text"}},
	}
}
