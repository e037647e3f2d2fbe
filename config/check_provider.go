package config

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

var accountName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (c *checker) providers() {
	top := scope{checker: c}
	if len(c.cfg.Providers) == 0 {
		top.report("providers", "at least one account is needed: an entry with name, kind, listen and upstream")
	}
	names := map[string]int{}
	listeners := []listener{{key: "admin.listen", address: c.cfg.Admin.Listen}}
	for i, p := range c.cfg.Providers {
		s := c.entry(i)
		s.need(accountName.MatchString(p.Name), "name", "must be 1 to 64 letters, digits, dots, underscores and hyphens that begin with a letter or digit")
		if first, ok := names[p.Name]; ok {
			s.report("name", "the name is taken by providers[%d]; names must be unique", first)
		} else {
			names[p.Name] = i
		}
		s.oneOf("kind", p.Kind, Kinds()...)
		if s.listen("listen", p.Listen) {
			this := listener{key: s.prefix + "listen", address: p.Listen}
			for _, other := range listeners {
				if this.conflicts(other) {
					s.report("listen", "the address is taken by %s; give each listener a port of its own", other.key)
				}
			}
			listeners = append(listeners, this)
		}
		s.atLeast("max_connections", p.MaxConnections, 1)
		s.hosts("hosts", p.Hosts)
		s.upstream(p.Upstream)
		s.oneOf("mode", p.Mode, "enforce", "observe")
		s.oneOf("inject_token", p.InjectToken, "true", "false", "content")
		s.idempotency(p)
		s.need(!p.RepairPages || slices.Contains([]string{"azure", "documentai", "mistral"}, p.Kind), "repair_pages", "is available for the kinds azure, documentai and mistral, whose calls can name the pages to read; leave it out here")
		s.need(!p.RepairPages || p.Kind != "azure" || c.cfg.DeadLetters.Payloads != "none", "repair_pages", "needs dead_letters.payloads: keep for kind azure, whose jobs can only be started again from what was kept of them")
		s.rules(p.Rules)
		s.retry(p.Retry)
		s.breaker(p.Breaker)
		s.pacing(p.Pacing)
		s.review(p.Review)
		s.precheck(p.Precheck)
		s.auth("auth", p.Auth)
		if !isEmpty(reflect.ValueOf(p.ReplayAuth)) {
			s.auth("replay_auth", p.ReplayAuth)
			s.need(!p.Auth.OwnCredential(), "replay_auth", "has no effect beside an auth type other than passthrough; remove one of the two")
		}
		s.serverTLS("tls", p.TLS)
		s.authorities("upstream_tls.ca_file", p.UpstreamTLS.CAFile)
		s.exposure(p)
		s.visitors(p)
		s.routes(p)
	}
	for i, p := range c.cfg.Providers {
		c.entry(i).circle(p, listeners)
	}
}

// circle refuses an upstream that is the proxy itself: each request would breed another one until its time is over.
func (s scope) circle(p Provider, listeners []listener) {
	u := p.UpstreamURL()
	if u == nil {
		return
	}
	for _, l := range listeners {
		if l.answers(u) {
			s.report("upstream", "is the proxy's own %s; give the provider's address", l.key)
		}
	}
}

// entry is the scope of one provider entry.
func (c *checker) entry(i int) scope {
	return scope{checker: c, prefix: fmt.Sprintf("providers[%d].", i)}
}

// upstream never repeats the address: it may hold a password.
func (s scope) upstream(address string) {
	u, err := url.Parse(address)
	switch {
	case address == "":
		s.report("upstream", "is missing; give the provider's address, such as https://api.example.com")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		s.report("upstream", "must be an http:// or https:// address with a host")
	case u.User != nil:
		s.report("upstream", "must not hold a user or password; use auth")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(address, "#"):
		s.report("upstream", "must not hold a query or fragment; a base path is allowed")
	case u.Port() != "" && !validPort(u.Port()):
		s.report("upstream", "must have a port between 1 and 65535")
	}
}

func (s scope) rules(rules []Rule) {
	for i, r := range rules {
		key := fmt.Sprintf("rules[%d]", i)
		s.need(r.Status == 0 || r.Status >= 100 && r.Status <= 599, key+".status", "must be an HTTP status from 100 to 599, or 0 for any")
		s.need(r.Status != 0 || r.Code != "", key, "needs a status or a code; without both it would match every answer")
		s.oneOf(key+".class", r.Class, "throttle", "transient", "permanent", "auth", "quota", "unknown", "success")
	}
}

// visitors checks who may use the account. A client token has the place of the worker's own credential, which then cannot go through.
func (s scope) visitors(p Provider) {
	if p.Clients.TokenFile == "" {
		return
	}
	s.need(p.Auth.OwnCredential(), "clients.token_file", "needs an auth.type other than passthrough: the token is shown in the place of the worker's own key")
	if !s.secretless {
		s.readable("clients.token_file", p.Clients.TokenFile)
	}
}

// exposure refuses to lend the account's credential to whoever reaches a port that others can reach.
func (s scope) exposure(p Provider) {
	if p.Auth.AddsCredential() && !loopback(p.Listen) && p.Clients.TokenFile == "" && p.TLS.ClientCAFile == "" {
		s.report("listen", "others can reach this address and would use the account's credential; listen on 127.0.0.1, or name who may use it with clients.token_file or tls.client_ca_file")
	}
}

// routes checks the accounts that this one hands requests to. A worker's credential must never reach another account.
func (s scope) routes(p Provider) {
	for i, name := range p.Fallback {
		s.route(fmt.Sprintf("fallback[%d]", i), p, name)
		s.need(name != p.Name, fmt.Sprintf("fallback[%d]", i), "must name another account than this one")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Spread)) {
		s.route("spread."+name, p, name)
		s.atLeast("spread."+name, p.Spread[name], 1)
	}
	if len(p.Fallback)+len(p.Spread) > 0 {
		s.need(!p.Observes(), "mode", "must be enforce beside fallback and spread: an account that observes hands nothing to others")
		s.need(p.Auth.OwnCredential(), "auth.type", "must be another type than passthrough, because fallback and spread hand requests to other accounts")
	}
}

func (s scope) route(key string, from Provider, name string) {
	i := slices.IndexFunc(s.cfg.Providers, func(p Provider) bool { return p.Name == name })
	switch {
	case i < 0:
		s.report(key, "no account has this name; names are compared with their case")
	case s.cfg.Providers[i].Kind != from.Kind:
		s.report(key, "must be an account of the same kind")
	case s.cfg.Providers[i].Observes():
		s.report(key, "that account has mode observe and would not retry, pace or break what it is handed; let it enforce, or name another")
	case !s.cfg.Providers[i].Auth.OwnCredential():
		s.report(key, "that account has auth type passthrough and would be sent the credential of this one; give it a credential of its own")
	case s.cfg.Providers[i].IdempotencyHeader != from.IdempotencyHeader, s.cfg.Providers[i].IdempotencyQuoted != from.IdempotencyQuoted:
		s.report(key, "that account has another idempotency_header or idempotency_quoted; give both the same, since a call keeps its token wherever it goes")
	}
}
