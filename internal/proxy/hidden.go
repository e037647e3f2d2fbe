package proxy

import "github.com/ocr-proxy/ocr-proxy/internal/scrub"

// secrets are the credentials that the request and the last attempt at each account carried, the proxy's own among them, for texts that may echo
// one: AWS answers a bad signature with everything that was signed, the session token included. They are collected when something first asks,
// which is after the last attempt.
func (x *exchange) secrets() *scrub.Values {
	if x.hidden != nil {
		return x.hidden
	}
	carried := x.in.Header
	for _, sent := range append(x.sentTo, x.sent) {
		if sent == nil {
			continue
		}
		both := carried.Clone()
		for name, values := range sent {
			both[name] = append(both[name], values...)
		}
		carried = both
	}
	x.hidden = scrub.FromRequest(carried, x.in.URL.RawQuery, x.credentialHeaders()...)
	return x.hidden
}
