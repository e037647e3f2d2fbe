package scrub

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Redacted stands where a credential was.
const Redacted = "[redacted]"

// Query cuts the credentials out of a raw query and returns the names of those that were in it; all else stays byte for byte.
func Query(raw string) (clean string, cut []string) {
	if raw == "" {
		return "", nil
	}
	var kept strings.Builder
	for rest := raw; rest != ""; {
		end := strings.IndexAny(rest, "&;")
		pair, separator := rest, ""
		if end >= 0 {
			pair, separator, rest = rest[:end], rest[end:end+1], rest[end+1:]
		} else {
			rest = ""
		}
		name := paramName(pair)
		if Param(name) {
			cut = append(cut, name)
			continue
		}
		kept.WriteString(pair + separator)
	}
	if len(cut) == 0 {
		return raw, nil
	}
	return strings.TrimRight(kept.String(), "&;"), cut
}

// Location cuts the credentials out of a URL's query and leaves an address that can be followed.
func Location(raw string) string {
	before, query, ok := strings.Cut(raw, "?")
	if !ok {
		return raw
	}
	if query, _ = Query(query); query == "" {
		return before
	}
	return before + "?" + query
}

// Credentials are the credential parameters of a raw query, each with its value as it was written.
func Credentials(raw string) []string {
	var pairs []string
	for pair := range strings.FieldsFuncSeq(raw, func(r rune) bool { return r == '&' || r == ';' }) {
		if Param(paramName(pair)) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

func paramName(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	if plain, err := url.QueryUnescape(name); err == nil {
		return plain
	}
	return name
}

// Values collects the credentials of a request, so that they can be found again in a text that echoes them. headers names further headers
// that carry one for this account.
type Values struct{ secrets []string }

// minSecret is the length from which on a value is taken for a secret: replacing "a" everywhere would only make texts unreadable.
const minSecret = 6

// FromRequest collects the credentials in a request's headers and query.
func FromRequest(h http.Header, rawQuery string, headers ...string) *Values {
	v := &Values{}
	for name, values := range h {
		if !Header(name) && !slices.ContainsFunc(headers, func(s string) bool { return strings.EqualFold(s, name) }) {
			continue
		}
		for _, value := range values {
			v.Add(value)
			if _, token, ok := strings.Cut(value, " "); ok {
				v.Add(token) // "Bearer …": a text may echo only the second word
			}
		}
	}
	for _, pair := range Credentials(rawQuery) {
		_, value, _ := strings.Cut(pair, "=")
		v.Add(value)
		if plain, err := url.QueryUnescape(value); err == nil {
			v.Add(plain)
		}
	}
	return v
}

// Add adds one more secret.
func (v *Values) Add(secret string) {
	if secret = strings.TrimSpace(secret); len(secret) >= minSecret && !slices.Contains(v.secrets, secret) {
		v.secrets = append(v.secrets, secret)
	}
}

// Text replaces every collected secret in a text, and takes userinfo and credential parameters out of every URL in it.
func (v *Values) Text(text string) string {
	slices.SortFunc(v.secrets, func(a, b string) int { return len(b) - len(a) }) // one may begin with another
	for _, s := range v.secrets {
		text = strings.ReplaceAll(text, s, Redacted)
	}
	return urls(v.tail(text))
}

// tail takes the beginning of a secret from the end of a text, which may have been cut off in the middle of one.
func (v *Values) tail(text string) string {
	for _, s := range v.secrets {
		for n := min(len(s)-1, len(text)); n >= minSecret; n-- {
			if strings.HasSuffix(text, s[:n]) {
				return text[:len(text)-n] + Redacted
			}
		}
	}
	return text
}

// urls cleans the URLs in a text.
func urls(text string) string {
	var out strings.Builder
	for {
		at := strings.Index(text, "://")
		if at < 0 {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:at+3])
		text = text[at+3:]
		end := strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"'<>\^|{}`+"`", r) })
		if end < 0 {
			end = len(text)
		}
		rest := text[:end]
		text = text[end:]
		authority, path := rest, ""
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			authority, path = rest[:i], rest[i:]
		}
		if i := strings.LastIndexByte(authority, '@'); i >= 0 {
			authority = Redacted + authority[i:]
		}
		out.WriteString(authority)
		if before, query, ok := strings.Cut(path, "?"); ok {
			query, fragment, hasFragment := strings.Cut(query, "#")
			clean, cut := Query(query)
			out.WriteString(before + "?" + clean)
			if len(cut) > 0 {
				out.WriteString(Redacted)
			}
			if hasFragment {
				out.WriteString("#" + fragment)
			}
		} else {
			out.WriteString(path)
		}
	}
}
