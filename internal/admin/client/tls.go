package client

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// pinned trusts the one certificate that the proxy's configuration names. The listener is on this machine, under an address that the
// certificate need not name, and whoever shows that certificate is who the operator meant.
func pinned(o Options) (*tls.Config, error) {
	want, err := leaf(o.CertFile)
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection is stricter.
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !bytes.Equal(state.PeerCertificates[0].RawSubjectPublicKeyInfo, want.RawSubjectPublicKeyInfo) {
				return fmt.Errorf("the listener's key is not that of %s (admin.tls.cert_file): if the file was renewed, restart the proxy", o.CertFile)
			}
			return nil
		},
	}
	if o.ClientCertificate {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("the listener asks for a client's certificate, and its own cannot be used: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// leaf is the first certificate of a PEM file.
func leaf(path string) (*x509.Certificate, error) {
	rest, err := os.ReadFile(path) //nolint:gosec // The configuration names the file.
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			return nil, errors.New(path + " holds no certificate in PEM form")
		}
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
}
