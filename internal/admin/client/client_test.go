package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func asking(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// answering starts a listener that records the last request.
func answering(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s
}

func TestAQuestionAndItsAnswer(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body map[string]string
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		if r.Method == http.MethodPost {
			_ = json.NewDecoder(r.Body).Decode(&body)
		}
		_, _ = w.Write([]byte(`{"id":"7"}`))
	})
	c := asking(t, Options{Listen: s.Listener.Addr().String(), TokenFile: file(t, "token", "correct horse\n")})
	var out struct{ ID string }
	require.NoError(t, c.Do(t.Context(), http.MethodPost, "/api/v1/x?y=1", map[string]string{"note": "n"}, &out))
	require.Equal(t, "7", out.ID)
	require.Equal(t, "n", body["note"])
	require.Equal(t, "/api/v1/x?y=1", got.RequestURI)
	require.Equal(t, "localhost", got.Host)
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
	require.Equal(t, "Bearer correct horse", got.Header.Get("Authorization"))

	require.NoError(t, c.Do(t.Context(), http.MethodGet, "/x", nil, nil))
	require.Empty(t, got.Header.Get("Content-Type"), "a question without a body")
}

func TestWhatGoesWrongIsToldApart(t *testing.T) {
	t.Parallel()
	s := answering(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		case "/token":
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
		case "/early":
			w.Header().Set("Retry-After", "7")
			http.Error(w, "come back in 7 s", http.StatusTooEarly)
		case "/html":
			_, _ = w.Write([]byte("<html>"))
		}
	})
	missing := filepath.Join(t.TempDir(), "missing")
	c := asking(t, Options{Listen: s.Listener.Addr().String(), TokenFile: missing})
	ask := func(path string) error { return c.Do(t.Context(), http.MethodGet, path, nil, &struct{}{}) }

	var refused *RefusedError
	require.ErrorAs(t, ask("/early"), &refused)
	require.Equal(t, RefusedError{Status: http.StatusTooEarly, Sentence: "come back in 7 s", RetryAfter: 7 * time.Second}, *refused)
	require.EqualError(t, refused, "come back in 7 s")
	require.ErrorAs(t, ask("/redirect"), &refused, "the token is not carried to another place")
	require.Equal(t, http.StatusFound, refused.Status)
	require.ErrorIs(t, ask("/token"), fs.ErrNotExist, "why there was no token to send")
	require.ErrorContains(t, ask("/html"), "cannot be read")

	gone, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("interrupted")
	cancel(cause)
	require.ErrorIs(t, c.Do(gone, http.MethodGet, "/early", nil, nil), cause)

	s.Close()
	require.ErrorIs(t, ask("/early"), ErrUnreachable)
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"127.0.0.1:9090": "127.0.0.1:9090", ":9090": "127.0.0.1:9090", "0.0.0.0:9090": "127.0.0.1:9090", "[::]:9090": "127.0.0.1:9090", "[::1]:9090": "[::1]:9090",
		"10.1.2.3:1": "10.1.2.3:1", "proxy.internal:9090": "proxy.internal:9090",
	} {
		got, err := Address(listen)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := New(Options{Listen: "nowhere"})
	require.ErrorContains(t, err, "admin.listen")
}

// pair writes the certificate and key of a test server.
func pair(t *testing.T, s *httptest.Server) (certFile, keyFile string) {
	t.Helper()
	own := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	require.NoError(t, err)
	return file(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}))),
		file(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}

func TestTheListenersOwnCertificateIsTrusted(t *testing.T) {
	t.Parallel()
	presented := 0
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { presented = len(r.TLS.PeerCertificates) }))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	defer s.Close()
	certFile, keyFile := pair(t, s)
	o := Options{Listen: strings.Replace(s.Listener.Addr().String(), "127.0.0.1", "localhost", 1), CertFile: certFile, KeyFile: keyFile}
	require.NoError(t, asking(t, o).Do(t.Context(), http.MethodGet, "/", nil, nil))
	require.Zero(t, presented)
	o.ClientCertificate = true
	require.NoError(t, asking(t, o).Do(t.Context(), http.MethodGet, "/", nil, nil))
	require.Equal(t, 1, presented)
	o.KeyFile = filepath.Join(t.TempDir(), "missing")
	_, err := New(o)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestAnotherCertificateIsNot(t *testing.T) {
	t.Parallel()
	asked := false
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	defer s.Close()
	c := asking(t, Options{Listen: s.Listener.Addr().String(), TokenFile: file(t, "token", "t"), CertFile: file(t, "other.pem", otherCertificate)})
	require.ErrorContains(t, c.Do(t.Context(), http.MethodGet, "/", nil, nil), "admin.tls.cert_file")
	require.False(t, asked, "the token has not left")
	for _, text := range []string{"", "no certificate"} {
		_, err := New(Options{Listen: "127.0.0.1:1", CertFile: file(t, "bad.pem", text)})
		require.ErrorContains(t, err, "no certificate in PEM form")
	}
}

func TestSomebodyWhoIsNoProxy(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte("SSH-2.0-x\r\n"))
			_ = c.Close()
		}
	}()
	err = asking(t, Options{Listen: l.Addr().String()}).Do(t.Context(), http.MethodGet, "/", nil, nil)
	require.ErrorContains(t, err, "admin listener")
	require.NotErrorIs(t, err, ErrUnreachable)
}
