package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/ocr-proxy/ocr-proxy/config"
)

// serverTLS is the TLS configuration of a listener, nil for plain HTTP.
func serverTLS(c config.ServerTLS) (*tls.Config, error) {
	if !c.Enabled() {
		return nil, nil //nolint:nilnil // nil is how http.Server spells plain HTTP
	}
	certificate, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls.cert_file and tls.key_file: %w", err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if c.ClientCAFile == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("tls.client_ca_file: %w", err)
	}
	conf.ClientCAs = x509.NewCertPool()
	if !conf.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("tls.client_ca_file: holds no certificate in PEM form")
	}
	conf.ClientAuth = tls.RequireAndVerifyClientCert
	return conf, nil
}
