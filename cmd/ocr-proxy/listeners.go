package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/listen"
)

const (
	// headerTimeout is how long the head of a request may take, a TLS handshake, and a connection that says nothing at all. Over HTTP/2 a connection
	// from which no whole frame came for so long is asked whether it is there, and has as long to answer, which who is within a head cannot.
	headerTimeout = 15 * time.Second
	// idleTimeout is how long a connection is kept that has had its answer.
	idleTimeout = 3 * time.Minute
	// maxHeader bounds the head of a request, in bytes, over HTTP/1 and HTTP/2 alike.
	maxHeader = 64 << 10
	// adminConnections bounds those of the admin listener: its own, so that health can be asked for when an account's listener is full.
	adminConnections = 512
	// adminName is the admin listener's in metrics, which no account can have.
	adminName = "(admin)"
)

// bind opens a listener for a handler, with the limits that keep slow clients from holding it for ever, and many from holding all of it.
func (s *server) bind(ctx context.Context, key, address string, conf config.ServerTLS, connections int, handler http.Handler) (*bound, error) {
	b := &bound{}
	if conf.Enabled() {
		var err error
		b.certificates, err = listen.Open(listen.Files{Cert: conf.CertFile, Key: conf.KeyFile, ClientCA: conf.ClientCAFile}, s.log.With(zap.String("listener", key)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		handler = b.certificates.Guard(handler)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen on %s: %w", key, address, err)
	}
	b.listener = listen.NewDoor(listener, connections, s.log.With(zap.String("listener", key)))
	b.Server = s.newServer(handler)
	if b.certificates != nil {
		b.TLSConfig = b.certificates.Config()
		b.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return b.certificates.Connected(ctx) }
	}
	return b, nil
}

// newServer is a server with the limits of all listeners.
func (s *server) newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		HTTP2:       &http.HTTP2Config{SendPingTimeout: headerTimeout, PingTimeout: headerTimeout},
		BaseContext: func(net.Listener) context.Context { return s.ending },
		ErrorLog:    zap.NewStdLog(s.log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))),
	}
}

// showListeners has metrics show the listeners that take connections; mu is held, or nothing runs yet.
func (s *server) showListeners() {
	all := map[string]listen.Shown{adminName: {Door: s.admin.listener, Certificates: s.admin.certificates}}
	for _, b := range s.servers {
		if !b.leaves {
			all[b.name] = listen.Shown{Door: b.listener, Certificates: b.certificates}
		}
	}
	s.doors.Show(all)
}

// tendCertificates looks after the certificates of all listeners until the context ends.
func (s *server) tendCertificates(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.mu.Lock()
			all := append(slices.Clone(s.servers), s.admin)
			s.mu.Unlock()
			lookAtCertificates(all, false)
		}
	}
}

func lookAtCertificates(all []*bound, asked bool) {
	for _, b := range all {
		if b.certificates != nil {
			b.certificates.Look(asked)
		}
	}
}
