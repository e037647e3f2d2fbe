package config

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML returns the effective configuration in the form of a configuration file: durations as 90s, sizes as 512MiB,
// addresses that may hold a credential cut to scheme and host, and every provider entry with what it inherited.
func (c *Config) YAML() ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(node(reflect.ValueOf(*c))); err != nil {
		return nil, fmt.Errorf("write the configuration as YAML: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("write the configuration as YAML: %w", err)
	}
	return out.Bytes(), nil
}

// node writes a value in the order of its type's fields. Optional keys that are empty are left out.
func node(v reflect.Value) *yaml.Node {
	if isScalar(v.Type()) {
		return scalarNode(v)
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	switch v.Kind() { //nolint:exhaustive // isScalar answered for the other kinds.
	case reflect.Slice:
		n.Kind = yaml.SequenceNode
		for i := range v.Len() {
			n.Content = append(n.Content, node(v.Index(i)))
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			n.Content = append(n.Content, scalarNode(key), node(v.MapIndex(key)))
		}
	default:
		for _, f := range fields(v.Type()) {
			value := v.Field(f.index)
			if value.Kind() == reflect.Pointer {
				if value.IsNil() {
					continue
				}
				value = value.Elem()
			}
			if f.omitEmpty && isEmpty(value) {
				continue
			}
			n.Content = append(n.Content, scalarNode(reflect.ValueOf(f.key)), node(value))
		}
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle // {} and [] instead of nothing.
	}
	return n
}

func scalarNode(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: formatScalar(v)}
	if v.Kind() == reflect.String {
		n.Tag = "!!str" // Quoted where it would read as something else.
	}
	return n
}
