package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// maxConns bounds the connections to the receiver; there is one sender for each stream.
const maxConns = 2

// RefusedAddressError says that a receiver's name led to an address that is never called: link-local ones, behind which clouds keep the
// credentials of their machines, and unspecified ones, which lead back to this host.
type RefusedAddressError struct {
	// Address is the address that was refused.
	Address string
}

// Error names the address.
func (e *RefusedAddressError) Error() string {
	return e.Address + " is a link-local, multicast or unspecified address, which a webhook never calls"
}

// NewTransport is the way to a receiver: few connections, and none to an address that [RefusedAddressError] describes, whatever name led to
// it. It goes straight, past any forward proxy, since such a proxy would resolve the name out of sight.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error { return checkAddress(address) }}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        maxConns,
		MaxIdleConnsPerHost:    maxConns,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
}

// checkAddress looks at the address, with its port, that is about to be called.
func checkAddress(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedAddressError{Address: address}
	}
	ip := at.Addr().WithZone("").Unmap()
	if b := ip.As16(); nat64().Contains(ip) {
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	if ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast() {
		return &RefusedAddressError{Address: address}
	}
	return nil
}

// nat64 is where IPv4 addresses are found behind a translator, RFC 6052.
func nat64() netip.Prefix { return netip.MustParsePrefix("64:ff9b::/96") }

// cause is what may be written down of a failed attempt: errors of the network and of TLS name hosts at most. Anything else may repeat what
// the receiver said, and it may have repeated a secret.
func cause(err error, timeout time.Duration) string {
	if errors.Is(err, context.Canceled) {
		return "broken off"
	}
	if n, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && n.Timeout() {
		return fmt.Sprintf("no answer within %s", timeout)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[x509.HostnameError](err); ok {
		return e.Error()
	}
	return "no HTTP answer"
}
