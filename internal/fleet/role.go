package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

// serveRole is the life of a child process of this program. It tells on its standard error what the real program does.
func serveRole(o options) error {
	var h http.Handler
	switch o.role {
	case "blocked":
		h = &holder{}
	case "bare":
		u, err := url.Parse(o.upstream)
		if err != nil {
			return err
		}
		h = &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(u) },
			Transport: &http.Transport{DisableCompression: true},
		}
	default:
		return fmt.Errorf("no role is called %q", o.role)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	log := json.NewEncoder(os.Stderr)
	for _, line := range []map[string]string{{"msg": "listening", "provider": o.role, "listen": l.Addr().String()}, {"msg": "ready"}} {
		if err := log.Encode(line); err != nil {
			return err
		}
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	return s.Serve(l)
}
