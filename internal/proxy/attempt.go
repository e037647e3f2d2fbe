package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

// attempt is what is remembered of one try.
type attempt struct {
	n         int
	at        string // the account that was asked; "": the listener's own
	started   time.Time
	duration  time.Duration // until the answer was judged, or ended where it streams, without upload
	upload    time.Duration // how long the worker's body was waited for meanwhile
	status    int           // 0: no answer
	verdict   classify.Verdict
	ambiguous bool // the provider may have done the work although no good answer says so
	err       error
	before    pause
	requestID string  // the provider's id of the call
	rate      float64 // calls per second that the headers of a throttled answer name; 0: none
	mended    bool    // the credential was refused, and the next attempt is made with another
}

// try makes one attempt and leaves its record in the history and its answer, if there was one, in x.last.
func (x *exchange) try(out *http.Request, permit *permit, n int, before pause) {
	a := x.account
	x.trying = permit
	record := attempt{n: n, at: x.asked(), started: time.Now(), before: before}
	x.beginAttempt(permit, out, record.started)
	clock := x.startClock()
	req, err := x.build(clock, out)
	var told *answer
	if err == nil {
		told, err = x.exchangeOnce(req, clock)
	}
	if x.follows && n == 1 && x.arrive() {
		record.upload = x.upload
	}
	seen := classify.Attempt{Operation: x.op.Name, Err: err, Sent: clock.sent.Load()}
	if told != nil {
		seen.Status, seen.Header, seen.Body = told.resp.StatusCode, told.resp.Header, told.decoded
		if told.rpc != nil {
			seen.Status, seen.Header = told.rpc.status, told.rpc.header
		}
		record.status, record.requestID = seen.Status, firstOf(seen.Header, a.Provider.RequestID)
	} else {
		clock.stop()
	}
	record.err = err
	if !x.arrive() || x.gone() && !x.finishes() {
		record.verdict = hungUp()
	} else {
		record.verdict = x.gather(told, x.judge(seen, told))
		record.verdict.Aside = record.verdict.Aside || clock.short && classify.IsTimeout(err) || errors.Is(err, ErrShutdown)
	}
	record.ambiguous = seen.Ambiguous(x.op.Repeat != provider.Always)
	if record.verdict.Class == classify.Throttle {
		record.rate, _ = retry.Rate(seen.Header, time.Now())
	}
	record.duration = time.Since(record.started) - record.upload
	if record.mended = x.mend(record, seen, told); record.mended {
		record.verdict.Aside = true // a token that ends is nobody's failure, however many requests learn of it at once
	}
	x.history = append(x.history, record)
	x.last, x.err = told, err
	if told != nil && told.streams && record.verdict.Class == classify.Success {
		told.whenDone(func(err error) { x.streamed(n-1, permit, err) })
		return
	}
	x.settle(&x.history[n-1], permit)
}

// mend asks the account's credential, at most once in a request and account, whether another attempt would be made with something else than what was
// refused here. There is no such attempt beyond the request's attempts and time.
func (x *exchange) mend(last attempt, seen classify.Attempt, told *answer) bool {
	if last.verdict.Class != classify.Auth || told == nil || told.streams || !x.repeatable(last) {
		return false
	}
	again := slices.ContainsFunc(x.history[x.elsewhere:], func(a attempt) bool { return a.mended })
	if again || last.n-x.elsewhere >= x.policy.MaxAttempts || !x.fits(0) {
		return false
	}
	ctx, cancel := context.WithDeadline(x.life(), x.deadline())
	defer cancel()
	defer x.step("renew credential", x.mark())
	return x.credential.Mend(ctx, credential.Refusal{
		Status: seen.Status, Codes: Fault(x.account.Provider, seen, time.Now()).Codes, Header: seen.Header, Sent: x.sent,
	})
}

// hungUp is the verdict on an attempt whose worker has gone: it says nothing about anybody.
func hungUp() classify.Verdict {
	return classify.Verdict{Class: classify.Unknown, Code: codeHungUp, Reason: "the worker hung up", Aside: true}
}

const codeHungUp = "client_gone"

// judge decides on an attempt whose worker still waits, or whose answer will be kept.
func (x *exchange) judge(seen classify.Attempt, told *answer) classify.Verdict {
	if told == nil {
		return classify.Decide(seen, classify.Fault{}, nil, nil)
	}
	v := verdict(x.account.Provider, x.account.Rules, seen, told.insight, time.Now())
	if v.Class == classify.Success && x.account.Scrutiny.acts() && x.account.Scrutiny.Actions[told.sign] == Accept {
		told.sign = cmp.Or(x.silent(told), told.sign) // what is accepted hides nothing else
	}
	return x.account.Scrutiny.review(v, told.insight)
}

// settle hands an attempt's result to the breaker, the queue and the metrics, once.
func (x *exchange) settle(record *attempt, permit *permit) {
	permit.done(x.account.result(record.verdict))
	x.endTurn(record.verdict, record.rate, permit)
	x.account.Metrics.attempt(x.op.Name, record.verdict.Class, record.duration, permit.span)
	x.endAttempt(record, permit.span)
	if !record.verdict.Aside {
		x.account.Watch.Attempt(record.verdict.Class, record.verdict.Code)
	}
	x.trying = nil
}

