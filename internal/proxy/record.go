package proxy

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

// report counts a request that is over and writes its one line. A broken stream is known only now, when the worker already has the head: its
// document is buried all the same, so that it is not lost when the worker does not come back.
func (x *exchange) report() {
	a := x.listener
	x.endDelivery()
	if x.outcome == Success && len(x.history) > 0 {
		switch last := x.history[len(x.history)-1]; {
		case last.verdict.Code == codeHungUp:
			x.outcome = ClientGone
		case last.ambiguous && last.err != nil:
			x.outcome, x.stop, x.reason = Exhausted, retry.Unsafe, "broken_answer"
			x.letter = x.bury()
		}
	}
	if x.outcome == "" {
		x.outcome = ClientGone // the worker's connection broke in a way that nothing above saw
	}
	total := time.Since(x.start)
	if x.resent == nil { // a replay is no worker's request, and its failure no new letter
		a.Metrics.request(x, total)
		a.Watch.Request(x.letter != "")
	}
	x.log(total)
	x.endTrace(total)
}

// log writes the canonical line of a request: everything that is known of it, once, without a secret.
func (x *exchange) log(total time.Duration) {
	level := zapcore.InfoLevel
	if x.outcome != Success && x.outcome != ClientGone {
		level = zapcore.WarnLevel
	}
	word := "request"
	if x.resent != nil {
		word = "replay"
	}
	entry := x.listener.Log.Check(level, word)
	if entry == nil {
		return
	}
	pooled := x.listener.fields.get()
	fields := (*pooled)[:0]
	defer func() {
		clear(fields)
		*pooled = fields
		x.listener.fields.put(pooled)
	}()
	query, _ := scrub.Query(x.in.URL.RawQuery)
	fields = append(fields,
		zap.String("provider", x.listener.Name), zap.String("operation", x.op.Name),
		zap.String("method", x.in.Method), zap.String("path", x.in.URL.EscapedPath()), zap.String("query", query),
		zap.String("outcome", string(x.outcome)), zap.Int("status", x.status), zap.Int("attempts", len(x.history)),
		zap.Duration("duration", total), zap.Duration("waited", x.waited), zap.Int64("body_bytes", x.size()))
	// A careless provider repeats what it was asked with, and not only in errors.
	hide := func(text string) string { return x.secrets().Text(text) }
	if n := len(x.history); n > 0 {
		last := x.history[n-1]
		fields = append(fields, zap.String("class", last.verdict.Class.String()))
		if last.requestID != "" {
			fields = append(fields, zap.String("upstream_request_id", hide(last.requestID)))
		}
		if last.verdict.Class != classify.Success {
			fields = append(fields, zap.String("error_code", hide(last.verdict.Code)), zap.String("decided_by", last.verdict.Reason))
		}
	}
	if asked := x.asked(); asked != "" {
		fields = append(fields, zap.String("asked", asked))
	}
	if x.ask.documentID != "" {
		fields = append(fields, zap.String("document_id", x.ask.documentID))
	}
	switch {
	case x.letter != "":
		fields = append(fields, zap.String("dead_letter_id", x.letter))
	case x.resent != nil:
		fields = append(fields, zap.String("dead_letter_id", x.resent.letter.ID))
	}
	if id := x.traceID(); id != "" {
		fields = append(fields, zap.String("trace_id", id))
	}
	if x.reason != "" {
		fields = append(fields, zap.String("reason", x.reason))
	}
	if x.err != nil {
		fields = append(fields, zap.String("error", hide(x.err.Error())))
	}
	if x.observed != nil {
		fields = x.observed.fields(fields)
	}
	entry.Write(fields...)
}

// fieldPool keeps the lists of fields that log lines are made of.
type fieldPool struct{ pool sync.Pool }

func (p *fieldPool) get() *[]zap.Field {
	if fields, ok := p.pool.Get().(*[]zap.Field); ok {
		return fields
	}
	fields := make([]zap.Field, 0, 24)
	return &fields
}

func (p *fieldPool) put(fields *[]zap.Field) { p.pool.Put(fields) }
