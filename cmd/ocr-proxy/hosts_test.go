package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
)

// dialed is a connection to a listener, on which a test writes what no client library would.
func dialed(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

func written(t *testing.T, url, text string) (status int, header http.Header, body string) {
	t.Helper()
	conn := dialed(t, url)
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	data, err := io.ReadAll(io.LimitReader(resp.Body, max(resp.ContentLength, 0)))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, resp.Header, string(data)
}

// A page whose own name was given the address of this machine sends that name. PORT stands for the listener's own.
func TestAListenerIsCalledByItsOwnNamesOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listen, more string
		own, others  []string
	}{
		{
			listen: "127.0.0.1:0",
			own: []string{
				"127.0.0.1:PORT", "localhost:PORT", "LOCALHOST", "localhost.:PORT", "ocr.localhost:PORT", "[::1]:PORT", "[::1]", "[fe80::1%25lo]:PORT", "10.0.0.7",
				"host.docker.internal:PORT", "host.containers.internal:PORT", "",
			},
			others: []string{
				"evil.example:PORT", "evil.example", "EVIL.example.:PORT", "localhost.evil.example:PORT", "127.0.0.1.evil.example:PORT", "evillocalhost:PORT",
				"2130706433:PORT", "0x7f.1:PORT", "[evil.example]:PORT", "evil.example:PORT:80", "evil.docker.internal:PORT", "ocr-proxy:PORT", "ocr.svc.cluster.local:PORT",
			},
		},
		{
			listen: "localhost:0", more: ", hosts: [ocr-proxy, OCR.Svc.Cluster.Local.]",
			own:    []string{"ocr-proxy:PORT", "OCR-PROXY", "ocr.svc.cluster.local:PORT", "localhost:PORT"},
			others: []string{"evil.example:PORT", "ocr-proxy.evil.example:PORT"},
		},
		{listen: "127.0.0.1:0", more: ", mode: observe", own: []string{"localhost:PORT"}, others: []string{"evil.example:PORT"}},
		{listen: "0.0.0.0:0", own: []string{"evil.example:PORT", "ocr.svc.cluster.local"}},
		{listen: "0.0.0.0:0", more: ", hosts: [ocr-proxy]", own: []string{"ocr-proxy:PORT", "10.0.0.7:PORT"}, others: []string{"evil.example:PORT"}},
	} {
		var arrived atomic.Int32
		r := startChanging(t, "providers:\n"+entry("a", c.listen, provide(t, func(http.ResponseWriter, *http.Request) { arrived.Add(1) }), c.more))
		_, port, err := net.SplitHostPort(strings.TrimPrefix(r.address("a"), "http://"))
		require.NoError(t, err)
		asked := func(method, host string) (int, http.Header, string) {
			host = strings.ReplaceAll(host, "PORT", port)
			return written(t, "http://127.0.0.1:"+port, method+" /ocr HTTP/1.1\r\nHost: "+host+"\r\nContent-Length: 0\r\n\r\n")
		}
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			for _, host := range c.own {
				arrived.Store(0)
				status, _, body := asked(method, host)
				require.Equal(t, []any{http.StatusOK, 1}, []any{status, int(arrived.Load())}, "%s %q at %s%s: %s", method, host, c.listen, c.more, body)
			}
			arrived.Store(0)
			for _, host := range c.others {
				status, header, body := asked(method, host)
				require.Equal(t, http.StatusForbidden, status, "%s %q at %s%s", method, host, c.listen, c.more)
				require.Contains(t, body, "hosts of this account's configuration")
				if r.current()[0].Observe == nil {
					require.Equal(t, "unknown_host", header.Get("Ocr-Proxy-Reason"))
				}
			}
			require.Zero(t, arrived.Load(), "nothing goes to the provider")
		}
	}
}

