package listen

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// secured is a server with certificates on a real socket.
type secured struct {
	*Certificates
	t    *testing.T
	url  string
	logs *observer.ObservedLogs
}

func serveWith(t *testing.T, files Files) *secured {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	c, err := Open(files, zap.New(core))
	require.NoError(t, err)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{
		ReadHeaderTimeout: time.Minute, TLSConfig: c.Config(), ErrorLog: log.New(io.Discard, "", 0),
		Handler:     c.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return c.Connected(ctx) },
	}
	go func() { _ = server.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	return &secured{Certificates: c, t: t, url: "https://" + l.Addr().String(), logs: logs}
}

// worker is a client; the certificates that it trusts and shows are in conf.
func worker(t *testing.T, h2 bool, conf *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: h2}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (s *secured) ask(client *http.Client) (status int, proto string, state *tls.ConnectionState, err error) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url, nil)
	if err != nil {
		return 0, "", nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), resp.TLS, err
}

// shown is whose certificate a new connection is shown.
func (s *secured) shown(a *authority) string {
	s.t.Helper()
	_, _, state, err := s.ask(worker(s.t, false, &tls.Config{RootCAs: a.pool(), MinVersion: tls.VersionTLS12}))
	require.NoError(s.t, err)
	return state.PeerCertificates[0].Subject.CommonName
}

func TestCertificatesAreTakenWhenTheyRest(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t, "authority"), t.TempDir()
	files := Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	m := &mounted{t: t, dir: dir}
	secret := func(name string, until time.Time) map[string][]byte {
		cert, key := a.issue(name, until)
		return map[string][]byte{"tls.crt": cert, "tls.key": key}
	}
	end := time.Now().Add(30 * time.Minute).Truncate(time.Second)
	m.exchange(secret("first", end))
	s := serveWith(t, files)
	metrics := NewMetrics(prometheus.NewRegistry())
	metrics.Show(map[string]Shown{"acct": {Door: NewDoor(nil, 1, zap.NewNop()), Certificates: s.Certificates}})
	value := func(name string) float64 {
		registry := prometheus.NewRegistry()
		registry.MustRegister(metrics)
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == name {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return -1
	}
	require.Equal(t, "first", s.shown(a))
	require.InDelta(t, float64(end.Unix()), value("ocrproxy_tls_certificate_expiry_timestamp_seconds"), 0)
	s.Look(false)
	require.Zero(t, s.logs.Len(), "nothing is new")

	end = end.Add(time.Minute)
	m.exchange(secret("second", end))
	s.Look(false)
	require.Equal(t, "first", s.shown(a), "it may be half written")
	s.Look(false)
	require.Equal(t, "second", s.shown(a))
	require.InDelta(t, float64(end.Unix()), value("ocrproxy_tls_certificate_expiry_timestamp_seconds"), 0)
	m.exchange(secret("third", end))
	s.Look(true)
	require.Equal(t, "third", s.shown(a), "who asks is not kept waiting")
	require.Equal(t, 2, s.logs.FilterMessage("the certificates of a listener were taken").Len())

	// One of two files was exchanged, and then the other; in between come all ways to be broken.
	cert, key := a.issue("fourth", end)
	before := m.files()
	for n, broken := range []map[string][]byte{
		{"tls.crt": cert, "tls.key": before["tls.key"]},
		{"tls.crt": cert[:len(cert)/2], "tls.key": key},
		{"tls.crt": cert, "tls.key": nil},
		{"tls.crt": make([]byte, maxFile+1), "tls.key": key},
	} {
		for name, text := range broken {
			m.overwrite(name, text)
		}
		for range 4 {
			s.Look(false)
		}
		s.Look(true)
		require.Equal(t, "third", s.shown(a))
		require.Zero(t, value("ocrproxy_tls_last_reload_successful"))
		require.Equal(t, n+1, s.logs.FilterLevelExact(zap.ErrorLevel).Len(), "it is said once")
	}
	m.overwrite("tls.crt", cert)
	require.NoError(t, os.Remove(filepath.Join(dir, "..data", "tls.key")))
	s.Look(false)
	s.Look(false)
	require.Contains(t, s.logs.FilterLevelExact(zap.ErrorLevel).All()[4].ContextMap()["error"], "tls.key_file")
	m.overwrite("tls.crt", before["tls.crt"])
	m.overwrite("tls.key", before["tls.key"])
	s.Look(false)
	require.InDelta(t, 1, value("ocrproxy_tls_last_reload_successful"), 0, "they are those in effect")
	m.overwrite("tls.crt", cert)
	m.overwrite("tls.key", key)
	s.Look(false)
	s.Look(false)
	require.Equal(t, "fourth", s.shown(a))
	for _, line := range s.logs.All() {
		require.NotContains(t, fmt.Sprint(line.ContextMap()), "PRIVATE")
	}
	require.Equal(t, 5, testutil.CollectAndCount(metrics))
}

