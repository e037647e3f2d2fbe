package classify

import (
	"net/http"
	"time"
)

// Attempt is all that one try told us. It holds no open resource.
type Attempt struct {
	// Operation is the provider's name for what was asked, as its adapter reads it.
	Operation string
	// Err is what went wrong on the way; nil when a whole answer (or an answer's whole head) arrived.
	Err error
	// Sent reports whether the request's head reached the wire. Not sent is safe to repeat whatever was asked.
	Sent bool
	// Status is the HTTP status, 0 without an answer.
	Status int
	// Header is the answer's head; nil without an answer.
	Header http.Header
	// Body is a bounded prefix of an error's body with its content encoding undone; empty for successes.
	Body []byte
}

// Answered reports whether the provider's answer arrived.
func (a Attempt) Answered() bool { return a.Err == nil }

// Ambiguous reports whether the provider may have done the work although no good answer says so: the request left and nothing came
// back, or a gateway on the way gave up waiting for it. A call that starts lasting work may also have started it before the provider failed
// with a 500. It is decided from facts of the connection and the status, never from text.
func (a Attempt) Ambiguous(lasting bool) bool {
	if !a.Answered() {
		return a.Sent
	}
	switch a.Status {
	case http.StatusBadGateway, http.StatusGatewayTimeout, 520, 522, 524:
		return true
	case http.StatusInternalServerError:
		return lasting
	}
	return false
}

// Fault is what an answer says about its failure, read by the provider's adapter from header and body.
type Fault struct {
	// Codes are the error codes that the answer carries, the most specific first, namespaces stripped. Empty when there is none.
	Codes []string
	// Message is the provider's sentence about it, shortened to what a person reads; it may be empty.
	Message string
	// Wait is how long the provider asks to wait before the next try; 0 when it does not say.
	Wait time.Duration
	// Job marks a finished job that failed: told inside a good answer, and final, since asking again repeats only the news.
	Job bool
}

// Code is the most specific code, or "".
func (f Fault) Code() string {
	if len(f.Codes) == 0 {
		return ""
	}
	return f.Codes[0]
}

// Verdict is the decision on one attempt.
type Verdict struct {
	Class   Class
	Code    string        // most specific error code, or ""
	Message string        // the provider's or the transport's sentence, or ""
	Wait    time.Duration // how long the provider asks to wait; 0: it does not say
	Reason  string        // which rule decided, for people
	// Aside keeps the verdict from the breaker although its class would count: a certificate that does not verify says something about
	// the configuration, not about the provider's health.
	Aside bool
}

// Health is the breaker's view of the verdict.
func (v Verdict) Health() Health {
	if v.Aside {
		return Neutral
	}
	return v.Class.Health()
}
