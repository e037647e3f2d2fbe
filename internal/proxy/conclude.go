package proxy

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// Outcome is how a worker's request ended, as header, metric and dead letter name it.
type Outcome string

// The outcomes.
const (
	Success     Outcome = "success"
	Permanent   Outcome = "permanent" // no repetition mends it: classes permanent, auth, quota and unknown
	Exhausted   Outcome = "exhausted" // it might have succeeded with more attempts or time
	CircuitOpen Outcome = "circuit_open"
	Review      Outcome = "review"
	Rejected    Outcome = "rejected" // the proxy did not take it
	ClientGone  Outcome = "client_gone"
)

// Outcomes lists every outcome, for metrics that are present from start-up.
func Outcomes() []Outcome {
	return []Outcome{Success, Permanent, Exhausted, CircuitOpen, Review, Rejected, ClientGone}
}

// good reports whether the worker is given what it asked for, be it to look at.
func (o Outcome) good() bool { return o == Success || o == Review }

// outcomeOf is the outcome of a request that stopped for that reason after so many attempts, with the class of the last; transient without one.
func outcomeOf(stop retry.Stop, class classify.Class, attempts int) Outcome {
	switch {
	case stop == retry.Breaker:
		return CircuitOpen
	case stop == retry.Full && attempts == 0:
		return Rejected
	case class == classify.Success:
		return Success
	case class == classify.Soft:
		return Review
	case class == classify.Quota && stop != retry.Final: // another account was asked after it, and stopped before an attempt
		return Exhausted
	case class.Retryable():
		return Exhausted
	}
	return Permanent
}

// class is the class of the last attempt; a request without one failed for reasons that will pass.
func (x *exchange) class() classify.Class { return x.lastAttempt().verdict.Class }

// made is the number of attempts that were made upstream: one whose credential was not to be had never left.
func (x *exchange) made() int {
	n := 0
	for i := range x.history {
		if _, ok := errors.AsType[*classify.CredentialError](x.history[i].err); !ok {
			n++
		}
	}
	return n
}

// conclude makes the worker's answer. Where a dead letter is due it is durable before this returns.
func (x *exchange) conclude(out *http.Request) *http.Response {
	x.outcome = outcomeOf(x.stop, x.class(), len(x.history))
	x.reason = x.fixedWord()
	resp := x.final(out)
	x.status = x.statusOf(resp)
	if x.outcome != Success && x.outcome != Rejected {
		x.letter = x.bury()
	}
	x.healReviewed()
	return x.dress(resp)
}

// dress puts on an answer what the worker is told beside the provider's words.
func (x *exchange) dress(resp *http.Response) *http.Response {
	h := resp.Header
	dropInstructions(h) // only this proxy speaks for itself
	dropInstructions(resp.Trailer)
	x.describe(h, 0)
	return resp
}

// final is the provider's last answer as it came or, where the last attempt brought none, the proxy's own.
func (x *exchange) final(out *http.Request) *http.Response {
	switch {
	case x.batch != nil && (x.last == nil || x.last != x.batch.from):
		return x.batch.response() // what came of it is better than the news that the rest did not
	case x.last != nil && x.stop != retry.Shutdown:
		return x.last.resp
	}
	p := x.problem()
	status, header, body := x.tell(p)
	if p.Status == http.StatusServiceUnavailable {
		header.Set("Retry-After", wholeSeconds(time.Until(x.notBefore)))
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: out,
	}
}

// queueFull is why a request is not taken for which there is no place to wait.
const queueFull = "queue_full"

const (
	circuitOpen      = "the circuit of this provider account is open after repeated failures; nothing was sent"
	noRoom           = "too many requests wait for their turn at this provider account; nothing was sent"
	throttledTooLong = "the provider account is throttled for longer than this request may take"
)

