package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/grpcwire"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

// lookTime bounds how long the copies of one call are looked at.
const lookTime = time.Minute

// conclude works out what the proxy would have done, counts it and writes the call's one line.
func (o *observation) conclude() {
	defer o.release()
	if o.began.IsZero() { // it was not passed on
		if o.permit != nil {
			o.permit.done(breaker.Neutral)
		}
		o.tell()
		return
	}
	seen, refused := o.look()
	o.settle(refused)
	o.mend(seen)
	o.act(refused)
	o.tell()
}

// look looks at what was copied. A panic over it ends the look and nothing else: the guard that the connection's own goroutine has is not here.
func (o *observation) look() (seen classify.Attempt, refused bool) {
	stop := func() {}
	defer func() {
		stop()
		if p := recover(); p != nil {
			o.given(p)
		}
	}()
	if o.x.body != nil || o.record != nil {
		var ok bool
		if stop, ok = o.x.account.Observe.look(); !ok {
			o.unseen = true
		}
	}
	if o.x.body != nil {
		o.x.body.Finish(io.ErrUnexpectedEOF) // no more than came, and nobody waits for the rest; it has no effect on one that is whole
	}
	seen = o.judge()
	return seen, !o.unseen && o.wouldRefuse()
}

// given notes that the look at a call has panicked. Its status is all that is known then.
func (o *observation) given(panicked any) {
	a := o.x.account
	a.Log.Error("an observed call could not be looked at", zap.String("provider", a.Name), zap.String("operation", o.x.op.Name),
		zap.String("panic", o.x.secrets().Text(fmt.Sprint(panicked))), zap.Stack("stack"))
	o.unseen = true
	if len(o.x.history) > 0 {
		return
	}
	v := classify.Verdict{Class: classify.Unknown, Reason: "it could not be looked at", Aside: true}
	if o.status < http.StatusBadRequest && o.failed == nil {
		v.Class = classify.Success
	}
	o.x.history = append(o.x.only[:0], attempt{n: 1, started: o.began, duration: o.ended.Sub(o.began), before: pause{source: fromNone}, status: o.status, verdict: v, err: o.failed})
}

// release gives the copies back.
func (o *observation) release() {
	for _, copied := range [...]*spool.Body{o.x.body, o.record} {
		if copied != nil {
			copied.Release()
		}
	}
}

// judge decides on the attempt as on any other, over what was copied of it.
func (o *observation) judge() classify.Attempt {
	seen := classify.Attempt{Operation: o.x.op.Name, Err: o.failed, Sent: o.left.Load()}
	record := attempt{n: 1, started: o.began, duration: o.ended.Sub(o.began), before: pause{source: fromNone}, err: o.failed}
	var told *answer
	if o.status != 0 {
		ctx, cancel := context.WithTimeout(o.x.in.Context(), lookTime)
		defer cancel()
		told = o.told(ctx)
		seen.Status, seen.Header, seen.Body = o.status, o.header, told.decoded
		if told.rpc != nil {
			seen.Status, seen.Header = told.rpc.status, told.rpc.header
			o.x.status = seen.Status
		}
		record.status, record.requestID = seen.Status, firstOf(seen.Header, o.x.account.Provider.RequestID)
	}
	switch {
	case o.upgrade:
		record.verdict = classify.Verdict{Class: classify.Success, Reason: "the connection was upgraded", Aside: true}
	case o.hungUp:
		record.verdict = hungUp()
	case o.broken != nil:
		record.err = &classify.TruncatedError{Err: o.broken}
		record.verdict = classify.Decide(classify.Attempt{Operation: o.x.op.Name, Err: record.err, Sent: true}, classify.Fault{}, nil, nil)
		record.ambiguous = true
	default:
		record.verdict = o.x.judge(seen, told)
		record.ambiguous = seen.Ambiguous(o.x.op.Repeat != provider.Always)
	}
	record.verdict.Aside = record.verdict.Aside || o.x.account.Ending.Err() != nil
	o.x.history = append(o.x.only[:0], record)
	o.x.last, o.x.err = told, record.err
	return seen
}

