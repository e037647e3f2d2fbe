package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	fileKey      = "config file"
	maxFileBytes = 1 << 20
)

// Read gives the text of the configuration file, at most 1 MiB. Symlinks are followed, as a mounted ConfigMap needs. The
// error is an *InvalidError.
func Read(path string) ([]byte, error) {
	if path == "" {
		return nil, invalid(fileKey, "none is given; name one with --config FILE")
	}
	f, err := os.Open(path) //nolint:gosec // The operator names the file.
	if err != nil {
		return nil, invalid(fileKey, "cannot read %q: %v", path, reason(err))
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, invalid(fileKey, "cannot read %q: %v", path, reason(err))
	}
	if len(text) > maxFileBytes {
		return nil, invalid(fileKey, "%q is larger than 1 MiB, which no configuration is", path)
	}
	return text, nil
}

// readDocument turns YAML into a tree of maps, lists and typed scalars that has known keys only. Whatever does not fit is
// reported under its full key and left out.
func readDocument(text []byte, found *problems) map[string]any {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if !errors.Is(err, io.EOF) {
			found.add(fileKey, "is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		return map[string]any{}
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		found.add(fileKey, "holds more than one YAML document; keep one")
	}
	root := resolve(&document)
	if isNull(root) {
		return map[string]any{}
	}
	if root.Kind != yaml.MappingNode {
		found.add(fileKey, "must be a mapping with keys such as providers")
		return map[string]any{}
	}
	r := reader{found}
	return r.section(root, reflect.TypeFor[Config](), "")
}

// reader walks YAML nodes and the types of the configuration side by side. The types bound its depth, so that an alias
// that refers to itself ends too.
type reader struct {
	found *problems
}

// value reads a node as type t. It returns false when there is nothing to take: a null, or a reported problem.
func (r reader) value(node *yaml.Node, t reflect.Type, path string) (any, bool) {
	node = resolve(node)
	if isNull(node) {
		return nil, false
	}
	want, shape := yaml.ScalarNode, "one value, a "+typeName(t)
	switch {
	case isScalar(t):
	case t.Kind() == reflect.Slice:
		want, shape = yaml.SequenceNode, "a list"
	default:
		want, shape = yaml.MappingNode, "a mapping"
	}
	if node.Kind != want {
		r.found.add(path, "must be %s", shape)
		return nil, false
	}
	switch {
	case isScalar(t):
		v, err := parseScalar(node.Value, t)
		if err != nil {
			r.found.add(path, "%v", err)
		}
		return v, err == nil
	case t.Kind() == reflect.Slice:
		return r.list(node, t.Elem(), path), true
	case t.Kind() == reflect.Map:
		return r.names(node, t.Elem(), path), true
	default:
		return r.section(node, t, path), true
	}
}

// section reads a mapping whose keys are the fields of a struct.
func (r reader) section(node *yaml.Node, t reflect.Type, path string) map[string]any {
	known := map[string]reflect.Type{}
	keys := make([]string, 0, t.NumField())
	for _, f := range fields(t) {
		known[f.key] = f.typ
		keys = append(keys, f.key)
	}
	tree := map[string]any{}
	for key, child := range r.pairs(node, path) {
		at := join(path, key)
		typ, ok := known[key]
		if !ok {
			r.found.add(at, "unknown key; %s", suggestion(key, keys))
			continue
		}
		if v, ok := r.value(child, typ, at); ok {
			tree[key] = v
		}
	}
	return tree
}

// names reads a mapping whose keys are the user's own.
func (r reader) names(node *yaml.Node, elem reflect.Type, path string) map[string]any {
	tree := map[string]any{}
	for name, child := range r.pairs(node, path) {
		if v, ok := r.value(child, elem, join(path, name)); ok {
			tree[name] = v
		}
	}
	return tree
}

// list reads a sequence. An element that does not fit leaves an empty one, so that later messages count right.
func (r reader) list(node *yaml.Node, elem reflect.Type, path string) []any {
	list := make([]any, 0, len(node.Content))
	for i, child := range node.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		v, ok := r.value(child, elem, at)
		if !ok {
			if !r.found.has(at) {
				r.found.add(at, "is empty; remove it or fill it in")
			}
			v = reflect.Zero(elem).Interface()
			if !isScalar(elem) {
				v = map[string]any{}
			}
		}
		list = append(list, v)
	}
	return list
}

// pairs yields a mapping's keys and values in the order of the file, each key once.
func (r reader) pairs(node *yaml.Node, path string) func(yield func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		lines := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := resolve(node.Content[i])
			if key.Kind != yaml.ScalarNode {
				r.found.add(join(path, "?"), "the key in line %d must be plain text", key.Line)
				continue
			}
			if first, ok := lines[key.Value]; ok {
				r.found.add(join(path, key.Value), "is given twice, in lines %d and %d; keep one", first, key.Line)
				continue
			}
			lines[key.Value] = key.Line
			if !yield(key.Value, node.Content[i+1]) {
				return
			}
		}
	}
}

// resolve follows the document node and aliases to what they stand for.
func resolve(node *yaml.Node) *yaml.Node {
	for {
		switch {
		case node.Kind == yaml.DocumentNode && len(node.Content) > 0:
			node = node.Content[0]
		case node.Kind == yaml.AliasNode && node.Alias != nil:
			node = node.Alias
		default:
			return node
		}
	}
}

func isNull(node *yaml.Node) bool {
	return node.Kind == 0 || node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
