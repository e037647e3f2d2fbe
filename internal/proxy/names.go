package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Names are the host names by which a listener may be called. A page on the web can give its own name the address of this machine, so that to the
// browser the listener is a part of the page's site; the name in the Host header, which no page can change, tells that it is not.
type Names struct{ known map[string]bool }

// hostNames are those that container runtimes give the machine that runs them. Nobody can own a name under .internal on the internet.
const hostNames = "host.docker.internal gateway.docker.internal host.containers.internal host.lima.internal"

// NewNames are those that a loopback listener has by itself, and more. IP literals and localhost need not be among them.
func NewNames(more ...string) *Names {
	n := &Names{known: map[string]bool{}}
	for _, name := range append(strings.Fields(hostNames), more...) {
		n.known[plainName(name)] = true
	}
	return n
}

// plainName is a name as it is compared.
func plainName(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// Foreign reports whether a request calls the listener by a name of somebody else's. Who names no host, as HTTP/1.0 allows, was not led here by a
// name. An IP literal leads nobody anywhere else than it says; how else addresses can be spelled (2130706433, 127.1) does not matter: browsers
// do not send it.
func (n *Names) Foreign(r *http.Request) bool {
	host, port := r.Host, ""
	if h, p, err := net.SplitHostPort(r.Host); err == nil {
		host, port = h, p
	}
	if host == "" || port != "" && fromAnotherDoor(r, port) {
		return false
	}
	if inside, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inside, "]")
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	name := plainName(host)
	return name != "localhost" && !strings.HasSuffix(name, ".localhost") && !n.known[name]
}

// fromAnotherDoor reports whether a request can be of no browser, by two signs at once: it names another port than the one that it came to, as a
// client does that is told of an address which something else forwards to this one; and it is one with which browsers say Origin, yet does not.
func fromAnotherDoor(r *http.Request, port string) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return false
	}
	_, own, err := net.SplitHostPort(local.String())
	return err == nil && port != own
}
