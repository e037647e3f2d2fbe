package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// bareProxy is the floor: httputil.ReverseProxy without any feature. With spill, bodies beyond 1 MiB are first written to an unlinked file,
// as anything that may have to send them twice must do.
func bareProxy(upstream string, spill bool) (http.Handler, error) {
	u, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		MaxIdleConnsPerHost: 1024, IdleConnTimeout: 90 * time.Second, DisableCompression: true, WriteBufferSize: 64 << 10, ReadBufferSize: 32 << 10,
	}
	p := &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport:  transport,
		BufferPool: &pool{sync.Pool{New: func() any { return new([32 << 10]byte) }}},
	}
	if spill {
		p.Transport = spilling{transport}
		return p, nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without it an answer that comes before the end of the body is cut off.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		p.ServeHTTP(w, r)
	}), nil
}

type pool struct{ sync.Pool }

func (p *pool) Get() []byte  { return p.Pool.Get().(*[32 << 10]byte)[:] } //nolint:forcetypeassert // nothing else is in it
func (p *pool) Put(b []byte) { p.Pool.Put((*[32 << 10]byte)(b)) }

// spilling buffers each body before it goes on.
type spilling struct{ next http.RoundTripper }

const spillBeyond = 1 << 20

func (s spilling) RoundTrip(in *http.Request) (*http.Response, error) {
	out := in.WithContext(in.Context())
	if in.ContentLength <= spillBeyond {
		body, err := io.ReadAll(in.Body)
		if err != nil {
			return nil, err
		}
		out.Body = io.NopCloser(bytes.NewReader(body))
		return s.next.RoundTrip(out)
	}
	f, err := os.CreateTemp("", "body-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	buffer := make([]byte, 128<<10)
	if _, err = io.CopyBuffer(struct{ io.Writer }{f}, in.Body, buffer); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	out.Body = f
	return s.next.RoundTrip(out)
}

// ocrAnswer is JSON of the size that one page brings.
func ocrAnswer() []byte {
	var b strings.Builder
	b.WriteString(`{"pages":[{"words":[`)
	for i := range 200 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"text":"word-%d","confidence":0.9%d,"box":[0.1,0.2,0.3,0.4],"id":"%08d"}`, i, i%10, i)
	}
	b.WriteString(`]}]}`)
	return []byte(b.String())
}
