package listen

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// maxFile bounds each file, in bytes.
const maxFile = 1 << 20

// Files are those that a listener with TLS is made of, in PEM form.
type Files struct {
	Cert, Key string
	ClientCA  string // authorities that a client's certificate must come from; "": none is asked for
}

// Certificates are what a listener shows and asks for. Look reads the files again, and connections made from then on go by what was found; what
// cannot be used changes nothing. It is safe for concurrent use.
type Certificates struct {
	files Files
	log   *zap.Logger

	mu      sync.Mutex        // of those who look
	running [sha256.Size]byte // what is in effect
	seen    [sha256.Size]byte // what was found at the last look
	told    string            // the problem that was logged last; "": there is none

	current atomic.Pointer[pair]
	failed  atomic.Bool // what was found last cannot be used
}

// pair is what is in effect for a time.
type pair struct {
	conf    *tls.Config
	clients *x509.CertPool // the same one as long as its file says the same; nil: no client is asked
	pem     []byte         // of clients
	expires time.Time      // the first certificate of the chain to do so
}

// Open reads the files. The error names the setting, and repeats nothing of a key.
func Open(files Files, log *zap.Logger) (*Certificates, error) {
	c := &Certificates{files: files, log: log}
	texts, sum, err := c.read()
	if err != nil {
		return nil, err
	}
	p, err := c.build(texts)
	if err != nil {
		return nil, err
	}
	c.running, c.seen = sum, sum
	c.current.Store(p)
	return c, nil
}

// Config is for a server: each connection goes by what is in effect when it is made.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load().conf, nil }}
}

// Look takes what the files hold now if that is new. What nobody asked for must have been there at the look before, too: it may be half written,
// or one file of several.
func (c *Certificates) Look(asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	texts, sum, err := c.read()
	again := sum == c.seen
	c.seen = sum
	if sum == c.running {
		if c.told != "" {
			c.told = ""
			c.failed.Store(false)
			c.log.Info("the certificates of a listener are again those that are in effect")
		}
		return
	}
	if !again && !asked {
		return
	}
	var p *pair
	if err == nil {
		p, err = c.build(texts)
	}
	if err != nil {
		c.failed.Store(true)
		if problem := string(sum[:]) + err.Error(); problem != c.told {
			c.told = problem
			c.log.Error("the certificates of a listener were not taken; those before stay in effect", zap.Error(err))
		}
		return
	}
	c.running, c.told = sum, ""
	c.failed.Store(false)
	c.current.Store(p)
	c.log.Info("the certificates of a listener were taken", zap.String("cert_file", c.files.Cert), zap.Time("expires", p.expires))
}

// texts are what the files hold.
type texts struct{ cert, key, clients []byte }

// read gives what the files hold, and a sum of it, or of why there is none.
func (c *Certificates) read() (t texts, sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	for _, f := range []struct {
		key, path string
		to        *[]byte
	}{{"tls.cert_file", c.files.Cert, &t.cert}, {"tls.key_file", c.files.Key, &t.key}, {"tls.client_ca_file", c.files.ClientCA, &t.clients}} {
		if f.path == "" {
			continue
		}
		if *f.to, err = contents(f.path); err != nil {
			err = fmt.Errorf("%s: %w", f.key, err)
			_, _ = io.WriteString(hash, err.Error())
			break
		}
		one := sha256.Sum256(*f.to)
		_, _ = hash.Write(one[:])
	}
	return t, [sha256.Size]byte(hash.Sum(nil)), err
}

func contents(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the configuration names the file
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, err
}

func (c *Certificates) build(t texts) (*pair, error) {
	certificate, err := tls.X509KeyPair(t.cert, t.key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert_file and tls.key_file: %w", err)
	}
	p := &pair{conf: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}}
	for _, der := range certificate.Certificate {
		one, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file: %w", err)
		}
		if p.expires.IsZero() || one.NotAfter.Before(p.expires) {
			p.expires = one.NotAfter
		}
	}
	if c.files.ClientCA == "" {
		return p, nil
	}
	if before := c.current.Load(); before != nil && bytes.Equal(before.pem, t.clients) {
		p.clients = before.clients
	} else {
		p.clients = x509.NewCertPool()
		if !p.clients.AppendCertsFromPEM(t.clients) {
			return nil, errors.New("tls.client_ca_file: holds no certificate in PEM form")
		}
	}
	p.pem = t.clients
	p.conf.ClientCAs, p.conf.ClientAuth = p.clients, tls.RequireAndVerifyClientCert
	p.conf.SessionTicketsDisabled = true // each connection proves anew who it is, to those who are trusted now
	return p, nil
}

// vouched is which authorities a connection's client was last verified by.
type vouched struct{ atomic.Pointer[x509.CertPool] }

type vouchedKey struct{}

// Connected notes in a new connection's context by whom its client is going to be verified.
func (c *Certificates) Connected(ctx context.Context) context.Context {
	v := new(vouched)
	v.Store(c.current.Load().clients)
	return context.WithValue(ctx, vouchedKey{}, v)
}

// Guard verifies clients again whose connections are older than the authorities in effect, once for each, and ends the connections of those whom
// these do not know: a connection that is kept would outlive what it was let in by.
func (c *Certificates) Guard(next http.Handler) http.Handler {
	if c.files.ClientCA == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.knows(r) {
			w.Header().Set("Connection", "close")
			http.Error(w, "the certificate authority of this client is no longer accepted", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (c *Certificates) knows(r *http.Request) bool {
	now := c.current.Load().clients
	v, ok := r.Context().Value(vouchedKey{}).(*vouched)
	if !ok || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	if v.Load() == now {
		return true
	}
	between := x509.NewCertPool()
	for _, one := range r.TLS.PeerCertificates[1:] {
		between.AddCert(one)
	}
	_, err := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: now, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err == nil {
		v.Store(now)
	}
	return err == nil
}
