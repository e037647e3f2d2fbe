package proxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// heal resolves the open letters about the very request that has now succeeded, when its worker has the answer: it does not wait for our disk,
// and one that cannot be given the answer keeps its letter.
func (x *exchange) heal() {
	x.healed("", func() bool {
		err := x.control.Flush()
		return err == nil || errors.Is(err, http.ErrNotSupported)
	})
}

// healReviewed resolves the letters about earlier answers to the same request that were to be looked at, before the worker has the better one.
// It had those as well, so that nothing is lost with it, and whoever looks at the letters once it has the answer does not find them.
func (x *exchange) healReviewed() {
	if x.account.Scrutiny.on() && x.last != nil && !x.last.streams {
		x.healed(classify.Soft.Failure(), func() bool { return true })
	}
}

// healed resolves letters of a failure class, any with "", when there are some and they may be resolved now. The request is hashed only when a letter
// about a call like it is open.
func (x *exchange) healed(class string, may func() bool) {
	if x.outcome != Success || x.reason == reasonJournaled { // then nothing new has succeeded
		return
	}
	if job := x.job; job != nil && job.record != nil && !job.failed && x.polls() {
		r := job.record
		x.resolve(may, dlq.Done{Class: class, RequestFingerprint: r.RequestFingerprint, DocumentID: r.DocumentID, IdempotencyKey: r.IdempotencyKey, Tenant: r.Tenant})
	}
	var size int64
	if x.body != nil {
		size = x.body.Size()
	}
	if !x.listener.Letters.May(x.op.Name, size) {
		return
	}
	keys, err := x.identify()
	if err != nil {
		return // a body that cannot be read again: the letter stays, which costs nobody a document
	}
	x.resolve(may, dlq.Done{
		Class:              class,
		RequestFingerprint: keys.Fingerprint, DocumentID: cmp.Or(x.ask.documentID, keys.Idempotency), IdempotencyKey: keys.Idempotency,
		Tenant: x.ask.tenant, Started: x.starts(),
	})
}

// resolve resolves the open letters about what is done.
func (x *exchange) resolve(may func() bool, done dlq.Done) {
	if !may() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.in.Context()), buryTime)
	defer cancel()
	resolved, err := x.listener.Letters.Resolve(ctx, done, dlq.Resolution{By: "proxy", Note: "resolved by a later success"})
	for _, id := range resolved {
		x.listener.Log.Info("dead letter resolved by a later success", zap.String("provider", x.listener.Name), zap.String("dead_letter_id", id))
	}
	if err != nil {
		x.listener.Log.Warn("a dead letter could not be resolved by a later success: it stays open", zap.String("provider", x.listener.Name), zap.Error(err))
	}
}
