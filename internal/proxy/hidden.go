package proxy

import "github.com/ocr-proxy/ocr-proxy/internal/scrub"

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
	x.hidden = scrub.FromRequest(carried, x.in.URL.RawQuery, x.credential.Headers()...)
	return x.hidden
}
