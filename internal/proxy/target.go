package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// rewrite turns the worker's request into the one that goes upstream. Hop-by-hop and forwarding headers are already gone.
func (x *exchange) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL = target(x.account.Upstream, r.In.URL, r.In.RequestURI)
	r.Out.Host = x.account.Upstream.Host
	h := r.Out.Header
	dropInstructions(h)
	delete(h, "Expect") // the body is here: there is nothing to ask for
	delete(h, "Http2-Settings")
	if x.rpc != nil && x.batchRules() != nil {
		h["Grpc-Accept-Encoding"] = []string{"identity"} // a batch is taken apart
	}
	if accept := h["Accept-Encoding"]; len(accept) > 0 {
		// Only what the classifier can read: an error in another encoding would be judged by its status alone.
		if hasGzip(accept) {
			h["Accept-Encoding"] = []string{"gzip"}
		} else {
			h["Accept-Encoding"] = []string{"identity"}
		}
	}
}

// dropInstructions removes what is said between workers and this proxy.
func dropInstructions(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, instructionPrefix) {
			delete(h, name)
		}
	}
}

func hasGzip(accept []string) bool {
	for _, v := range accept {
		for part := range strings.SplitSeq(v, ",") {
			coding, q, _ := strings.Cut(strings.TrimSpace(part), ";")
			if (strings.EqualFold(coding, "gzip") || coding == "*") && strings.ReplaceAll(q, " ", "") != "q=0" {
				return true
			}
		}
	}
	return false
}

// target is the URL upstream for a request target. The path and query that a worker sent must arrive byte for byte: escapes, empty
// segments and semicolons mean something to somebody.
func target(upstream, in *url.URL, requestURI string) *url.URL {
	out := &url.URL{Scheme: upstream.Scheme, Host: upstream.Host, Path: in.Path, RawPath: in.RawPath, RawQuery: in.RawQuery, ForceQuery: in.ForceQuery}
	base := strings.TrimSuffix(upstream.EscapedPath(), "/")
	if base != "" {
		out.Path = strings.TrimSuffix(upstream.Path, "/") + in.Path
		out.RawPath = base + in.EscapedPath()
	}
	if want := base + requestURI; out.RequestURI() != want {
		// The standard form would normalise something. Opaque text goes out as it is, unless it starts like a host.
		if opaque, _, _ := strings.Cut(want, "?"); !strings.HasPrefix(opaque, "//") {
			out.Opaque = opaque
		}
	}
	return out
}

// relocated is an answer's head with the URLs under which the provider continues a call rewritten, so that the worker comes back through the
// proxy. Scheme, host and port become those under which this worker reached the listener; a URL on any other host is not ours to touch. The
// head itself stays as it is: others who are given the same answer may have come by another address.
func (x *exchange) relocated(h http.Header) http.Header {
	own, self := h, x.self()
	copied := false
	for _, name := range addresses() {
		for i, v := range h[name] {
			rest, ok := under(x.account.Upstream, v)
			if !ok || self == "" {
				continue
			}
			if !copied {
				own, copied = h.Clone(), true
			}
			own[name][i] = self + rest
		}
	}
	return own
}

// addresses are the answer headers that hold a URL under which the provider continues a call.
func addresses() []string { return []string{"Operation-Location", "Location", "Azure-Asyncoperation"} }

// self is the listener as the worker sees it; "": not known.
func (x *exchange) self() string {
	if x.resent != nil {
		return x.listener.Self
	}
	if x.in.TLS != nil {
		return "https://" + x.in.Host
	}
	return "http://" + x.in.Host
}

// under cuts the upstream's own address off an absolute URL and reports whether it was there. What is left keeps every byte.
func under(upstream *url.URL, location string) (rest string, ok bool) {
	scheme, after, ok := strings.Cut(location, "://")
	if !ok || !strings.EqualFold(scheme, upstream.Scheme) {
		return "", false
	}
	end := strings.IndexAny(after, "/?#")
	if end < 0 {
		end = len(after)
	}
	authority, rest := after[:end], after[end:]
	if !strings.EqualFold(withPort(authority, scheme), withPort(upstream.Host, scheme)) {
		return "", false
	}
	base := strings.TrimSuffix(upstream.EscapedPath(), "/")
	rest, ok = strings.CutPrefix(rest, base)
	if !ok || base != "" && rest != "" && !strings.ContainsRune("/?#", rune(rest[0])) {
		return "", false
	}
	if !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	return rest, true
}

func withPort(host, scheme string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host
	}
	if strings.EqualFold(scheme, "https") {
		return host + ":443"
	}
	return host + ":80"
}
