package main

import (
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/config"
	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/webhook"
)

const (
	// outboxShare is the part of dead_letters.max_bytes that undelivered events may take besides, for each of their two streams, within
	// minOutbox and maxOutbox.
	outboxShare          = 10
	minOutbox, maxOutbox = 1 << 20, 1 << 30 // bytes
)

// announcer turns what happens into events of the webhook. The zero value is ready and tells nobody.
type announcer struct {
	log     *zap.Logger
	metrics *webhook.Metrics

	mu     sync.RWMutex
	cfg    config.Webhook
	outbox *webhook.Outbox // nil: there is no webhook
}

// open begins to announce, when the configuration names a webhook. The outbox lies in the dead-letter folder, so that the folder's lock, which
// is held already, is the outbox's too.
func (a *announcer) open(cfg config.DeadLetters, log *zap.Logger, metrics *webhook.Metrics) error {
	a.log, a.metrics = log, metrics
	return a.change(cfg)
}

// change announces as the configuration says from now on. What was not delivered yet goes to the new receiver; without one it is kept. An error
// leaves everything as it was.
func (a *announcer) change(cfg config.DeadLetters) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cfg == cfg.Webhook {
		return nil
	}
	if cfg.Webhook.URL == "" {
		_ = a.shut() // nobody is left to be told
		a.cfg = cfg.Webhook
		return nil
	}
	o := a.options(cfg)
	if a.outbox != nil {
		if a.outbox.Redirect(o) {
			a.cfg = cfg.Webhook
			return nil
		}
		_ = a.shut() // its receiver had gone: it holds nothing but its files
	}
	outbox, err := webhook.Open(filepath.Join(cfg.Dir, "outbox"), o)
	if err == nil {
		a.cfg, a.outbox = cfg.Webhook, outbox
	}
	return err
}

func (a *announcer) options(cfg config.DeadLetters) webhook.Options {
	o := webhook.Options{
		URL: cfg.Webhook.Address(), Timeout: cfg.Webhook.Timeout, MaxBytes: min(max(int64(cfg.MaxBytes)/outboxShare, minOutbox), maxOutbox),
		UserAgent: "ocr-proxy/" + thisBuild().version, Logger: a.log, Metrics: a.metrics,
	}
	if cfg.Webhook.SecretFile != "" {
		o.Key = cfg.Webhook.SigningKey
	}
	return o
}

// shut closes the outbox, if there is one; mu is held.
func (a *announcer) shut() error {
	if a.outbox == nil {
		return nil
	}
	defer func() { a.outbox = nil }()
	return a.outbox.Close()
}

// Emit writes an event for the webhook, if there is one. What [webhook.Outbox.Emit] says of errors holds.
func (a *announcer) Emit(kind string, at time.Time, data any) error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.outbox == nil {
		return nil
	}
	return a.outbox.Emit(kind, at, data)
}

// Created implements [dlq.Observer].
func (a *announcer) Created(e *dlq.Envelope) { _ = a.Emit(webhook.LetterCreated, e.FailedAt, e) } // A loss was logged.

// Resolved implements [dlq.Observer].
func (a *announcer) Resolved(e *dlq.Envelope) { _ = a.Emit(webhook.LetterResolved, e.Resolution.At, e) }

func (a *announcer) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shut()
}

// circuit is what events about a circuit tell.
type circuit struct {
	Account string         `json:"account"`
	Kind    string         `json:"kind"`
	Reason  breaker.Reason `json:"reason"` // why it is, or was, not closed
	Since   time.Time      `json:"since"`  // since when
}
