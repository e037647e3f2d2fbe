package config

import (
	"net/textproto"
	"slices"
	"strings"
)

// idempotency checks the header of kinds that know no token of their own.
func (s scope) idempotency(p Provider) {
	const key = "idempotency_header"
	name := textproto.CanonicalMIMEHeaderKey(p.IdempotencyHeader)
	switch {
	case name == "":
		s.need(p.IdempotencyQuoted || p.Kind == "generic", "idempotency_quoted", "has no effect on other kinds than generic; remove it")
	case p.Kind != "generic":
		s.report(key, "has no effect on kind %s, whose calls the proxy knows; remove it", p.Kind)
	case !token.MatchString(name):
		s.report(key, "is not a valid header name")
	case slices.Contains(framingHeaders(), name), strings.HasPrefix(name, "Ocr-Proxy-"), strings.HasPrefix(name, "Content-"):
		s.report(key, "cannot carry a token, because this header has a meaning of its own")
	case name == "Authorization", strings.EqualFold(name, p.Auth.Header):
		s.report(key, "cannot carry a token, because this header carries the credential")
	}
}
