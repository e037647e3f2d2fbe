package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	dialTimeout  = 10 * time.Second
	idleTimeout  = 90 * time.Second
	maxIdleConns = 1024
	// copySize is the size of one write of a request body, in bytes. A small one costs a system call for every piece of a scan.
	copySize = 128 << 10
	// copyBuffers bounds how many such buffers are kept. Unlike a sync.Pool they survive a garbage collection, which a small heap has often.
	copyBuffers = 256
)

// NewTransport is the way to one provider. roots are the certificate authorities that it trusts; nil trusts the system's.
func NewTransport(roots *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout}
	buffers := NewBuffers(copySize, copyBuffers)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if tcp, ok := conn.(*net.TCPConn); ok {
				return &upstreamConn{tcp, buffers}, nil
			}
			return conn, err
		},
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2:   true,
		// A gateway's error may carry a long cookie; ten megabytes of head, the standard's limit, is an attack.
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true, // the worker's bytes are passed on as they are
		MaxIdleConnsPerHost:    maxIdleConns,
		IdleConnTimeout:        idleTimeout,
		WriteBufferSize:        64 << 10,
		ReadBufferSize:         32 << 10,
		Proxy:                  http.ProxyFromEnvironment, // where a site's only way out is a forward proxy; never for loopback
	}
}

// upstreamConn writes request bodies in large pieces from pooled buffers, where the standard connection takes a fresh small one for each.
type upstreamConn struct {
	*net.TCPConn
	buffers *Buffers
}

// inMemory is a body of known length that can be sent from where it lies, or from where it is read to while it arrives.
type inMemory interface {
	io.WriterTo
	Len() (int64, bool)
}

// ReadFrom sends what r gives: a file by the kernel, a body in memory from where it lies, anything else through a pooled buffer.
func (c *upstreamConn) ReadFrom(r io.Reader) (int64, error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		switch body := limited.R.(type) {
		case *os.File:
			return c.TCPConn.ReadFrom(r)
		case inMemory:
			if n, known := body.Len(); known && n == limited.N {
				return body.WriteTo(c.TCPConn)
			}
		}
	}
	buffer := c.buffers.Get()
	defer c.buffers.Put(buffer)
	// Only Write is passed on: with the whole connection the copy would end here again.
	return io.CopyBuffer(struct{ io.Writer }{c.TCPConn}, struct{ io.Reader }{r}, buffer)
}

// Buffers is a bounded list of buffers of one size, for copying. It is safe for concurrent use.
type Buffers struct {
	size int
	free chan []byte
}

// NewBuffers keeps up to limit buffers of that many bytes.
func NewBuffers(size, limit int) *Buffers {
	return &Buffers{size: size, free: make(chan []byte, limit)}
}

// Get takes a buffer from the list or makes one.
func (b *Buffers) Get() []byte {
	select {
	case buffer := <-b.free:
		return buffer
	default:
		return make([]byte, b.size)
	}
}

// Put gives a buffer back; one beyond the limit is left to the garbage collector.
func (b *Buffers) Put(buffer []byte) {
	select {
	case b.free <- buffer:
	default:
	}
}
