package spool

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// One body is sent several times, as a retry does, and arrives whole each time; what
// the transport closes late is given back as well.
func TestTransportSendsABodyAgainAndAgain(t *testing.T) {
	p := newPool(t, roomy())
	got := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- body
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()

	for _, size := range []int64{0, 1, 2000, ownSliceMax, ownSliceMax + 1, 300 * kib, 2 * mib} {
		data := noise(size)
		b := filled(t, p, data, false)
		for range 3 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, b.Open())
			require.NoError(t, err)
			req.ContentLength = size
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.True(t, bytes.Equal(data, <-got), "size %d", size)
		}
		b.Release()
	}
}

// An upstream that answers without reading leaves the transport with an open reader
// after RoundTrip; it must still see the body's own bytes and let go in the end.
func TestTransportMayCloseABodyLate(t *testing.T) {
	p := newPool(t, roomy())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	transport := &http.Transport{}
	for range 20 {
		b := filled(t, p, noise(mib), true)
		closed := make(chan struct{})
		body := &noticedClose{ReadCloser: b.Open(), closed: closed}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
		require.NoError(t, err)
		req.ContentLength = mib
		resp, err := transport.RoundTrip(req)
		b.Release()
		if err == nil { // a reset connection is an answer that came too early, and fine here
			require.NoError(t, resp.Body.Close())
		}
		<-closed
	}
	transport.CloseIdleConnections()
	server.Close()
}

type noticedClose struct {
	io.ReadCloser
	once   sync.Once
	closed chan struct{}
}

func (n *noticedClose) Close() error {
	err := n.ReadCloser.Close()
	n.once.Do(func() { close(n.closed) })
	return err
}
