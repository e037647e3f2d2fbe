// Package scrub keeps credentials out of everything that is written down: it knows the names under which they travel, cuts them out of
// queries and forms, and replaces their values in free text.
package scrub

import "strings"

// Param reports whether a query parameter, a form field or a JSON member of that name carries a credential. Case does not matter.
func Param(name string) bool {
	switch strings.ToLower(name) {
	case "key", "sig", "code", "subscription-key", "api_key", "apikey", "api-key", "token", "access_token", "password", "secret",
		"x-amz-signature", "x-amz-credential", "x-amz-security-token", "app_key", "client_secret":
		return true
	}
	return false
}

// Header reports whether a request header of that name carries a credential or a part of one.
func Header(name string) bool {
	n := strings.TrimSuffix(strings.ToLower(name), "-bin") // how gRPC names metadata that is bytes
	switch n {
	case "idempotency-key", "x-amz-target":
		return false
	case "cookie", "set-cookie", "app_id", "x-amz-date", "x-amz-content-sha256":
		return true
	}
	if strings.HasSuffix(n, "key") {
		return true // x-api-key, ocp-apim-subscription-key, apikey, app_key and their many relatives
	}
	for _, word := range [...]string{
		"auth", "token", "secret", "pass", "credential", "session", "bearer", "jwt", "assertion", "cert", "-sig", "-sas", "-code", "-iam",
	} {
		if strings.Contains(n, word) {
			return true
		}
	}
	return false
}

// Kept reports whether a request header may be written into a dead letter: it says something about the call, and neither who made it nor
// which hop it came through. The list is one of what is allowed; what nobody thought of is left out.
func Kept(name string) bool {
	n := strings.ToLower(name)
	if Header(n) || strings.HasPrefix(n, "x-forwarded-") || n == "x-real-ip" || strings.HasPrefix(n, "ocr-proxy-") {
		return false
	}
	switch n {
	case "content-type", "content-encoding", "content-language", "content-disposition", "accept", "accept-language", "user-agent",
		"grpc-encoding", "prefer", "range", "if-match", "if-none-match", "idempotency-key", "amz-sdk-invocation-id", "traceparent", "tracestate":
		return true
	}
	return strings.HasPrefix(n, "x-") || strings.HasPrefix(n, "openai-") || strings.HasPrefix(n, "ms-")
}
