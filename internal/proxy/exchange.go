package proxy

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/calls"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

// exchange is one request of a worker's on its way through the proxy. It is the Transport of its own ReverseProxy: what the standard library
// knows about proxying wraps the loop below, and the handler reads the story from here afterwards.
type exchange struct {
	listener   *Account // whose listener the call came to: for its names, its letters and its requests
	account    *Account // that is asked now; usually the listener's. Others that ask whether they make the same call must not look at it
	credential *credential.Credential
	in         *http.Request
	control    *http.ResponseController // of the worker's connection
	start      time.Time
	resent     *resent // the dead letter that this request is made of; nil: it is a worker's
	traced     traced  // what is noted for whoever looks at traces

	client  string // who has shown a client token, as a hash of it; "": nobody is asked for one
	rpc     *rpc   // nil: plain HTTP
	ask     instructions
	op      provider.Operation
	policy  Policy        // of the account that is asked; its Total ends when the next account must be asked
	total   time.Duration // that the request may take, whoever is asked
	circuit circuit

	bound     *Account      // that alone may be sent the letter; nil: any may
	route     []*Account    // to be asked after the present one, in order
	elsewhere int           // attempts that were made at accounts asked before the present one
	comeBack  time.Time     // the earliest time at which one of those accounts may be asked again; zero: none is known
	sentTo    []http.Header // heads of the last attempts at those accounts, with their credentials on them

	body     *spool.Body   // as the worker sent it; nil: none
	replaced []byte        // what goes out instead of body, when the proxy put a token in; nil: body
	token    string        // the token that was put in, or that the worker put into the header for it
	given    string        // the worker's own token in the body of a job start
	tokened  bool          // the call carries a token, the worker's or ours
	uploads  time.Time     // since when the body is coming
	upload   time.Duration // how long the worker was waited for while it sent the body
	follows  bool          // the first attempt may send the body while it arrives
	arrived  bool          // the whole body is there
	refused  *refusal      // why the body was not received; nil: it was, or is still coming, or the worker has gone
	batch    *batch        // of a call about several items, some of which were asked for again; nil: none were
	keysOnce sync.Once     // keys are computed once, also for other requests that ask whether they are the same
	keys     fingerprint.Keys
	keysErr  error

	head   http.Header   // of the answer that is being given, with the provider's own addresses; nil: none is yet
	flight *calls.Flight // while the call is under way; nil: nobody else need know
	left   bool          // the worker had gone before it had the answer, or went over it
	shared *calls.Answer // this request's share of an answer; nil: it has one of its own

	hopeless classify.Verdict // on the document, of a call that was refused for it
	observed *observation     // nil: the account acts

	history []attempt
	only    [1]attempt // where the usual history has its place
	last    *answer    // of the latest attempt; nil when it brought none
	stop    retry.Stop
	err     error // why there is no answer, or what went wrong beside it
	waited  time.Duration
	sent    http.Header   // head of the latest attempt where the proxy's own credential is on it; nil: the worker's goes through
	hidden  *scrub.Values // see secrets

	delivered bool // the worker has the whole answer
	outcome   Outcome
	reason    string    // fixed word; "": class and outcome say it all
	status    int       // of the worker's answer
	letter    string    // id of the dead letter; "": none
	job       *endedJob // that the answer is about; nil: about none, or one that goes on
	trying    *permit   // of the attempt that is not settled yet; nil: there is none
	begun     *permit   // of an accepted job start whose job is not known yet; nil: there is none
	queued    bool      // its turn would have come too late
	paid      bool      // the attempt starts a job that nobody could ask for if its answer were lost with the worker
	heir      bool      // the attempt starts a job that has the place of one that is over
	repaired  []int     // pages of the answer that were asked for in a call of their own; nil: none were
	notBefore time.Time // when it makes sense to try again; zero: nothing is known
}

// pause is what lies before an attempt.
type pause struct {
	length time.Duration
	source string // none, backoff, hint, gate, queue: as envelopes and metrics name it
	again  bool   // the attempt's turn is the next one: the request has had it and was throttled
	over   func() // gives back the retry's place among those of the account; nil: it has none
	// crowded says that there was no place for the retry, which waits for one.
	crowded bool
}

// Smear is the time over which a crowd that was held is let out, where no rate paces it.
const Smear = time.Second

// The sources of a pause.
const (
	fromNone    = "none"
	fromBackoff = "backoff"
	fromHint    = "hint"
	fromGate    = "gate"  // a pause after a throttle, or an open circuit
	fromQueue   = "queue" // the rate, the attempts that may run at one time, or the open jobs
)

