package main

import (
	"bytes"
	"context"
	"net/http"
	"reflect"
	"sync/atomic"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/watch"
)

// standing is what an account has beside its settings, and keeps when they change: what was learned of its provider, who waits, what is counted.
type standing struct {
	breakers  *breaker.Group
	queues    *pace.Queues
	permits   *pace.Permits
	purse     *retry.Purse
	watch     *watch.Account
	metrics   *proxy.AccountMetrics
	hold      atomic.Bool   // those who wait for an open circuit to close are held
	recovered chan struct{} // told when its circuits have closed; what is not heard at once is heard later, once
}

// standingKey tells accounts apart: another provider behind the same name is another account, and what an account found that only observed is not
// what it goes by when it acts.
type standingKey struct {
	name, kind, upstream string
	observes             bool
}

func keyOf(c config.Provider) standingKey {
	return standingKey{c.Name, c.Kind, c.Upstream, c.Observes()}
}

// of is what an account that was wired has beside its settings.
func (s *shared) of(c config.Provider) *standing {
	return s.standing[keyOf(c)]
}

// tune has an account that stands already go by other settings. Those who wait are told.
func (s *shared) tune(c config.Provider) {
	st := s.of(c)
	st.hold.Store(holds(c))
	st.breakers.Update(breakerSettings(c))
	st.queues.Update(queueSettings(c))
	st.permits.Update(c.Pacing.OpenJobs, c.Pacing.Recovery)
	st.queues.CircuitChanged()
	s.show(c)
}

// show shows the state of an account that is in effect now, in place of another's of that name.
func (s *shared) show(c config.Provider) {
	st := s.of(c)
	s.breakers.Add(st.breakers)
	s.queues.Add(st.queues)
	s.requests.Show(st.metrics, c.Observes())
}

// hide stops showing the state of an account that was taken out.
func (s *shared) hide(name string) {
	s.breakers.Remove(name)
	s.queues.Remove(name)
	s.requests.Remove(name)
}

// secret is a credential and what it was made of.
type secret struct {
	auth config.Auth
	*credential.Credential
}

// secret makes what an account proves with who it is, or gives the one that it has where nothing about it changed: tokens that were fetched stay.
func (s *shared) secret(ctx context.Context, c config.Provider, key string, a config.Auth) (*credential.Credential, error) {
	at := c.Name + "." + key
	if has, ok := s.secrets[at]; ok && reflect.DeepEqual(has.auth, a) {
		return has.Credential, nil
	}
	made, err := s.credential(ctx, c, key, a)
	if err == nil {
		s.secrets[at] = secret{a, made}
	}
	return made, err
}

// way is how an account's calls reach its upstream, and the authorities that it trusts beside the system's.
type way struct {
	pem         []byte
	plain, grpc *http.Transport
}

// way gives an account's transports: those that it has, with their connections, unless the authorities have changed.
func (s *shared) way(c config.Provider) (way, error) {
	pem, err := upstreamAuthorities(c.UpstreamTLS.CAFile)
	if err != nil {
		return way{}, err
	}
	has, ok := s.ways[c.Name]
	if ok && bytes.Equal(has.pem, pem) {
		return has, nil
	}
	roots, err := upstreamRoots(pem)
	if err != nil {
		return way{}, err
	}
	if ok {
		has.plain.CloseIdleConnections()
		has.grpc.CloseIdleConnections()
	}
	s.ways[c.Name] = way{pem, proxy.NewTransport(roots), proxy.NewGRPCTransport(roots)}
	return s.ways[c.Name], nil
}
