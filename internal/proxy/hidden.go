package proxy

import (
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"

	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

// maxFormSecret bounds what is read of one credential in a form, in bytes.
const maxFormSecret = 4 << 10

// secrets are the credentials that the request and its last attempt carried, the proxy's own among them, for texts that may echo one: AWS
// answers a bad signature with everything that was signed, the session token included. They are collected when something first asks, which is
// after the last attempt.
func (x *exchange) secrets() *scrub.Values {
	if x.hidden != nil {
		return x.hidden
	}
	carried := x.in.Header
	if x.sent != nil {
		carried = carried.Clone()
		for name, values := range x.sent {
			carried[name] = append(carried[name], values...)
		}
	}
	x.hidden = scrub.FromRequest(carried, x.in.URL.RawQuery, x.account.Credential.Headers()...)
	return x.hidden
}

// hideForm adds the credentials in a form to the secrets. What cannot be read as a form has none that anybody could have used.
func (x *exchange) hideForm(contentType string, form io.Reader) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return
	}
	if media != "multipart/form-data" {
		data, err := io.ReadAll(form)
		if err != nil {
			return
		}
		for _, pair := range scrub.Credentials(string(data)) {
			_, value, _ := strings.Cut(pair, "=")
			x.secrets().Add(value)
			if plain, err := url.QueryUnescape(value); err == nil {
				x.secrets().Add(plain)
			}
		}
		return
	}
	parts := multipart.NewReader(form, params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if err != nil {
			return
		}
		if !scrub.Param(part.FormName()) {
			continue
		}
		if value, err := io.ReadAll(io.LimitReader(part, maxFormSecret)); err == nil {
			x.secrets().Add(string(value))
		}
	}
}
