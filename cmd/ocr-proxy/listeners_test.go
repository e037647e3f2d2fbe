package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/ocr-proxy/ocr-proxy/internal/listen"
	"github.com/ocr-proxy/ocr-proxy/internal/memnet"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
)

// Those who say nothing, or say it a byte at a time, have their places taken from them, however many there are, and over HTTP/2 as well.
func TestASlowHeadHoldsNoPlaceForLong(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]struct{ atOnce, slowly string }{
		"silence":                {},
		"a head":                 {"", "GET /ocr HTTP/1.1\r\nHost: localhost\r\nX-Long: " + strings.Repeat("x", 1000)},
		"HTTP/2's preface":       {"", http2.ClientPreface},
		"a head over HTTP/2":     {http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00", "\x00\x40\x00\x01\x00\x00\x00\x00\x01" + strings.Repeat("x", 1000)},
		"half of a TLS greeting": {"", "\x16\x03\x01\x02\x00\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				network := new(memnet.Network)
				l, err := network.Listen("proxy:80")
				require.NoError(t, err)
				s := &server{log: zap.NewNop(), ending: t.Context()}
				b := s.newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
				b.Protocols = proxy.Protocols()
				door := listen.NewDoor(l, 2, zap.NewNop())
				go func() { _ = b.Serve(door) }()
				defer func() { require.NoError(t, b.Close()) }()
				var writers sync.WaitGroup
				defer writers.Wait()
				for range 2 {
					conn, err := network.DialContext(t.Context(), "tcp", "proxy:80")
					require.NoError(t, err)
					writers.Go(func() { _, _ = io.Copy(io.Discard, conn) })
					writers.Go(func() {
						_, _ = io.WriteString(conn, says.atOnce)
						for i := range len(says.slowly) {
							if _, err := conn.Write([]byte{says.slowly[i]}); err != nil {
								return
							}
							time.Sleep(time.Second)
						}
					})
					defer func() { _ = conn.Close() }()
				}
				began := time.Now()
				honest, err := network.DialContext(t.Context(), "tcp", "proxy:80")
				require.NoError(t, err)
				defer func() { _ = honest.Close() }()
				_, err = io.WriteString(honest, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
				require.NoError(t, err)
				resp, err := http.ReadResponse(bufio.NewReader(honest), nil)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				waited := time.Since(began)
				require.Positive(t, waited, "there was no room")
				if says.atOnce == "" {
					require.LessOrEqual(t, waited, headerTimeout)
				}
				require.LessOrEqual(t, waited, 2*headerTimeout)
			})
		})
	}
}

