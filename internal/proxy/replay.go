package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/fingerprint"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// Replayed is what came of a dead letter that was sent again. Exactly one of Answer, Failure, Refused, NotBefore and Lost is set.
type Replayed struct {
	Outcome  Outcome
	Attempts int // upstream attempts that were made

	// Answer is what the provider said to it; whoever takes it releases it. It is a good answer, or the news that a job has failed, whose
	// document then has a letter of its own.
	Answer *Recording
	// Failure is what a new letter would say.
	Failure *dlq.Envelope
	// Refused says in a sentence why nothing was sent, and what to do.
	Refused string
	// NotBefore is when it may be tried: nothing was sent, because circuit or queue would not let it.
	NotBefore time.Time
	// Lost is why a good answer could not be taken.
	Lost error
}

// Replay sends a dead letter again: the same exchange as a worker's request, under the configuration of today. It goes on until it has an end
// or the proxy does, and sends nothing for a letter of which Replayable has something to say. evenAmbiguous sends what the account's policy
// would not repeat because it may have been done.
func (a *Account) Replay(letter *dlq.Envelope, payload io.ReadCloser, evenAmbiguous bool) *Replayed {
	defer func() { _ = payload.Close() }()
	if refused := a.Replayable(letter); refused != "" {
		return &Replayed{Refused: refused}
	}
	in, err := a.request(letter, payload)
	if err != nil {
		return &Replayed{Refused: "the letter's request cannot be made again: " + err.Error()}
	}
	answer := newRecording(a.Bodies)
	x := &exchange{
		listener: a, account: a, credential: a.replayCredential(), in: in, control: http.NewResponseController(answer), start: time.Now(),
		resent: &resent{letter: letter, evenAmbiguous: evenAmbiguous},
	}
	x.presetKeys()
	x.beginTrace()
	x.serveUnheard(answer)
	replayed := x.replayed(answer)
	if replayed.Answer == nil {
		answer.Release()
	}
	return replayed
}

// serveUnheard is serve where no connection can be aborted: whoever would be cut off here is told by the state of the exchange.
func (x *exchange) serveUnheard(w http.ResponseWriter) {
	defer func() {
		if r := recover(); r != nil && r != http.ErrAbortHandler { //nolint:errorlint // a panic's value is compared as net/http does
			panic(r)
		}
	}()
	x.serve(w)
}

// replayed says what became of the exchange.
func (x *exchange) replayed(answer *Recording) *Replayed {
	r := &Replayed{Outcome: x.outcome, Attempts: x.made()}
	switch {
	case x.resent.refused != "":
		r.Refused = x.resent.refused
	case x.outcome == Rejected && x.reason == queueFull:
		r.NotBefore = later(x.notBefore, time.Now().Add(time.Second))
	case x.resent.failure != nil && len(x.history) == 0 && x.shared == nil:
		r.NotBefore = later(x.notBefore, time.Now().Add(time.Second))
	case x.resent.failure != nil:
		r.Failure = x.resent.failure
	case x.delivered && answer.err == nil && (x.outcome == Success || x.letter != ""):
		r.Answer = answer
	case len(x.history) == 0 && x.err != nil:
		r.Refused = "the letter's payload cannot be read: " + x.err.Error()
	default:
		r.Lost = cmp.Or(answer.err, x.err, errors.New("the answer was lost"))
	}
	return r
}