// RoundTrip runs the request to its end and answers with the provider's last answer or, without one, with the proxy's own. The error is only
// for workers that have gone.
func (x *exchange) RoundTrip(out *http.Request) (*http.Response, error) {
	x.prepare(out)
	x.history = x.only[:0]
	if err := x.mayBeAgain(); err != nil {
		return nil, err
	}
	resp, stop := x.recall(out)
	if resp == nil && stop == retry.Continue {
		resp = x.recallJob(out)
	}
	if resp != nil {
		if !x.arrive() {
			return nil, errNotReceived
		}
		return x.deliver(resp), nil
	}
	if x.stop = stop; stop == retry.Continue {
		x.stop = x.repair(out, x.travel(out))
	}
	if !x.arrive() {
		x.land(nil)
		return nil, errNotReceived
	}
	x.journal()
	if x.stop == retry.Canceled || x.gone() {
		x.rescue(out)
		return nil, x.hungUp()
	}
	resp = x.conclude(out)
	x.land(resp)
	return x.deliver(resp), nil
}

// hungUp ends a request whose worker has gone.
func (x *exchange) hungUp() error {
	x.stop, x.outcome = retry.Canceled, ClientGone
	return context.Cause(x.in.Context())
}

// run is the loop: wait, take a turn, pass the breaker, try, decide. It returns why there is no further attempt.
func (x *exchange) run(out *http.Request) retry.Stop {
	before := pause{source: fromNone}
	defer func() { before.end() }()
	if !x.fits(0) {
		return retry.Elapsed // the upload, or waiting for another's answer, took it all
	}
	for n := len(x.history) + 1; ; n++ {
		if x.account.HoldOpen && x.circuit.wait() > 0 && x.anotherIsReady() {
			return x.refusedBy(x.circuit.wait())
		}
		permit, stop := x.pass(&before)
		if stop != retry.Continue {
			return stop
		}
		x.try(out, permit, n, before)
		before.end()
		if !x.arrive() || x.interrupted() == retry.Canceled {
			return retry.Canceled
		}
		before, stop = x.next(n, x.history[n-1].verdict)
		if stop != retry.Continue {
			return stop
		}
		if x.last != nil && !x.last.complete {
			x.last.discard()
			x.last = nil
		}
	}
}

// end gives a retry's place back, once.
func (p *pause) end() {
	if p.over != nil {
		p.over()
		p.over = nil
	}
}

// next decides, once and in this order: is the answer final, would a repetition be safe, are there attempts left, does the wait fit, would
// the circuit let us in after it, may this account have one more retry at one time.
func (x *exchange) next(n int, v classify.Verdict) (pause, retry.Stop) {
	a := x.account
	if v.Wait > 0 {
		x.notBefore = time.Now().Add(v.Wait)
	}
	if x.history[n-1].mended {
		return pause{source: fromNone}, retry.Continue // there is nothing to wait for
	}
	own := n - x.elsewhere // each account has attempts of its own
	tries := x.policy.tries(v.Class)
	if own >= tries && !v.Class.Retryable() {
		return pause{}, retry.Final
	}
	if !x.repeatable(x.lastAttempt()) {
		return pause{}, retry.Unsafe
	}
	if x.account.Ending.Err() != nil {
		return pause{}, retry.Shutdown
	}
	policy := x.policy.Policy
	policy.MaxAttempts = tries
	policy.Total -= x.policy.leastAttempt()
	elapsed := time.Since(x.start)
	wait, stop := policy.Next(own, elapsed, v.Wait)
	x.holdOthers(v, wait)
	if x.goesAtOnce(n) {
		// The queue knows how long: it has been told of the throttle, and of the hint.
		wait = 0
		if stop == retry.Overflow {
			stop = retry.Continue
		}
	}
	if elapsed >= policy.Total && (stop == retry.Overflow || stop == retry.Continue) {
		stop = retry.Elapsed
	}
	if stop != retry.Continue {
		return pause{}, stop
	}
	if open := x.circuit.wait(); open > wait && !a.HoldOpen {
		a.Breakers.Rejected()
		x.notBefore = later(x.notBefore, time.Now().Add(open))
		return pause{}, retry.Breaker
	}
	next := pause{length: wait, source: fromBackoff, again: v.Class == classify.Throttle}
	switch {
	case v.Wait > 0:
		next.source = fromHint
	case x.goesAtOnce(n):
		next.source = fromNone
	}
	if v.Class == classify.Transient && !x.held() {
		var ok bool
		if next.over, ok = x.spend(); !ok && !a.HoldOpen {
			return pause{}, retry.Crowded
		}
		next.crowded = next.over == nil
	}
	return next, retry.Continue
}

// tries is how many attempts a call may have whose last one had that class.
func (p Policy) tries(c classify.Class) int {
	switch {
	case c == classify.Unknown:
		return min(p.MaxAttempts, 1+p.UnknownRetries)
	case c.Retryable():
		return p.MaxAttempts
	}
	return 1
}

// repeatable reports whether making the call again cannot do its work twice, as far as the policy cares.
func (x *exchange) repeatable(last attempt) bool {
	if x.policy.Ambiguous == RepeatAlways || !last.ambiguous {
		return true
	}
	if x.policy.Ambiguous == RepeatNever {
		return false
	}
	return x.op.Repeat == provider.Always || x.op.Repeat == provider.WithToken && x.tokened
}
