package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

const variablePrefix = "OCR_PROXY_"

// environment is a list of "NAME=value", as os.Environ returns it.
type environment []string

// lookup returns the last value of a name, as a process started with such a list would see it.
func (e environment) lookup(name string) (value string, ok bool) {
	for _, entry := range slices.Backward(e) {
		if rest, found := strings.CutPrefix(entry, name+"="); found {
			return rest, true
		}
	}
	return "", false
}

// setting is a scalar outside lists, which a variable can give.
type setting struct {
	path string
	typ  reflect.Type
}

func variable(path string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// overrides reads the settings that the environment gives, by path. A variable that starts like a section but names no
// setting is a mistake; any other is none of ours.
func (e environment) overrides(found *problems) map[string]any {
	settings := map[string]setting{}
	collectSettings(reflect.TypeFor[Config](), "", settings)
	known := slices.Sorted(maps.Keys(settings))

	values := map[string]any{}
	for _, name := range e.sectionVariables() {
		s, ok := settings[name]
		if !ok {
			if strings.HasPrefix(name, variable("providers")) {
				found.add(name, "providers cannot be set by the environment; set it in the file")
			} else {
				found.add(name, "names no setting that the environment can give; %s", variableSuggestion(name, known))
			}
			continue
		}
		text, _ := e.lookup(name)
		v, err := parseScalar(text, s.typ)
		if err != nil {
			found.add(name, "%s %v", s.path, err)
			continue
		}
		values[s.path] = v
	}
	return values
}

// sectionVariables returns the names of the variables whose first words are a top-level key, each once, in order.
func (e environment) sectionVariables() []string {
	var names []string
	for _, entry := range e {
		name, _, _ := strings.Cut(entry, "=")
		for _, f := range fields(reflect.TypeFor[Config]()) {
			section := variable(f.key)
			if name == section || strings.HasPrefix(name, section+"_") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func collectSettings(section reflect.Type, path string, into map[string]setting) {
	for _, f := range fields(section) {
		at := join(path, f.key)
		switch {
		case f.typ.Kind() == reflect.Struct:
			collectSettings(f.typ, at, into)
		case isScalar(f.typ):
			into[variable(at)] = setting{at, f.typ}
		}
	}
}

// variableSuggestion does not list all settings when none is near: there are too many.
func variableSuggestion(name string, known []string) string {
	if s := suggestion(name, known); strings.HasPrefix(s, "did you mean") {
		return s
	}
	return "set it in the file, or remove the variable"
}