// request is the letter's call as a worker would make it.
func (a *Account) request(e *dlq.Envelope, payload io.ReadCloser) (*http.Request, error) {
	target := e.Request.Path
	if e.Request.Query != "" {
		target += "?" + e.Request.Query
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, err
	}
	// With a server's context the standard library's proxy aborts an answer that breaks off, as it does for workers.
	ctx := context.WithValue(a.Ending, http.ServerContextKey, &http.Server{ReadHeaderTimeout: time.Second})
	in := (&http.Request{
		Method: e.Request.Method, URL: u, RequestURI: target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: payload, ContentLength: e.Request.BodyBytes, Host: a.Upstream.Host,
	}).WithContext(ctx)
	if e.RawPayloadRef == "" {
		in.Body, in.ContentLength = http.NoBody, 0
	}
	for name, values := range e.Request.Headers {
		in.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	if e.Request.ContentType != "" {
		in.Header.Set("Content-Type", e.Request.ContentType)
	}
	if provider.IsGRPC(in.Header) {
		in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/2.0", 2, 0
		in.Header.Set("Te", "trailers")
	}
	if strings.HasPrefix(a.Self, "https:") {
		in.TLS = &tls.ConnectionState{}
	}
	if e.DocumentID != e.IdempotencyKey && e.DocumentID != "" {
		in.Header.Set(instructionPrefix+"Document-Id", e.DocumentID)
	}
	if e.Tenant != "" {
		in.Header.Set(instructionPrefix+"Tenant", e.Tenant)
	}
	return in, nil
}

// Replayable says in a sentence why a letter cannot be sent again, and what to do; "": it can.
func (a *Account) Replayable(e *dlq.Envelope) string {
	r := e.Request
	cut := slices.ContainsFunc(r.Credentials, func(name string) bool { return strings.HasPrefix(name, "form:") })
	switch {
	case a.Observe != nil:
		return "account " + a.Name + " only observes: set its mode to enforce, or send the document again from its source"
	case e.Job != nil && e.Job.Start == nil:
		return "the job failed, and its start did not come through this proxy: send the document again from its source, then resolve the letter"
	case e.RawPayloadRef == "" && (r.BodySHA256 != "" || cut || e.Job != nil):
		return "its payload was not kept (dead_letters.payloads: none, or a form that could not be freed of its credential): send the document again from its source, then resolve the letter"
	case len(r.Credentials) > 0 && a.replayCredential().PassesThrough():
		return fmt.Sprintf("the worker's credential was cut out of it (%s), and account %s has none of its own: give the account an auth, or a replay_auth for replays alone",
			strings.Join(r.Credentials, ", "), a.Name)
	}
	return ""
}

// ReplayWait is how long a letter would have to wait for the circuit of the account, or of the first of its group, or for a pause that is longer
// than a request may take; 0: it need not.
func (a *Account) ReplayWait(e *dlq.Envelope) time.Duration {
	wait := a.ownWait(e.Operation)
	if a.Group != nil && slices.Contains(a.Provider.Portable, e.Operation) {
		for _, other := range a.Group.all {
			wait = min(wait, other.ownWait(e.Operation))
		}
	}
	return wait
}

// ownWait is how long circuit and queue of one account would hold a call.
func (a *Account) ownWait(operation string) time.Duration {
	wait := a.Breakers.For("").Wait()
	policy := a.Policy(operation)
	if left := a.Queues.For(operation).Remaining(); left >= policy.Total-policy.leastAttempt() {
		wait = max(wait, left)
	}
	return wait
}

// replayCredential is what replays prove with who they are.
func (a *Account) replayCredential() *credential.Credential {
	if a.ReplayCredential != nil {
		return a.ReplayCredential
	}
	return a.Credential
}

// presetKeys takes the names of document and request from the letter: what was cut out of the request must not make it another one.
func (x *exchange) presetKeys() {
	e := x.resent.letter
	if e.RequestFingerprint != "" {
		x.keysOnce.Do(func() { x.keys = fingerprint.Keys{Idempotency: e.IdempotencyKey, Fingerprint: e.RequestFingerprint} })
	}
}

// errRefused ends a replay before anything is sent; the exchange knows why.
var errRefused = errors.New("the dead letter is not sent")

// mayBeAgain refuses a replay whose payload is not what was received, and one of a call that may have been done and that the loop, too, would
// not repeat.
func (x *exchange) mayBeAgain() error {
	if x.resent == nil {
		return nil
	}
	e := x.resent.letter
	switch {
	case x.body != nil && e.Request.BodySHA256 != "":
		if sum, err := x.body.Sum256(); err != nil || hex.EncodeToString(sum[:]) != e.Request.BodySHA256 {
			x.resent.refuse("its payload is damaged: send the document again from its source, then discard the letter; `ocr-proxy dlq verify` finds others")
		}
	case x.body == nil && e.RawPayloadRef != "" && e.Request.BodyBytes > 0:
		x.resent.refuse("its payload is empty and should not be: send the document again from its source, then discard the letter")
	}
	if e.Ambiguous && !x.resent.evenAmbiguous && !x.repeatable(attempt{ambiguous: true}) {
		x.resent.refuse("the provider may have done the work already, and account " + x.listener.Name +
			" does not repeat that by itself: look for it at the provider, then resolve the letter or replay it with --include-ambiguous")
	}
	bound, known := x.boundTo()
	if x.bound = bound; !known && !x.resent.evenAmbiguous {
		x.resent.refuse("the provider may have done the work already, and at which account of the group is not known: " +
			"look for it at the provider, then resolve the letter or replay it with --include-ambiguous")
	}
	if x.resent.refused != "" {
		x.stop, x.outcome = retry.Unsafe, Rejected
		return errRefused
	}
	return nil
}

// resent is the dead letter that a request is made of. The methods may be called on nil, which stands for a worker's request.
type resent struct {
	letter        *dlq.Envelope
	evenAmbiguous bool
	failure       *dlq.Envelope // what another failure of it would be written down as
	refused       string        // why nothing was sent
}

// about reports whether a failure is one of the letter's own request. That of a poll which tells that its job has failed is about the document.
func (g *resent) about(e *dlq.Envelope) bool {
	return g != nil && e.Operation == g.letter.Operation && (e.RequestFingerprint == g.letter.RequestFingerprint || g.letter.RequestFingerprint == "")
}

// failed keeps another failure for the letter, which is in somebody's hands, and gives its id.
func (g *resent) failed(e *dlq.Envelope) string {
	g.failure = e
	return g.letter.ID
}

// refuse notes why nothing is sent.
func (g *resent) refuse(sentence string) {
	if g != nil {
		g.refused = sentence
	}
}

// anew reports whether the letter is about a job that failed, whose start must be a new job.
func (g *resent) anew() bool { return g != nil && g.letter.Job != nil }

// token is the one that the call was made under; "": none of the proxy's.
func (g *resent) token() string {
	if g == nil {
		return ""
	}
	return g.letter.Request.Token
}

// identity makes the token of a start that has none: the same for every replay of the letter, whatever became of the last one, and another
// for another job that failed.
func (g *resent) identity() string {
	if g.letter.Job == nil {
		return "letter " + g.letter.ID
	}
	return "letter " + g.letter.ID + " after " + g.letter.Job.ID
}
