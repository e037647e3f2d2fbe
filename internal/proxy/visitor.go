package proxy

import (
	"encoding/hex"
	"fmt"
	"net/http"
)

// visitor refuses who may not use the listener: a browser that a page has sent here, who calls it by a name that is not its own, and where tokens are
// asked for, whoever shows none. A replay has been allowed by the admin listener.
func (x *exchange) visitor() *refusal {
	if x.resent != nil {
		return nil
	}
	if fromBrowser(x.in.Header) {
		return &refusal{status: http.StatusForbidden, reason: "browser", message: "this listener is for workers, not for pages in a browser"}
	}
	if x.listener.Names != nil && x.listener.Names.Foreign(x.in) {
		return &refusal{status: http.StatusForbidden, reason: "unknown_host", message: fmt.Sprintf(
			"the Host %.*q is no name of this listener, as when a page in a browser has been led here; call it by IP address or as localhost, or put the name into hosts of this account's configuration",
			maxInstruction, x.in.Host)}
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
