package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// listener is an address to listen on and the key that asks for it.
type listener struct{ key, address string }

// conflicts tells whether the system would refuse the second of the two.
func (l listener) conflicts(other listener) bool {
	host, port, err := net.SplitHostPort(l.address)
	otherHost, otherPort, otherErr := net.SplitHostPort(other.address)
	if err != nil || otherErr != nil || port != otherPort || port == "0" {
		return false
	}
	host, otherHost = canonicalHost(host), canonicalHost(otherHost)
	return host == otherHost || host == "*" || otherHost == "*"
}

// answers tells whether a request to an upstream would end up at this listener.
func (l listener) answers(upstream *url.URL) bool {
	host, port, err := net.SplitHostPort(l.address)
	to := cmp.Or(upstream.Port(), map[string]string{"http": "80", "https": "443"}[upstream.Scheme])
	if err != nil || port != to {
		return false
	}
	host, there := canonicalHost(host), canonicalHost(upstream.Hostname())
	if there == "*" {
		there = "127.0.0.1" // where the system takes a call to no address in particular
	}
	return host == there || host == "*" && loopback(net.JoinHostPort(there, to))
}

// canonicalHost gives hosts that mean the same one spelling, and "*" to those that mean every address.
func canonicalHost(host string) string {
	if host == "" {
		return "*"
	}
	if strings.EqualFold(host, "localhost") {
		return "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return strings.ToLower(host)
	}
	if ip = ip.Unmap(); ip.IsUnspecified() {
		return "*"
	}
	return ip.String()
}

// loopback tells whether only this host can reach an address. A name other than localhost may be anything.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(canonicalHost(host))
	return err == nil && ip.IsLoopback()
}

// listen checks an address and tells whether it can be used.
func (s scope) listen(key, address string) bool {
	host, port, err := net.SplitHostPort(address)
	switch {
	case address == "":
		s.report(key, "is missing; give host:port, such as 127.0.0.1:8081")
	case err != nil:
		s.report(key, "must be host:port, such as 127.0.0.1:8081")
	case port != "0" && !validPort(port):
		s.report(key, "must have a port between 0 and 65535")
	case strings.ContainsAny(host, "/@ "):
		s.report(key, "must have a host name or IP address before the port")
	default:
		return true
	}
	return false
}

// hosts checks names by which a listener is called.
func (s scope) hosts(key string, names []string) {
	for i, name := range names {
		s.need(name != "" && !strings.ContainsAny(name, ":/@ *"), fmt.Sprintf("%s[%d]", key, i), "must be a host name without scheme, port and path")
	}
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// address checks an optional address without ever repeating it.
func (s scope) address(key string, address MaskedURL, schemes ...string) {
	if address == "" {
		return
	}
	u, err := url.Parse(address.Reveal())
	s.need(err == nil && slices.Contains(schemes, u.Scheme) && u.Hostname() != "", key, "must be an address with a host that begins with "+strings.Join(schemes, ":// or ")+"://")
}

// collector checks the address of an OTLP collector. Credentials have another place.
func (s scope) collector(key string, address MaskedURL) {
	s.address(key, address, "http", "https")
	if u, err := url.Parse(address.Reveal()); err == nil {
		s.need(u.User == nil && u.RawQuery == "" && u.Fragment == "", key, "must be scheme, host and path alone; headers for the collector come by OTEL_EXPORTER_OTLP_HEADERS")
	}
}

// stateAddress checks the address of a Redis server. Whatever stands in it may be a part of a password, so that nothing of it is repeated.
func (s scope) stateAddress(key string, address MaskedURL) {
	s.address(key, address, "redis", "rediss")
	u, err := url.Parse(address.Reveal())
	if err != nil {
		return
	}
	s.need(u.Port() == "" || validPort(u.Port()), key, "must have a port between 1 and 65535, or none for 6379")
	database := strings.TrimPrefix(u.Path, "/")
	_, err = strconv.ParseUint(database, 10, 16)
	s.need(database == "" || err == nil, key, "may name the number of a database after the host, as in redis://host:6379/2, and nothing else")
	s.need(u.RawQuery == "" && u.Fragment == "", key, "must have nothing behind the host but the number of a database; leave out ? and #, and write them as %3F and %23 in a password")
}

func (s scope) secretFile(key, path string) {
	if path == "" || s.secretless {
		return
	}
	_, err := ReadSecretFile(key, path)
	s.adopt(err)
}

func (s scope) signingKey(w Webhook) {
	if w.SecretFile == "" || s.secretless {
		return
	}
	_, err := w.SigningKey()
	s.adopt(err)
}

func (s scope) secretVariable(key, name string) {
	if s.secretless {
		return
	}
	_, err := ReadSecretEnv(key, name, s.environ)
	s.adopt(err)
}

// adopt reports what reading a secret found.
func (s scope) adopt(err error) {
	if invalid, ok := errors.AsType[*InvalidError](err); ok {
		for _, p := range invalid.Problems {
			s.report(p.Key, "%s", p.Message)
		}
	}
}

func (s scope) serverTLS(path string, t ServerTLS) {
	switch {
	case t.CertFile == "" && t.KeyFile == "" && t.ClientCAFile == "":
		return
	case t.CertFile == "":
		s.report(path+".cert_file", "is missing; TLS needs cert_file and key_file")
	case t.KeyFile == "":
		s.report(path+".key_file", "is missing; TLS needs cert_file and key_file")
	case s.secretless:
	case s.readable(path+".cert_file", t.CertFile) && s.readable(path+".key_file", t.KeyFile):
		if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
			s.report(path+".cert_file", "%q and key_file %q are not a usable pair: %v", t.CertFile, t.KeyFile, err)
		}
	}
	s.authorities(path+".client_ca_file", t.ClientCAFile)
}

func (s scope) authorities(key, path string) {
	if path == "" || s.secretless || !s.readable(key, path) {
		return
	}
	pem, err := os.ReadFile(path) //nolint:gosec // The operator names the file.
	s.need(err == nil && x509.NewCertPool().AppendCertsFromPEM(pem), key, "must name a PEM file with at least one certificate")
}

func (s scope) readable(key, path string) bool {
	f, err := os.Open(path) //nolint:gosec // The operator names the file.
	if err != nil {
		s.report(key, "cannot read the file %q: %v", path, reason(err))
		return false
	}
	_ = f.Close()
	return true
}