func (m *mounted) files() map[string][]byte {
	m.t.Helper()
	files := map[string][]byte{}
	for _, name := range []string{"tls.crt", "tls.key"} {
		text, err := os.ReadFile(filepath.Join(m.dir, name))
		require.NoError(m.t, err)
		files[name] = text
	}
	return files
}

func (m *mounted) overwrite(name string, text []byte) {
	m.t.Helper()
	put(m.t, filepath.Join(m.dir, "..data", name), text)
}

func TestHTTP2GoesOnUnderTLS(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t, "authority"), t.TempDir()
	files := Files{Cert: filepath.Join(dir, "c"), Key: filepath.Join(dir, "k")}
	cert, key := a.issue("server", time.Now().Add(time.Hour))
	put(t, files.Cert, cert)
	put(t, files.Key, key)
	s := serveWith(t, files)
	for h2, want := range map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"} {
		_, proto, _, err := s.ask(worker(t, h2, &tls.Config{RootCAs: a.pool(), MinVersion: tls.VersionTLS12}))
		require.NoError(t, err)
		require.Equal(t, want, proto)
	}
	_, _, _, err := s.ask(worker(t, false, &tls.Config{RootCAs: a.pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}))
	require.ErrorContains(t, err, "protocol version")
}

// Whoever the old authorities have vouched for comes in neither by a new connection, nor by a session that is resumed, nor by one that is kept.
func TestAnAuthorityThatWasTakenOutLetsNobodyIn(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			servers, old, fresh, dir := newAuthority(t, "servers"), newAuthority(t, "old"), newAuthority(t, "new"), t.TempDir()
			files := Files{Cert: filepath.Join(dir, "c"), Key: filepath.Join(dir, "k"), ClientCA: filepath.Join(dir, "ca")}
			cert, key := servers.issue("server", time.Now().Add(time.Hour))
			put(t, files.Cert, cert)
			put(t, files.Key, key)
			put(t, files.ClientCA, append(old.pem(), fresh.pem()...))
			s := serveWith(t, files)
			resuming := func(c tls.Certificate) *tls.Config {
				return &tls.Config{
					RootCAs: servers.pool(), Certificates: []tls.Certificate{c}, MinVersion: version, MaxVersion: version,
					ClientSessionCache: tls.NewLRUClientSessionCache(8),
				}
			}
			of := resuming(old.client("of the old one"))
			kept, staying := worker(t, h2, of), worker(t, h2, resuming(fresh.client("of the new one")))
			for range 3 {
				status, _, state, err := s.ask(kept)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, status)
				require.False(t, state.DidResume)
				_, _, _, err = s.ask(staying)
				require.NoError(t, err)
				status, _, state, err = s.ask(worker(t, h2, of))
				require.NoError(t, err)
				require.Equal(t, []any{http.StatusOK, false}, []any{status, state.DidResume}, "each connection proves who it is")
			}
			put(t, files.ClientCA, fresh.pem())
			s.Look(true)
			status, _, _, err := s.ask(kept)
			require.NoError(t, err)
			require.Equal(t, http.StatusForbidden, status, "a connection that was kept")
			_, _, _, err = s.ask(kept)
			require.Error(t, err, "which has ended; the next is not let in")
			_, _, _, err = s.ask(worker(t, h2, of))
			require.Error(t, err)
			for range 2 {
				status, _, _, err = s.ask(staying)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, status)
			}
			put(t, files.ClientCA, []byte("nothing"))
			s.Look(true)
			status, _, _, err = s.ask(staying)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status, "what makes no sense shuts nobody out")
		}
	}
}