// Clients that something else forwards here keep the name and the port that they were told. A browser names its port, too, and with a POST its page.
func TestWhoComesByAnotherDoorMayCallTheListenerAsItDoes(t *testing.T) {
	t.Parallel()
	p := serving(t, provide(t, echo), "")
	for raw, want := range map[string]int{
		"POST /ocr HTTP/1.1\r\nHost: worker.example:1\r\nContent-Length: 0\r\n\r\n":                                    http.StatusOK,
		"GET /ocr HTTP/1.1\r\nHost: worker.example:1\r\n\r\n":                                                          http.StatusForbidden,
		"HEAD /ocr HTTP/1.1\r\nHost: worker.example:1\r\n\r\n":                                                         http.StatusForbidden,
		"POST /ocr HTTP/1.1\r\nHost: worker.example\r\nContent-Length: 0\r\n\r\n":                                      http.StatusForbidden,
		"POST /ocr HTTP/1.1\r\nHost: worker.example:1\r\nOrigin: http://worker.example:1\r\nContent-Length: 0\r\n\r\n": http.StatusForbidden,
		"GET /ocr HTTP/1.1\r\nHost: localhost@evil.example\r\n\r\n":                                                    http.StatusBadRequest,
		"GET /ocr HTTP/1.1\r\nHost: evil.example@localhost\r\n\r\n":                                                    http.StatusBadRequest,
		"GET /ocr HTTP/1.0\r\n\r\n":                                                                                    http.StatusOK,
		"GET /ocr HTTP/1.1\r\n\r\n":                                                                                    http.StatusBadRequest, // HTTP asks for a Host,
		"GET /ocr HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n":                                           http.StatusBadRequest, // and for one
	} {
		status, _, _ := written(t, p.account, raw)
		require.Equal(t, want, status, raw)
	}
}

// rpc makes one call over HTTP/2 in the clear, with the pseudo headers and headers given, and gives the headers of the answer.
func rpc(t *testing.T, url string, fields ...[2]string) map[string]string {
	t.Helper()
	conn := dialed(t, url)
	_, err := io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	require.NoError(t, framer.WriteSettings())
	var head bytes.Buffer
	encoder := hpack.NewEncoder(&head)
	for _, f := range append([][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/google.cloud.documentai.v1.DocumentProcessorService/ProcessDocument"}}, fields...) {
		require.NoError(t, encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true}))
	require.NoError(t, framer.WriteData(1, true, []byte{0, 0, 0, 0, 0}))
	got := map[string]string{}
	for {
		frame, err := framer.ReadFrame()
		require.NoError(t, err)
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				got[field.Name] = field.Value
			}
			if f.StreamEnded() {
				return got
			}
		case *http2.RSTStreamFrame:
			got["reset"] = f.ErrCode.String()
			return got
		}
	}
}

// Over HTTP/2 the name is that of :authority, whatever a Host header says beside it; a browser writes neither as its page likes.
func TestNamesOverHTTP2(t *testing.T) {
	t.Parallel()
	var hosts []string
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host+strings.Join(r.Header["Host"], ","))
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "0")
	}))
	upstream.Config.Protocols = proxy.Protocols()
	upstream.Start()
	t.Cleanup(upstream.Close)
	p := servingKind(t, "documentai", upstream.URL, "")
	own := strings.TrimPrefix(p.account, "http://")
	_, port, err := net.SplitHostPort(own)
	require.NoError(t, err)
	call := func(fields ...[2]string) map[string]string {
		return rpc(t, p.account, append(fields, [2]string{"content-type", "application/grpc"}, [2]string{"te", "trailers"})...)
	}
	for _, fields := range [][][2]string{
		{{":authority", "evil.example:" + port}},
		{{":authority", "evil.example:" + port}, {"host", own}},
		{{"host", "evil.example:" + port}},
	} {
		got := call(fields...)
		require.Equal(t, []string{"7", "unknown_host"}, []string{got["grpc-status"], got["ocr-proxy-reason"]}, got)
		require.Contains(t, got["grpc-message"], "hosts of this account's configuration")
	}
	require.Empty(t, hosts)
	for _, fields := range [][][2]string{{{":authority", own}}, {{":authority", own}, {"host", "evil.example:" + port}}, {{"host", own}}} {
		require.Equal(t, "0", call(fields...)["grpc-status"], fields)
	}
	there := strings.TrimPrefix(upstream.URL, "http://")
	require.Equal(t, []string{there, there, there}, hosts, "the provider hears its own")
}

func TestTheProvidersOwnNameIsTheListenersToo(t *testing.T) {
	t.Parallel()
	known := callNames(config.Provider{Listen: "127.0.0.1:8081", Upstream: "https://api.provider.example/v1"})
	for host, foreign := range map[string]bool{"API.provider.example": false, "api.provider.example.:443": false, "x.api.provider.example": true, "provider.example": true} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		require.Equal(t, foreign, known.Foreign(r), host)
	}
	require.Nil(t, callNames(config.Provider{Listen: "10.0.0.1:8081", Upstream: "https://api.provider.example"}))
}
