package main

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/share"
)

// openState begins to share with other processes; nil where this one keeps to itself. The server need not be there.
func openState(c config.State, log *zap.Logger, reg prometheus.Registerer) (*share.Store, error) {
	if c.URL == "" {
		return nil, nil //nolint:nilnil // nil is how the rest spells "nothing is shared"
	}
	store, err := share.Open(share.Options{Address: c.URL.Reveal(), Log: log, Registerer: reg})
	if err != nil {
		return nil, fmt.Errorf("state.url: %w", err)
	}
	return store, nil
}

// together lets an account's breaker, queues and jobs act as one with those of other processes. Breakers of single credentials stay in this
// process, which alone knows the key under which it hashes them.
func (s *shared) together(c config.Provider, breakers *breaker.Group, queues *pace.Queues, permits *pace.Permits) {
	if s.state == nil {
		return
	}
	account := s.state.Account(c.Name, c.Kind, c.UpstreamURL().Host)
	account.Circuit(breakers.For(""), queues.CircuitChanged)
	queues.Share(func(scope string, t pace.Tuning, wake func()) pace.Pacer { return account.Pacer(scope, t, wake) })
	if permits != nil {
		permits.Share(func(wake func(), jobs func() []pace.Job) pace.Places { return account.Places(wake, jobs) })
	}
}
