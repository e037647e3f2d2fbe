package config

import (
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// field is one key of a section, as its struct declares it.
type field struct {
	key       string
	doc       string
	omitEmpty bool
	inherited bool
	reload    string // whether a change of it, or of what is in it, needs a restart; "": what is said of the section, or within
	index     int
	typ       reflect.Type
}

// fields lists the keys of a section in the order in which they are documented.
func fields(section reflect.Type) []field {
	list := make([]field, 0, section.NumField())
	for i := range section.NumField() {
		f := section.Field(i)
		key, option, _ := strings.Cut(f.Tag.Get("mapstructure"), ",")
		typ := f.Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		list = append(list, field{
			key: key, doc: f.Tag.Get("doc"), omitEmpty: option == "omitempty", inherited: f.Tag.Get("inherit") != "",
			reload: f.Tag.Get("reload"), index: i, typ: typ,
		})
	}
	return list
}

// inheritedSections names the sections whose top-level values every provider entry starts from.
func inheritedSections() []string {
	var names []string
	for _, f := range fields(reflect.TypeFor[Provider]()) {
		if f.inherited {
			names = append(names, f.key)
		}
	}
	return names
}

func isScalar(t reflect.Type) bool {
	kind := t.Kind()
	return kind != reflect.Struct && kind != reflect.Map && kind != reflect.Slice
}

// isEmpty tells whether nothing is given: a zero value, a list or mapping without elements, a section of such.
func isEmpty(v reflect.Value) bool {
	switch {
	case isScalar(v.Type()):
		return v.IsZero()
	case v.Kind() == reflect.Struct:
		for _, field := range v.Fields() {
			if !isEmpty(field) {
				return false
			}
		}
		return true
	default:
		return v.Len() == 0
	}
}

// parseScalar reads a value as the file or the environment spells it, so that both follow the same rules. The error says
// what the value must be, and repeats no value that could be a secret.
func parseScalar(text string, t reflect.Type) (any, error) {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return parseDuration(text)
	case t == reflect.TypeFor[Size]():
		return parseSize(text)
	case t.Kind() == reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, errors.New("must be a whole number")
		}
		return n, nil
	case t.Kind() == reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, errors.New("must be a number")
		}
		return n, nil
	case t.Kind() == reflect.Bool:
		switch strings.ToLower(text) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, errors.New("must be true or false")
	default:
		return text, nil
	}
}

// formatScalar writes a value so that parseScalar reads it back, except that a MaskedURL stays masked.
func formatScalar(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		return formatDuration(value)
	case Size:
		return value.String()
	case MaskedURL:
		return value.String()
	case int:
		return strconv.Itoa(value)
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(value)
	default:
		return v.String()
	}
}

// typeName names a type in words for users.
func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t == reflect.TypeFor[Size]():
		return "size"
	case t.Kind() == reflect.Int:
		return "whole number"
	case t.Kind() == reflect.Float64:
		return "number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.Map, t.Kind() == reflect.Struct:
		return "mapping"
	default:
		return "text"
	}
}
