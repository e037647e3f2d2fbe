package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
)

// Load reads the file at path, lays the OCR_PROXY_ variables of environ ("NAME=value") over it, applies the defaults and
// the inheritance of provider entries, and checks the result. Whatever is wrong with file, variables or values comes
// back as one *InvalidError that tells all of it. Secret files and variables are read to see that they hold a usable
// key, but no value is kept.
func Load(path string, environ []string) (*Config, error) {
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(text, environ)
}

// LoadWithoutSecrets is Load for a command that reads settings on behalf of a person or a probe and talks to no provider:
// keys, certificates and the accounts' environment may be out of its reach, so it looks at none of them. All else is
// checked as Load does.
func LoadWithoutSecrets(path string, environ []string) (*Config, error) {
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	return parseChecked(text, environ, checker{secretless: true})
}

// Parse is Load for the text of a file that Read gave.
func Parse(text []byte, environ []string) (*Config, error) {
	return parseChecked(text, environ, checker{})
}

func parseChecked(text []byte, environ []string, check checker) (*Config, error) {
	var found problems
	tree := readDocument(text, &found)
	if found.has(fileKey) {
		return nil, found.err() // Anything more would only follow from it.
	}
	overrides := environment(environ).overrides(&found)
	cfg := assemble(tree, overrides, &found)
	cfg.complete(environ)
	check.cfg, check.environ, check.found = cfg, environ, &found
	check.run()
	found.explain(cfg, overrides)
	if err := found.err(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// Validate checks a configuration that was built in code. Values that depend on others, such as the auth type that goes
// with a kind, must be filled in. environ ("NAME=value") is where secret variables are looked up. The error is an
// *InvalidError that tells everything that is wrong.
func (c *Config) Validate(environ []string) error {
	var found problems
	check := checker{cfg: c, environ: environ, found: &found}
	check.run()
	found.explain(c, nil)
	return found.err()
}

// keySeparator joins keys to viper's paths. A dot would split names such as a field called Total.Amount.
const keySeparator = "\x1f"

// layers is what viper is used for: values over values, mappings merged key by key. It folds the keys of mappings to
// lower case, which is why operations, document types and fields are compared without case, and why the list of
// providers, with its names and its lists of accounts, never goes through it.
func layers(weakestFirst ...map[string]any) *viper.Viper {
	v := viper.NewWithOptions(viper.KeyDelimiter(keySeparator))
	for _, layer := range weakestFirst {
		_ = v.MergeConfigMap(layer) // It always returns nil.
	}
	return v
}

// assemble decodes the tree of the file and the variables' values over the defaults.
func assemble(tree, overrides map[string]any, found *problems) *Config {
	entries, _ := tree["providers"].([]any)
	delete(tree, "providers")
	reportFolded(tree, "", found)

	top := layers(tree)
	for path, value := range overrides {
		top.Set(strings.ReplaceAll(path, ".", keySeparator), value)
	}
	cfg := Default()
	decode(top.AllSettings(), cfg, found)

	for i, e := range entries {
		entry, _ := e.(map[string]any)
		own := map[string]any{}
		for _, section := range inheritedSections() {
			if values, ok := entry[section]; ok {
				own[section] = values
			}
		}
		reportFolded(own, fmt.Sprintf("providers[%d]", i), found)

		// AllSettings builds new maps each time, so entries cannot reach into each other's.
		merged := layers(top.AllSettings(), own)
		for _, section := range inheritedSections() {
			entry[section] = merged.Get(section)
		}
		p := defaultProvider()
		decode(entry, &p, found)
		cfg.Providers = append(cfg.Providers, p)
	}
	return cfg
}

// decode fills target, which holds the defaults. The tree holds known keys and typed values only, so an error here is a
// mistake of this package; it is reported all the same.
func decode(tree map[string]any, target any, found *problems) {
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{Result: target, ErrorUnused: true})
	if err == nil {
		err = decoder.Decode(tree)
	}
	if err != nil {
		found.add(fileKey, "%v", err)
	}
}

// reportFolded finds keys that differ in case only and would be merged without a word. The settings' own keys never do.
func reportFolded(tree map[string]any, path string, found *problems) {
	folded := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		at, value := join(path, key), tree[key]
		if folded[strings.ToLower(key)] {
			found.add(join(path, strings.ToLower(key)), "is given twice, and names here are compared without case; keep one")
		}
		folded[strings.ToLower(key)] = true
		if section, ok := value.(map[string]any); ok {
			reportFolded(section, at, found)
		}
	}
}
