package main

import (
	"path/filepath"
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
	outbox *webhook.Outbox // nil: there is no webhook
}

// open begins to announce, when the configuration names a webhook. The outbox lies in the dead-letter folder, so that the folder's lock, which
// is held already, is the outbox's too.
func (a *announcer) open(cfg config.DeadLetters, log *zap.Logger, metrics *webhook.Metrics) error {
	if cfg.Webhook.URL == "" {
		return nil
	}
	o := webhook.Options{
		URL: cfg.Webhook.Address(), Timeout: cfg.Webhook.Timeout, MaxBytes: min(max(int64(cfg.MaxBytes)/outboxShare, minOutbox), maxOutbox),
		UserAgent: "ocr-proxy/" + thisBuild().version, Logger: log, Metrics: metrics,
	}
	if cfg.Webhook.SecretFile != "" {
		o.Key = cfg.Webhook.SigningKey
	}
	var err error
	a.outbox, err = webhook.Open(filepath.Join(cfg.Dir, "outbox"), o)
	return err
}

// Emit writes an event for the webhook, if there is one. What [webhook.Outbox.Emit] says of errors holds.
func (a *announcer) Emit(kind string, at time.Time, data any) error {
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
	if a.outbox == nil {
		return nil
	}
	return a.outbox.Close()
}

// circuit is what events about a circuit tell.
type circuit struct {
	Account string         `json:"account"`
	Kind    string         `json:"kind"`
	Reason  breaker.Reason `json:"reason"` // why it is, or was, not closed
	Since   time.Time      `json:"since"`  // since when
}