// A worker of nobody's, and one without a certificate.
func TestStrangersHaveNoHandshake(t *testing.T) {
	t.Parallel()
	servers, clients, dir := newAuthority(t, "servers"), newAuthority(t, "clients"), t.TempDir()
	files := Files{Cert: filepath.Join(dir, "c"), Key: filepath.Join(dir, "k"), ClientCA: filepath.Join(dir, "ca")}
	cert, key := servers.issue("server", time.Now().Add(time.Hour))
	put(t, files.Cert, cert)
	put(t, files.Key, key)
	put(t, files.ClientCA, clients.pem())
	s := serveWith(t, files)
	_, _, _, err := s.ask(worker(t, false, &tls.Config{RootCAs: servers.pool(), MinVersion: tls.VersionTLS12}))
	require.ErrorContains(t, err, "certificate required")
	_, _, _, err = s.ask(worker(t, false, &tls.Config{RootCAs: servers.pool(), MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{newAuthority(t, "clients").client("x")}}))
	require.Error(t, err)
}

func TestNoConnectionFailsWhileCertificatesAreExchanged(t *testing.T) {
	t.Parallel()
	servers, clients, dir := newAuthority(t, "servers"), newAuthority(t, "clients"), t.TempDir()
	other := newAuthority(t, "others").pem()
	files := Files{Cert: filepath.Join(dir, "c"), Key: filepath.Join(dir, "k"), ClientCA: filepath.Join(dir, "ca")}
	exchange := func(n int) {
		cert, key := servers.issue("server", time.Now().Add(time.Hour))
		put(t, files.Cert, cert)
		put(t, files.Key, key)
		put(t, files.ClientCA, append(clients.pem(), other[:n%2*len(other)]...))
	}
	exchange(0)
	s := serveWith(t, files)
	done := make(chan struct{})
	var all sync.WaitGroup
	for n := range 4 {
		conf := &tls.Config{RootCAs: servers.pool(), MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{clients.client("worker")}}
		kept := worker(t, n%2 == 0, conf)
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for _, client := range []*http.Client{kept, worker(t, n%2 == 0, conf)} {
					if status, _, _, err := s.ask(client); err != nil || status != http.StatusOK {
						t.Errorf("status %d: %v", status, err)
						return
					}
					if client != kept {
						client.CloseIdleConnections()
					}
				}
			}
		})
	}
	for n := range 60 {
		exchange(n)
		s.Look(n%3 == 0)
		s.Look(false)
	}
	close(done)
	all.Wait()
	require.GreaterOrEqual(t, s.logs.FilterMessage("the certificates of a listener were taken").Len(), 59)
}

func TestFilesThatCannotBeUsedAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := newAuthority(t, "a").issue("server", time.Now().Add(time.Hour))
	good := Files{Cert: filepath.Join(dir, "c"), Key: filepath.Join(dir, "k")}
	put(t, good.Cert, cert)
	put(t, good.Key, key)
	for want, files := range map[string]Files{
		"tls.cert_file: open":             {Cert: filepath.Join(dir, "none"), Key: good.Key},
		"tls.key_file: open":              {Cert: good.Cert, Key: filepath.Join(dir, "none")},
		"tls.cert_file and tls.key_file":  {Cert: good.Cert, Key: good.Cert},
		"tls.client_ca_file: open":        {Cert: good.Cert, Key: good.Key, ClientCA: filepath.Join(dir, "none")},
		"tls.client_ca_file: holds no ce": {Cert: good.Cert, Key: good.Key, ClientCA: good.Key},
	} {
		_, err := Open(files, zap.NewNop())
		require.ErrorContains(t, err, want)
	}
}
