package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// guard decides who may see and do more than metrics and health.
type guard struct {
	hosts    []string
	loopback bool
	token    *[sha256.Size]byte
	sites    *http.CrossOriginProtection
}

// newGuard fails when the token file cannot be read.
func newGuard(o Options) (guard, error) {
	g := guard{hosts: o.Hosts, loopback: isLoopback(o.Listen), sites: http.NewCrossOriginProtection()}
	if o.TokenFile == "" {
		return g, nil
	}
	data, err := os.ReadFile(o.TokenFile)
	if err != nil {
		return g, fmt.Errorf("admin.token_file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return g, fmt.Errorf("admin.token_file: %s is empty", o.TokenFile)
	}
	sum := sha256.Sum256([]byte(token))
	g.token = &sum
	return g, nil
}

func (g guard) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !g.knows(r.Host):
			// A page on the web can make a browser ask a name of its own that leads here.
			say(w, http.StatusMisdirectedRequest, "this host name is not one of admin.hosts")
		case g.fromAnotherSite(r):
			say(w, http.StatusForbidden, "requests from other sites are refused")
		case !g.loopback && g.token == nil:
			say(w, http.StatusForbidden, "off loopback this needs admin.token_file")
		case g.token != nil && !g.loopback && !g.bears(r):
			w.Header().Add("WWW-Authenticate", "Bearer")
			w.Header().Add("WWW-Authenticate", `Basic realm="ocr-proxy", charset="UTF-8"`)
			say(w, http.StatusUnauthorized, "a bearer token is needed; a browser takes it as the password, with any name")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// fromAnotherSite tells whether a browser asks on behalf of a page that is not this listener's own. Reading counts, too: a profile takes half
// a minute of work. Clients that are no browsers say nothing of where they come from, and are let in.
func (g guard) fromAnotherSite(r *http.Request) bool {
	asked := *r
	asked.Method = http.MethodPost // else what only reads would be let through
	return g.sites.Check(&asked) != nil
}

func (g guard) knows(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.Trim(host, "[]")
	return net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(g.hosts, func(s string) bool { return strings.EqualFold(s, host) })
}

// bears tells whether a request has the token. Browsers, which cannot be told to send one, send it as a password.
func (g guard) bears(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		_, token, ok = r.BasicAuth()
	}
	sum := sha256.Sum256([]byte(token))
	return ok && subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}
