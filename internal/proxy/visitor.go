package proxy

import (
	"encoding/hex"
	"net/http"
)

// visitor refuses who may not use the listener: a browser that a page has sent here, and where tokens are asked for, whoever shows none. A replay has been
// allowed by the admin listener.
func (x *exchange) visitor() *refusal {
	if x.resent != nil {
		return nil
	}
	if fromBrowser(x.in.Header) {
		return &refusal{status: http.StatusForbidden, reason: "browser", message: "this listener is for workers, not for pages in a browser"}
	}
	if x.listener.Clients == nil {
		return nil
	}
	client, ok := x.listener.Clients.Find(x.in)
	if !ok {
		return &refusal{
			status: http.StatusUnauthorized, reason: "client_token",
			message: "this listener asks for a client token, in the place where the client library puts its key",
		}
	}
	x.client = hex.EncodeToString(client[:])
	return nil
}

// fromBrowser reports whether a browser has sent the request for some page: any page on the web can have it send one to an address on this machine.
// Node's fetch says Sec-Fetch-Mode, too, and no more than that.
func fromBrowser(h http.Header) bool { return h.Get("Origin") != "" || h.Get("Sec-Fetch-Site") != "" }
