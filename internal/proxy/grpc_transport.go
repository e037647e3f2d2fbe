package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"
)

// pingAfter is how long a connection under gRPC calls may be silent before it is asked whether it is still there, and pingTimeout how long it
// has to answer. Without that a dead connection would take every attempt down with it, the next one included.
const pingAfter, pingTimeout = 15 * time.Second, 10 * time.Second

// NewGRPCTransport is the way to one provider for gRPC calls: HTTP/2, over TLS for https and in the clear for http. roots are the certificate
// authorities that it trusts; nil trusts the system's.
func NewGRPCTransport(roots *x509.CertPool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:     true, // the worker's bytes are passed on as they are
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: 256 << 10,
		Proxy:                  http.ProxyFromEnvironment,
	}
}
