package listen

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{t: t, key: key}
	der, err := x509.CreateCertificate(rand.Reader, template(name, time.Now().Add(time.Hour), true), template(name, time.Now().Add(time.Hour), true), &key.PublicKey, key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return a
}

func template(name string, until time.Time, authority bool) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		panic(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: until, IsCA: authority, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
}

// issue gives a certificate and its key in PEM form.
func (a *authority) issue(name string, until time.Time) (cert, key []byte) {
	a.t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	der, err := x509.CreateCertificate(rand.Reader, template(name, until, false), a.cert, &own.PublicKey, a.key)
	require.NoError(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(own)
	require.NoError(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) client(name string) tls.Certificate {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.issue(name, time.Now().Add(time.Hour)))
	require.NoError(a.t, err)
	return pair
}

func put(t *testing.T, path string, text []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

// mounted is a folder as Kubernetes mounts secrets: each file is a symlink into a folder that is exchanged as a whole.
type mounted struct {
	t   *testing.T
	dir string
	n   int
}

func (m *mounted) exchange(files map[string][]byte) {
	m.t.Helper()
	m.n++
	version := filepath.Join(m.dir, "..version"+string(rune('0'+m.n)))
	require.NoError(m.t, os.Mkdir(version, 0o700))
	for name, text := range files {
		put(m.t, filepath.Join(version, name), text)
		if m.n == 1 {
			require.NoError(m.t, os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
		}
	}
	require.NoError(m.t, os.Symlink(filepath.Base(version), filepath.Join(m.dir, "..new")))
	require.NoError(m.t, os.Rename(filepath.Join(m.dir, "..new"), filepath.Join(m.dir, "..data")))
}