// dropAttempt gives back what an attempt holds that a panic has ended: without its turn, others might wait for ever.
func (x *exchange) dropAttempt() {
	if permit := x.trying; permit != nil {
		permit.done(breaker.Neutral)
		permit.turn.Done(pace.Other)
		permit.span.End(time.Now())
	}
}

// result is the breaker's view of a verdict.
func (a *Account) result(v classify.Verdict) breaker.Result {
	switch {
	case v.Aside:
		return breaker.Neutral
	case v.Class == classify.Throttle && a.TripOnThrottle:
		return breaker.Failure
	case v.Class == classify.Auth:
		return breaker.Refused
	case v.Class == classify.Permanent:
		return breaker.Permanent
	}
	switch v.Health() {
	case classify.Healthy:
		return breaker.Success
	case classify.Sick:
		return breaker.Failure
	case classify.Neutral:
	}
	return breaker.Neutral
}

// streamed settles an attempt whose answer went to the worker as it came: only its end tells whether it was one.
func (x *exchange) streamed(i int, permit *permit, err error) {
	record := &x.history[i]
	record.duration = time.Since(record.started) - record.upload
	switch {
	case err == nil:
	case errors.Is(err, errAbandoned), x.gone():
		record.verdict = hungUp()
	default:
		record.err = &classify.TruncatedError{Err: err}
		x.err = record.err
		record.verdict = classify.Decide(classify.Attempt{Operation: x.op.Name, Err: record.err, Sent: true}, classify.Fault{}, nil, nil)
		record.ambiguous = true
	}
	x.settle(record, permit)
}

// build makes the request of one attempt: a fresh body, and the credential as it is now.
func (x *exchange) build(clock *clock, out *http.Request) (*http.Request, error) {
	req := out.WithContext(clock.ctx)
	req.GetBody = nil // a repetition is ours to decide and to count
	req.TransferEncoding = nil
	req.Body, req.ContentLength = x.open()
	if x.credential.PassesThrough() {
		x.joinTrace(req)
		return req, nil
	}
	req.Header = out.Header.Clone()
	x.joinTrace(req)
	x.sent = req.Header
	if err := x.credential.Apply(clock.bare, credential.Attempt{Request: req, Sum256: x.sum256}); err != nil {
		return nil, &classify.CredentialError{Err: err}
	}
	return req, nil
}

// open is a fresh reader over what goes out. It is set on the request itself: behind a wrapper the transport could not see that it is in
// memory, or a file that the kernel can send.
func (x *exchange) open() (io.ReadCloser, int64) {
	switch {
	case x.replaced != nil:
		return io.NopCloser(bytes.NewReader(x.replaced)), int64(len(x.replaced))
	case x.body == nil || x.body.Expected() == 0:
		return http.NoBody, 0
	}
	return x.body.Open(), x.body.Expected()
}

// size is the number of bytes that go out.
func (x *exchange) size() int64 {
	switch {
	case x.observed != nil:
		return x.observed.sized.Load()
	case x.replaced != nil:
		return int64(len(x.replaced))
	case x.body != nil:
		return max(0, x.body.Expected())
	}
	return 0
}

func (x *exchange) sum256() ([sha256.Size]byte, error) {
	switch {
	case x.replaced != nil:
		return sha256.Sum256(x.replaced), nil
	case x.body == nil:
		return sha256.Sum256(nil), nil
	}
	return x.body.Sum256()
}

// exchangeOnce sends a request and reads as much of the answer as has to be known before anything is decided.
func (x *exchange) exchangeOnce(req *http.Request, clock *clock) (*answer, error) {
	resp, err := x.transport().RoundTrip(req)
	if err != nil {
		return nil, clock.explain(err)
	}
	told := &answer{resp: resp, clock: clock}
	if resp.StatusCode < http.StatusOK {
		// Neither an answer nor interim: a switch of protocols that nobody asked for, whose body would never end, or a status that is none.
		_ = resp.Body.Close()
		clock.stop()
		return nil, &classify.TruncatedError{Err: fmt.Errorf("status %d is no answer", resp.StatusCode)}
	}
	if err := told.read(x); err != nil {
		told.discard()
		if disk, ok := errors.AsType[*spool.WriteError](err); ok {
			return nil, &classify.LocalError{Err: disk}
		}
		return nil, clock.explain(&classify.TruncatedError{Err: err})
	}
	return told, nil
}

// maxRequestID bounds what is written down of a provider's id of a call, in bytes.
const maxRequestID = 128

// firstOf is the provider's id of a call, from its own headers or the usual ones.
func firstOf(h http.Header, names []string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return classify.Shorten(v, maxRequestID)
		}
	}
	for _, name := range [...]string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid", "Apim-Request-Id"} {
		if v := h.Get(name); v != "" {
			return classify.Shorten(v, maxRequestID)
		}
	}
	return ""
}