// An account's listener that is full leaves health, metrics and other accounts alone, and lets in whoever waits as soon as one leaves or the limit rises.
func TestAFullListenerHoldsNobodyElseUp(t *testing.T) {
	t.Parallel()
	upstream := provide(t, echo)
	with := func(limit int) string {
		return "providers:\n" + entry("a", "127.0.0.1:0", upstream, fmt.Sprintf(", max_connections: %d", limit)) + entry("b", "127.0.0.1:0", upstream, "")
	}
	r := startChanging(t, with(2))
	a := r.address("a")
	idle := []net.Conn{dialed(t, a), dialed(t, a)}
	for _, conn := range idle { // each is kept after its answer
		_, err := io.WriteString(conn, "POST /ocr HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	waiting := make(chan int, 2)
	for range 2 {
		go func() {
			status, _, _ := r.post(a)
			waiting <- status
		}()
	}
	require.Eventually(t, func() bool { return r.counter(`ocrproxy_connections_limit_reached_total\{listener="a"\}`) == 1 }, patience, idlePoll)
	require.InDelta(t, 2, r.counter(`ocrproxy_connections\{listener="a"\}`), 0)
	require.InDelta(t, 2, r.counter(`ocrproxy_connections_limit\{listener="a"\}`), 0)
	require.InDelta(t, 512, r.counter(`ocrproxy_connections_limit\{listener="\(admin\)"\}`), 0)
	status, _, err := r.post(r.address("b"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, waiting)
	require.Equal(t, 1, r.logs.FilterMessage("a listener has as many connections as it may; further ones wait until one ends").Len())
	require.NoError(t, idle[0].Close())
	require.Equal(t, http.StatusOK, <-waiting)
	require.Empty(t, r.change(with(9)))
	require.Equal(t, http.StatusOK, <-waiting)
	require.InDelta(t, 9, r.counter(`ocrproxy_connections_limit\{listener="a"\}`), 0)
	r.change("providers:\n" + entry("b", "127.0.0.1:0", upstream, ""))
	require.InDelta(t, -1, r.counter(`ocrproxy_connections\{listener="a"\}`), 0, "what was taken out is not shown any more")
}

// The bounds of heads and streams are the same for gRPC.
func TestBoundsOverHTTP2(t *testing.T) {
	t.Parallel()
	p := servingKind(t, "documentai", provide(t, echo), "")
	open := func() (*http2.Framer, *hpack.Encoder, *strings.Builder) {
		conn := dialed(t, p.account)
		_, err := io.WriteString(conn, http2.ClientPreface)
		require.NoError(t, err)
		framer := http2.NewFramer(conn, conn)
		framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		require.NoError(t, framer.WriteSettings())
		head := new(strings.Builder)
		return framer, hpack.NewEncoder(head), head
	}
	// until gives the first frame for which is holds, or the error with which the connection ended.
	until := func(framer *http2.Framer, is func(http2.Frame) bool) error {
		for {
			frame, err := framer.ReadFrame()
			if err != nil || is(frame) {
				return err
			}
		}
	}

	framer, _, _ := open()
	require.NoError(t, until(framer, func(f http2.Frame) bool {
		settings, ok := f.(*http2.SettingsFrame)
		if !ok {
			return false
		}
		streams, _ := settings.Value(http2.SettingMaxConcurrentStreams)
		require.EqualValues(t, 250, streams)
		size, _ := settings.Value(http2.SettingMaxHeaderListSize)
		require.InDelta(t, maxHeader, size, 4096)
		return true
	}))

	framer, encoder, head := open()
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "localhost"}, {":path", "/x"}} {
		require.NoError(t, encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	require.NoError(t, encoder.WriteField(hpack.HeaderField{Name: "x-long", Value: strings.Repeat("x", 2*maxHeader)}))
	block := []byte(head.String())
	require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, BlockFragment: block[:16000]}))
	for block = block[16000:]; len(block) > 0; block = block[min(len(block), 16000):] {
		if framer.WriteContinuation(1, len(block) <= 16000, block[:min(len(block), 16000)]) != nil {
			break // it is refused before it has come whole
		}
	}
	require.Error(t, until(framer, func(f http2.Frame) bool {
		_, answered := f.(*http2.MetaHeadersFrame)
		return answered
	}), "the connection ends without an answer")
	status, _, _ := written(t, p.account, "GET /x HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 2*maxHeader)+"\r\n\r\n")
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, status)
	require.NotContains(t, p.log.String(), `"msg":"request"`, "none of it was a request")
}

// selfSigned writes a certificate and its key.
func selfSigned(t *testing.T, cert, key, name string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &own.PublicKey, own)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(own)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// shownBy is whose certificate a listener shows.
func shownBy(t *testing.T, url string) string {
	t.Helper()
	conn := tls.Client(dialed(t, url), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, conn.HandshakeContext(t.Context()))
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// A reload takes what the files of certificates hold; a broken pair is refused with the rest of the configuration.
func TestAReloadTakesNewCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "c"), filepath.Join(dir, "k")
	selfSigned(t, cert, key, "first")
	text := "providers:\n" + entry("a", "127.0.0.1:0", provide(t, echo), fmt.Sprintf(", tls: {cert_file: %q, key_file: %q}", cert, key))
	r := startChanging(t, text)
	a := r.address("a")
	require.Equal(t, "first", shownBy(t, a))
	selfSigned(t, cert, key, "second")
	require.Empty(t, r.change(text))
	require.Equal(t, a, r.address("a"), "the listener stays")
	require.Equal(t, "second", shownBy(t, a))
	require.InDelta(t, 1, r.counter(`ocrproxy_tls_last_reload_successful\{listener="a"\}`), 0)
	require.Greater(t, r.counter(`ocrproxy_tls_certificate_expiry_timestamp_seconds\{listener="a"\}`), float64(time.Now().Unix()))
	require.InDelta(t, -1, r.counter(`ocrproxy_tls_last_reload_successful\{listener="\(admin\)"\}`), 0, "it serves in the clear")
}

// Nobody has to ask: the files are looked at all the time.
func TestFilesOfCertificatesAreLookedAtAllTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cert, key := filepath.Join(dir, "c"), filepath.Join(dir, "k")
		selfSigned(t, cert, key, "first")
		certificates, err := listen.Open(listen.Files{Cert: cert, Key: key}, zap.NewNop())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{admin: &bound{certificates: certificates}}
		go s.tendCertificates(ctx)
		shown := func() string {
			conf, err := certificates.Config().GetConfigForClient(nil)
			require.NoError(t, err)
			leaf, err := x509.ParseCertificate(conf.Certificates[0].Certificate[0])
			require.NoError(t, err)
			return leaf.Subject.CommonName
		}
		selfSigned(t, cert, key, "second")
		time.Sleep(lookEvery + time.Millisecond)
		synctest.Wait()
		require.Equal(t, "first", shown())
		time.Sleep(lookEvery)
		synctest.Wait()
		require.Equal(t, "second", shown())
		cancel()
		synctest.Wait()
	})
}
