package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strings"
	"unicode"
)

const (
	redacted       = "[redacted]"
	maxSecretBytes = 64 << 10
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Secret is a credential. However it is printed or marshaled it shows a placeholder; only Reveal gives the value. The
// zero value is an empty secret, which ReadSecretFile and ReadSecretEnv never return without an error.
type Secret string

// Reveal returns the value, for the one place that sends it.
func (s Secret) Reveal() string { return string(s) }

// String returns a placeholder.
func (s Secret) String() string { return redacted }

// GoString returns a placeholder.
func (s Secret) GoString() string { return redacted }

// Format writes a placeholder whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns a placeholder; encoding/json uses it too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalYAML returns a placeholder.
func (s Secret) MarshalYAML() (any, error) { return redacted, nil }

// MaskedURL is an address that may carry a credential in its user part, path or query. Printed or marshaled it shows
// scheme and host only; Reveal gives all of it. The zero value means no address.
type MaskedURL string

// Reveal returns the whole address, for the one place that dials it.
func (u MaskedURL) Reveal() string { return string(u) }

// String returns scheme and host, a placeholder if there is no telling them, or nothing for the zero value.
func (u MaskedURL) String() string {
	if u == "" {
		return ""
	}
	parsed, err := url.Parse(string(u))
	if err != nil || parsed.Scheme == "" || parsed.Host == "" {
		return redacted
	}
	return parsed.Scheme + "://" + parsed.Host
}

// GoString returns the same as String.
func (u MaskedURL) GoString() string { return u.String() }

// Format writes the same as String whatever the verb.
func (u MaskedURL) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// MarshalText returns the same as String; encoding/json uses it too.
func (u MaskedURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// MarshalYAML returns the same as String.
func (u MaskedURL) MarshalYAML() (any, error) { return u.String(), nil }

// ReadSecretFile reads a credential from a file of at most 64 KiB and trims white space around it. The error is an
// *InvalidError that names the setting key and the path, never the value: for a file that is missing, unreadable, too
// large or empty, and for a value with a control character inside, which is what two keys in one file look like.
func ReadSecretFile(key, path string) (Secret, error) {
	f, err := os.Open(path) //nolint:gosec // The operator names the file.
	if err != nil {
		return "", invalid(key, "cannot read the file %q: %v", path, reason(err))
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err != nil {
		return "", invalid(key, "cannot read the file %q: %v", path, reason(err))
	}
	if len(data) > maxSecretBytes {
		return "", invalid(key, "the file %q is larger than 64 KiB, which no key is; name the file that holds the key alone", path)
	}
	return clean(key, fmt.Sprintf("the file %q", path), string(data))
}

// ReadSecretEnv takes a credential from the variable of that name in environ ("NAME=value") and trims white space around
// it. The error is an *InvalidError that names the setting key and the variable, never the value. A name that cannot be
// one is not repeated, because a key pasted in its place is the usual reason.
func ReadSecretEnv(key, name string, environ []string) (Secret, error) {
	if !variableName.MatchString(name) {
		return "", invalid(key, "must be the name of an environment variable (letters, digits and underscores), not the key itself")
	}
	text, ok := environment(environ).lookup(name)
	if !ok {
		return "", invalid(key, "the environment variable %s is not set", name)
	}
	return clean(key, "the environment variable "+name, text)
}

func clean(key, source, text string) (Secret, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", invalid(key, "%s is empty; put the key there", source)
	case strings.ContainsFunc(text, unicode.IsControl):
		return "", invalid(key, "%s holds a line break or another control character inside the key; it must hold one key and nothing else", source)
	}
	return Secret(text), nil
}

// reason strips the operation and path from a file error: our own sentence names the path already.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
