package config

import (
	"cmp"
	"reflect"
)

// Key describes one setting for documentation.
type Key struct {
	Path    string // Full key, such as retry.max_attempts or providers[].kind.
	Type    string // duration, size, text, number, whole number, true or false, list or mapping.
	Default string // As written in a file. Empty for an empty text, list or mapping, and for what has no default.
	Doc     string // Meaning, unit, range and what zero does.
	Reload  string // What becomes of a change while the proxy runs: Live or Restart.
}

// Reference lists every setting in the order of the file. The sections that a provider entry inherits are one row each
// there, and the fields of a list's elements follow under the list's name with [].
func Reference() []Key {
	return append(
		referenceSection(reflect.ValueOf(*Default()), "", ""),
		referenceSection(reflect.ValueOf(defaultProvider()), "providers[]", Live)...)
}

func referenceSection(section reflect.Value, path, reload string) []Key {
	var rows []Key
	for _, f := range fields(section.Type()) {
		at, value, reload := join(path, f.key), section.Field(f.index), cmp.Or(f.reload, reload)
		switch {
		case f.inherited:
			rows = append(rows, Key{Path: at, Type: typeName(f.typ), Reload: reload, Doc: "Overrides keys of " + f.key + " for this account."})
		case f.typ == reflect.TypeFor[[]Provider]():
			// Its rows need the defaults of an entry and come last.
		case f.typ == reflect.TypeFor[[]Rule]():
			rows = append(rows, Key{Path: at, Type: typeName(f.typ), Reload: reload, Doc: f.doc})
			rows = append(rows, referenceSection(reflect.ValueOf(Rule{}), at+"[]", reload)...)
		case f.typ.Kind() == reflect.Struct:
			rows = append(rows, referenceSection(value, at, reload)...)
		case isScalar(f.typ):
			rows = append(rows, Key{Path: at, Type: typeName(f.typ), Default: formatScalar(value), Reload: reload, Doc: f.doc})
		default:
			rows = append(rows, Key{Path: at, Type: typeName(f.typ), Reload: reload, Doc: f.doc})
		}
	}
	return rows
}
