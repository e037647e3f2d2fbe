package proxy

import (
	"net/http"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// doubted is a good answer that is kept while another account is asked for a better one.
type doubted struct {
	answer  *answer
	account *Account
	at      int // where its attempt stands in the history
}

// asksElsewhere reports whether the answer is one for which another account is asked once: the operator says so, and nothing is left behind by a second call
// but its price.
func (x *exchange) asksElsewhere(stop retry.Stop) bool {
	if stop != retry.Final || x.class() != classify.Soft || x.batch != nil || x.last == nil || x.last.held == nil {
		return false
	}
	if x.account.Scrutiny.Actions[x.lastAttempt().verdict.Code] != Elsewhere || x.lasting() {
		return false
	}
	for len(x.route) > 0 && !x.ready(x.route[0]) {
		x.route = x.route[1:]
	}
	return len(x.route) > 0 && time.Since(x.start) < x.total-x.policy.leastAttempt() && x.interrupted() == retry.Continue
}

// doubt sets the answer aside.
func (x *exchange) doubt() *doubted {
	d := &doubted{answer: x.last, account: x.account, at: len(x.history) - 1}
	x.last = nil
	return d
}

// better keeps the better one of two answers, for which the request stopped: the later one if it is good and beyond doubt. One that nobody could look
// into, such as a page of HTML, a redirect or nothing at all, is not: what was paid for first is the result of a document at least.
func (x *exchange) better(first *doubted, stop retry.Stop, out *http.Request) retry.Stop {
	if x.class() == classify.Success && x.last != nil && x.last.looked {
		first.answer.discard()
		return stop
	}
	if x.last != nil {
		x.last.discard()
	}
	// The attempt that brought the answer is the last: it is the one that says how the request ended.
	kept := x.history[first.at]
	x.history = append(append(x.history[:first.at:first.at], x.history[first.at+1:]...), kept)
	x.turnTo(first.account, out) // what else is asked about it is asked there
	x.last, x.err, x.notBefore = first.answer, nil, time.Time{}
	if stop == retry.Canceled {
		return stop // the answer is paid for all the same, and kept for the worker's next try
	}
	return retry.Final
}