// told is the answer as the copies have it.
func (o *observation) told(ctx context.Context) *answer {
	t := &answer{resp: &http.Response{StatusCode: o.status, Header: o.header.Clone(), Request: o.x.in}, clock: &clock{ctx: ctx}, held: o.record}
	if o.record != nil {
		o.record.Finish(nil)
	}
	for name, values := range o.trailer {
		if o.x.rpc != nil {
			t.resp.Header[http.TrailerPrefix+name] = values
		}
	}
	switch {
	case !o.whole:
	case o.status >= http.StatusBadRequest:
		t.decoded = o.beginning()
	case o.x.rpc != nil:
		o.toldRPC(t)
	case o.judged():
		if o.recorded() {
			body := o.record.Open()
			t.insight = look(ctx, o.x.account.Provider, &o.x.account.Scrutiny, o.x.op.Name, o.header, body)
			_ = body.Close()
		}
	}
	return t
}

// toldRPC reads how a gRPC call ended, and looks into its message.
func (o *observation) toldRPC(t *answer) {
	status, ok := rpcStatus(t.resp.Header)
	if !ok {
		return
	}
	t.rpc = &rpcEnd{status: grpcwire.HTTPStatus(status.Code), header: rpcHeader(t.resp.Header)}
	switch {
	case status.Code != grpcwire.OK:
		t.decoded = o.x.rpc.kind.Error(status)
	case o.judged() && o.recorded():
		if t.judgeRPC(o.x) != nil {
			t.malformed = true
		}
	}
}

// recorded reports whether the copy of the answer is all of it, in an encoding that can be read.
func (o *observation) recorded() bool {
	_, incomplete := o.record.ReadAt(nil, 0)
	encoding := strings.ToLower(strings.TrimSpace(o.header.Get("Content-Encoding")))
	ok := !o.unseen && incomplete == nil && (encoding == "" || encoding == "identity" || encoding == "gzip")
	o.unseen = o.unseen || !ok
	return ok
}

// beginning is an error's body as the classifier reads it.
func (o *observation) beginning() []byte {
	if o.record == nil {
		return nil
	}
	body := o.record.Open()
	defer func() { _ = body.Close() }()
	prefix, _ := io.ReadAll(io.LimitReader(body, maxErrorPrefix)) // what there is of it
	return Decode(o.header.Get("Content-Encoding"), prefix)
}

// wouldRefuse reports whether the document would have been refused before it was sent. Of a body that the provider did not take to its end, or
// that is too large to be kept, nothing is said.
func (o *observation) wouldRefuse() bool {
	if o.x.body == nil || o.x.account.Precheck == nil {
		return false
	}
	_, err := o.x.body.ReadAt(nil, 0)
	if err == nil && o.x.body.Size() > o.x.account.MaxBody {
		err = &spool.TooLargeError{Limit: o.x.account.MaxBody, Size: o.x.body.Size()}
	}
	if err != nil {
		_, checked := o.x.account.Provider.Checks[o.x.op.Name]
		o.unseen = checked
		return false
	}
	refused := o.x.precheck()
	if refused != nil {
		o.wouldReason = refused.reason
	}
	return refused != nil
}

// settle hands the result to the breaker, whose state is what it would be, and to the metrics.
func (o *observation) settle(refused bool) {
	a, last := o.x.account, o.x.history[0]
	if o.permit != nil {
		result := a.result(last.verdict)
		if refused {
			result = breaker.Neutral // it would not have been sent
		}
		if a.Observe.done(&o.x.circuit, o.permit, result) {
			o.would = append(o.would, wouldTrip)
		}
	}
	a.Metrics.attempt(o.x.op.Name, last.verdict.Class, last.duration, nil)
	if !last.verdict.Aside {
		a.Watch.Attempt(last.verdict.Class, last.verdict.Code)
	}
}