// problem turns the reason for which there is no answer into one. It is the only place that does.
func (x *exchange) problem() provider.Problem {
	p := provider.Problem{Status: http.StatusBadGateway, Reason: cmp.Or(x.reason, string(x.outcome)), Message: "the provider could not be reached"}
	var (
		credential  *classify.CredentialError
		certificate *tls.CertificateVerificationError
		truncated   *classify.TruncatedError
		local       *classify.LocalError
	)
	last := x.lastAttempt()
	switch {
	case x.stop == retry.Breaker && last.n == 0:
		p.Status, p.Message = http.StatusServiceUnavailable, circuitOpen
	case x.stop == retry.Breaker && last.ambiguous:
		p.Status, p.Message = http.StatusServiceUnavailable, "the circuit of this provider account opened; the answer to the last attempt was lost, so that it may have been done and billed"
	case x.stop == retry.Breaker:
		p.Status, p.Message = http.StatusServiceUnavailable, "the circuit of this provider account opened after the last attempt failed with "+last.short()
	case x.stop == retry.Shutdown:
		p.Status, p.Message = http.StatusServiceUnavailable, "the proxy is shutting down before the request could be tried again"
	case last.n == 0 && x.stop == retry.Elapsed:
		p.Status, p.Message = http.StatusGatewayTimeout, "the time that the request may take was over before an attempt could be made"
	case x.stop == retry.Full && last.n == 0:
		p.Status, p.Message = http.StatusServiceUnavailable, noRoom
	case x.stop == retry.Full:
		p.Status, p.Message = http.StatusServiceUnavailable, "too many requests wait for their turn at this provider account; the last attempt failed with "+last.short()
	case x.queued && last.n == 0:
		p.Status, p.Message = http.StatusServiceUnavailable, "the turn of this request would have come after its time is over; nothing was sent"
	case last.n == 0:
		p.Status, p.Message = http.StatusServiceUnavailable, throttledTooLong+"; nothing was sent"
	case x.stop == retry.HintTooLong && last.status != 0:
		p.Status, p.Message = http.StatusServiceUnavailable, throttledTooLong+"; the last attempt failed with "+last.short()
	case classify.IsTimeout(x.err):
		p.Status, p.Message = http.StatusGatewayTimeout, "the provider did not answer in time"
	case errors.As(x.err, &credential):
		p.Message = "the proxy cannot use the credentials of this provider account; its log says why"
	case errors.As(x.err, &certificate):
		p.Message = "the provider's certificate does not verify: " + certificate.Err.Error()
	case errors.As(x.err, &local):
		p.Message = "the proxy had no room to take the provider's answer; the work may have been done and billed"
	case errors.As(x.err, &truncated):
		p.Message = "the provider's answer broke off"
	}
	return p
}

// fixedWord says what class and outcome leave open.
func (x *exchange) fixedWord() string {
	switch x.stop {
	case retry.Full:
		return queueFull
	case retry.Overflow:
		if x.queued {
			return "queue_too_long"
		}
		return x.stop.String()
	case retry.HintTooLong, retry.Crowded, retry.Unsafe, retry.Shutdown, retry.Elapsed:
		return x.stop.String()
	case retry.Continue, retry.Final, retry.Attempts, retry.Breaker, retry.Canceled:
	}
	if last := x.lastAttempt(); last.verdict.Class == classify.Soft || last.verdict.Code == malformedOutput {
		return last.verdict.Code
	}
	if in := x.looked(); in != nil {
		return in.sign
	}
	return ""
}

// describe puts the proxy's own headers on an answer.
func (x *exchange) describe(h http.Header, comeBack time.Duration) {
	values := make([]string, 0, 8) // one allocation for all of them
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("Ocr-Proxy-Outcome", string(x.outcome))
	n := x.made()
	set("Ocr-Proxy-Attempts", strconv.Itoa(n))
	if n > 0 {
		last := x.lastAttempt()
		set("Ocr-Proxy-Class", last.verdict.Class.String())
		if last.ambiguous {
			set("Ocr-Proxy-Ambiguous", "true")
		}
	}
	if x.reason != "" {
		set("Ocr-Proxy-Reason", x.reason)
	}
	if x.repaired != nil {
		set("Ocr-Proxy-Repaired", x.provenance())
	}
	if x.letter != "" {
		set("Ocr-Proxy-Dead-Letter-Id", x.letter)
	}
	if comeBack > 0 {
		h.Set("Retry-After", wholeSeconds(comeBack))
	}
	if x.outcome.good() {
		return
	}
	p := x.account.Provider
	if p.ReadsShouldRetry {
		h.Set("X-Should-Retry", "false")
	}
	if after := h.Get("Retry-After"); after != "" && x.outcome == Permanent && p.RepeatsAnyRetryAfter {
		h.Del("Retry-After")
		set("Ocr-Proxy-Retry-After", after)
	}
}

// wholeSeconds writes a wait as Retry-After does, rounded up and at least 1. What is below a millisecond is no second more.
func wholeSeconds(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Truncate(time.Millisecond).Seconds()))))
}
