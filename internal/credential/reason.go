package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"golang.org/x/oauth2"
)

// maxReason bounds what is told of an error, in bytes.
const maxReason = 400

// reason tells an error of a cloud's library in one line. These libraries put whole answers of token services, outputs of credential programs
// and lines of credential files into their texts, and whoever holds such an error may write it down. So it is a text that comes out and no
// error that could be unwrapped: of an answer its status and error code, of everything else what is left without what looks like a secret.
func reason(err error) string {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok && e.Response != nil {
		return answered(e.Response.StatusCode, e.Body)
	}
	if e, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok && e.RawResponse != nil {
		body, _ := runtime.Payload(e.RawResponse) // kept in memory by the library
		return answered(e.RawResponse.StatusCode, body)
	}
	text := err.Error()
	if e, ok := errors.AsType[*url.Error](err); ok {
		text = strings.ReplaceAll(text, e.Error(), e.Op+" "+hostOf(e.URL)+": "+e.Err.Error()) // a query may hold a credential
	}
	return harmless(text)
}

// answered tells an error answer of a token service by its status and the code that RFC 6749 gives it.
func answered(status int, body []byte) string {
	var told struct {
		Code string `json:"error"`
	}
	_ = json.Unmarshal(body, &told) // a page of HTML has no code
	text := fmt.Sprintf("the token service answered %d %s", status, http.StatusText(status))
	if told.Code == "" {
		return text
	}
	return text + " (" + harmless(told.Code) + ")"
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	return u.Host
}

// word is what a secret can be a part of: keys, signatures and the parts of a JWT have no other characters.
var word = regexp.MustCompile(`[A-Za-z0-9+/=_-]{20,}`)

// harmless makes one line of a text, without structured data and without words that look like a secret.
func harmless(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "{") // an answer or a file, whatever its form
		if line = strings.TrimSpace(line); line != "" {
			kept = append(kept, line)
		}
	}
	text = word.ReplaceAllStringFunc(strings.Join(kept, " "), redact)
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}

// redact replaces a word that looks like a secret. A path is looked at piece by piece.
func redact(s string) string {
	if !strings.HasPrefix(s, "/") {
		if secretive(s) {
			return "[redacted]"
		}
		return s
	}
	pieces := strings.Split(s, "/")
	for i, piece := range pieces {
		if piece != "" {
			pieces[i] = word.ReplaceAllStringFunc(piece, redact)
		}
	}
	return strings.Join(pieces, "/")
}

// secretive reports whether a long word is more like a secret than like a path, a name or an id.
func secretive(s string) bool {
	const lower, upper, digits = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	mixed := strings.ContainsAny(s, lower) && strings.ContainsAny(s, upper) && strings.ContainsAny(s, digits)
	return mixed || len(s) >= 32 && strings.ContainsAny(s, digits) && !strings.ContainsAny(s, "/-")
}