// mend has a refused credential renewed, for the calls after this one.
func (o *observation) mend(seen classify.Attempt) {
	if o.x.history[0].verdict.Class != classify.Auth || o.status == 0 || o.x.sent == nil {
		return
	}
	ctx, cancel := context.WithTimeout(o.x.in.Context(), lookTime)
	defer cancel()
	o.x.history[0].mended = o.x.credential.Mend(ctx, credential.Refusal{
		Status: seen.Status, Codes: Fault(o.x.account.Provider, seen, time.Now()).Codes, Header: seen.Header, Sent: o.x.sent,
	})
}

// act says what would have been done, and how the worker's call would have ended, in the order in which the proxy would have come to it.
func (o *observation) act(refused bool) {
	v := o.x.history[0].verdict
	again := o.wouldRepeat(v)
	o.x.stop = retry.Final
	switch {
	case again:
		o.x.stop = retry.Attempts // the only one
	case v.Class.Retryable() && !o.x.repeatable(o.x.history[0]):
		o.x.stop = retry.Unsafe
	}
	o.x.outcome = outcomeOf(o.x.stop, v.Class, 1)
	if o.hungUp {
		o.x.outcome, o.x.stop = ClientGone, retry.Canceled
	}
	o.x.reason = o.x.fixedWord()
	o.ends = o.x.outcome
	switch {
	case refused:
		o.would, o.ends = append(o.would, wouldRefuse, wouldBury), Rejected
	case o.permit == nil && o.x.account.HoldOpen:
		o.would, o.ends = append(o.would, wouldHold), ""
	case o.permit == nil:
		o.would, o.ends = append(o.would, wouldTurnAway, wouldBury), CircuitOpen
	case o.hungUp:
	default:
		o.followed(v, again)
	}
	if o.unseen {
		o.would = append(o.would, unobserved)
	}
	if len(o.would) == 0 {
		o.would = append(o.would, wouldPass)
	}
}

// followed says what would have followed from the answer.
func (o *observation) followed(v classify.Verdict, again bool) {
	if v.Class == classify.Throttle && !o.x.account.TripOnThrottle {
		o.would = append(o.would, wouldPause)
	}
	switch {
	case again:
		o.would, o.ends = append(o.would, wouldRetry), "" // nobody knows what would have come of it
	case o.x.outcome == Review:
		o.would = append(o.would, wouldReview, wouldBury)
	case o.x.outcome != Success:
		o.would = append(o.would, wouldBury)
	}
}

// wouldRepeat reports whether there would have been a second attempt.
func (o *observation) wouldRepeat(v classify.Verdict) bool {
	last := o.x.history[0]
	if o.broken != nil || o.hungUp {
		return false // the worker has the beginning of the answer
	}
	if last.mended && o.x.policy.MaxAttempts > 1 {
		return true
	}
	policy := o.x.policy.Policy
	policy.MaxAttempts = o.x.policy.tries(v.Class)
	policy.Total -= o.x.policy.leastAttempt()
	if policy.MaxAttempts < 2 || !o.x.repeatable(last) {
		return false
	}
	_, stop := policy.Next(1, o.ended.Sub(o.x.start), v.Wait)
	return stop == retry.Continue
}

// tell counts the call and writes its line.
func (o *observation) tell() {
	a := o.x.account
	a.Metrics.request(o.x, o.ended.Sub(o.x.start))
	a.Watch.Request(false)
	if !o.began.IsZero() {
		a.Observe.count(o.x.op.Name, o.would)
	}
	o.x.log(o.ended.Sub(o.x.start))
}

// fields are what the line of an observed call says beside the usual.
func (o *observation) fields(fields []zap.Field) []zap.Field {
	fields = append(fields, zap.Bool("observed", true), zap.Strings("would", o.would))
	if o.ends != "" {
		fields = append(fields, zap.String("would_outcome", string(o.ends)))
	}
	if o.wouldReason != "" {
		fields = append(fields, zap.String("would_reason", o.wouldReason))
	}
	return fields
}
