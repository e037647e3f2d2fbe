package webhook

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddressesThatAreNeverCalled(t *testing.T) {
	for address, allowed := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "10.0.0.1:80": true, "192.168.1.1:80": true, "172.16.0.1:443": true, "[fd00::1]:80": true, "203.0.113.7:443": true, "[2001:db8::1]:443": true,
		"[64:ff9b::203.0.113.7]:443": true,
		"169.254.169.254:80":         false, "169.254.0.1:80": false, "[::ffff:169.254.169.254]:80": false, "[64:ff9b::169.254.169.254]:80": false,
		"[fe80::1]:80": false, "[fe80::1%eth0]:80": false, "[ff02::1]:80": false, "224.0.0.1:80": false,
		"0.0.0.0:80": false, "[::]:80": false, "[::ffff:0.0.0.0]:80": false, "[64:ff9b::0.0.0.0]:80": false,
		"hooks.example:80": false, "": false,
	} {
		err := checkAddress(address)
		if allowed {
			require.NoError(t, err, address)
			continue
		}
		e, ok := errors.AsType[*RefusedAddressError](err)
		require.True(t, ok, address)
		require.Equal(t, address, e.Address)
	}
}

// What counts is the address that a name leads to, when it is called.
func TestTheTransportAsksBeforeItDials(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	transport := NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	call := func(url string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
		require.NoError(t, err)
		resp, err := transport.RoundTrip(req)
		if err == nil {
			require.NoError(t, resp.Body.Close())
		}
		return err
	}
	require.NoError(t, call(server.URL), "loopback is the operator's choice")
	for _, url := range []string{"http://169.254.169.254/latest", "http://0.0.0.0:1/", "http://[::]:1/", "http://[::ffff:169.254.169.254]/"} {
		_, ok := errors.AsType[*RefusedAddressError](call(url))
		require.True(t, ok, url)
	}
}
