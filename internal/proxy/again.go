package proxy

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/calls"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// The fixed words for answers that cost no call of their own.
const (
	reasonJoined  = "joined"  // the same call was under way: its answer
	reasonRescued = "rescued" // the same call was answered when its worker had gone: that answer
	reasonBuried  = "buried"  // the client library repeats a call that was just buried, and nothing has changed
)

// costly reports whether the request is one that is paid for and whose answer can be kept: then it is worth knowing when it is made twice, and
// worth finishing when its worker hangs up.
func (x *exchange) costly() bool {
	carries := x.in.Method == http.MethodPost || x.in.Method == http.MethodPut
	return x.account.Calls.On() && carries && x.body != nil && x.op.Name != provider.Other && (x.op.Judged || x.op.Repeat != provider.Always)
}

// call tells this request from others.
func (x *exchange) call() calls.Call {
	p := x.listener.Provider
	c := calls.Call{
		Account: x.listener.Name, Credential: x.circuit.key + x.client, Operation: x.op.Name, Size: x.body.Expected(),
		Print: func() (string, error) {
			keys, err := x.identify()
			print := keys.Fingerprint + x.wants()
			if keys.Pointed {
				print += " " + x.callName() // another call may be about what lies there now
			}
			return print, err
		},
	}
	if p.CallID != "" {
		c.ID = x.in.Header.Get(p.CallID)
	}
	if x.starts() {
		c.Name = cmp.Or(x.callName(), x.given, x.token) // as the journal does
	}
	c.Again = x.ask.join || p.Again != nil && p.Again(x.in.Header)
	return c
}

// wants is what the head says about the form of the answer: one is given only to somebody who would have got it in that form.
func (x *exchange) wants() string {
	h := x.in.Header
	form := [][]string{h["Accept"], h["Grpc-Accept-Encoding"]}
	for _, name := range x.listener.Provider.Shapes {
		form = append(form, h[name])
	}
	return fmt.Sprintf(" %q gzip=%t", form, hasGzip(h["Accept-Encoding"]))
}

// recall answers a request from what is known of the same call, if anything is; else it notes the call as under way. The stop is Canceled when
// the worker hung up over it.
func (x *exchange) recall(out *http.Request) (*http.Response, retry.Stop) {
	if !x.costly() {
		return nil, retry.Continue
	}
	call := x.call()
	kept, err := x.account.Calls.Take(call)
	if err != nil {
		return nil, retry.Continue // a body that cannot be read will say so itself
	}
	switch {
	case kept == nil:
	case !kept.Buried:
		return x.retell(out, kept, reasonRescued), retry.Continue
	case x.resent == nil && (kept.Lasting || x.refusedFor() > 0): // a replay means that something has changed
		return x.retell(out, kept, reasonBuried), retry.Continue
	default:
		kept.Release()
	}
	x.flight = x.account.Calls.Enter(call)
	ctx, cancel := context.WithDeadlineCause(x.in.Context(), x.deadline(), &classify.TimeoutError{What: "total budget", After: x.total})
	defer cancel()
	began := x.mark()
	joined, err := x.flight.Join(ctx)
	if joined != nil || err != nil {
		x.wait(forAnother, began)
	}
	switch {
	case err != nil && x.interrupted() != retry.Continue:
		return nil, x.interrupted()
	case joined == nil:
		// What landed between the first look and Enter is kept by now.
		if kept, err = x.account.Calls.Take(call); err == nil && kept != nil {
			if !kept.Buried {
				x.land(nil)
				return x.retell(out, kept, reasonRescued), retry.Continue
			}
			kept.Release()
		}
		return nil, retry.Continue // nothing to join, or its time ran out: the loop finds out what is left of this request's
	}
	x.land(nil)
	return x.retell(out, joined, reasonJoined), retry.Continue
}

// retell makes this worker's answer of one that another was given, or was to be given.
func (x *exchange) retell(out *http.Request, a *calls.Answer, reason string) *http.Response {
	x.stop, x.shared = retry.Final, a
	h := a.Header.Clone()
	x.outcome, x.reason, x.status = Outcome(h.Get("Ocr-Proxy-Outcome")), reason, a.Status
	story, ok := a.Story.(told)
	if ok {
		x.account = story.account // whose addresses are in the answer
	}
	if ok && x.outcome != Success && x.outcome != Rejected {
		// The letter is raised with the history that it has: nothing new was tried.
		x.history, x.err, x.stop, x.notBefore, x.job = story.history, story.err, story.stop, story.notBefore, story.job
		x.letter = x.bury()
		x.history, x.notBefore = nil, time.Time{}
	}
	h.Del("Ocr-Proxy-Class")
	h.Del("Ocr-Proxy-Ambiguous")
	x.describe(h, 0)
	return &http.Response{
		StatusCode: a.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: a.Open(), ContentLength: a.Size(), Request: out,
	}
}

// told is what else there is to know of an answer that is given again: who gave it and, of a buried one, what its letter needs to be raised.
type told struct {
	account   *Account // that answered
	history   []attempt
	err       error
	stop      retry.Stop
	notBefore time.Time
	job       *endedJob
}

// land ends the flight of a costly request: whoever waits for the same call gets its answer, and an answer that its worker did not take, or
// that was buried, is kept for the client library's own retry. It may be called again once it is known that the worker did not take it.
func (x *exchange) land(resp *http.Response) {
	f := x.flight
	if f == nil {
		return
	}
	x.flight = nil
	if resp != nil && x.keeps() && x.share(resp) != nil {
		x.keep() // before it lands: until then the same call joins, from then on it takes
	}
	if resp == nil {
		f.Abandon()
		return
	}
	f.Land(func(wanted bool) *calls.Answer {
		if x.shared != nil || !wanted {
			return x.shared
		}
		return x.share(resp)
	})
}

// keeps reports whether an answer is worth keeping although its worker is there, or because it has gone.
func (x *exchange) keeps() bool {
	if x.left {
		return true
	}
	switch x.outcome {
	case Success:
		return x.gone()
	case Permanent, CircuitOpen:
		return x.known()
	case Exhausted:
		return x.stop == retry.Unsafe && x.known() // what the proxy must not send again, the library must not either
	case Review, Rejected, ClientGone:
	}
	return false
}

// known reports whether the library's own retry of this call can be told from a new call.
func (x *exchange) known() bool { return x.call().ID != "" || x.listener.Provider.Again != nil }

// polls reports whether the call asks for a job. A good answer to one is not kept: it would tell how far the job was, and hide its end from
// the journal.
func (x *exchange) polls() bool {
	j := x.jobs()
	return j != nil && slices.Contains(j.Polls, x.op.Name)
}

// keep stores the shared answer for the same call.
func (x *exchange) keep() {
	if x.outcome.good() && x.polls() {
		return
	}
	if err := x.account.Calls.Keep(x.call(), x.shared); err != nil {
		x.account.Log.Warn("an answer could not be kept for the next retry", zap.String("provider", x.account.Name), zap.Error(err))
	}
}

// rescue keeps an answer that was paid for, if only in part, and that was ready when its worker had gone, or went while it was given.
func (x *exchange) rescue(out *http.Request) {
	if x.flight == nil && x.shared == nil && (x.last == nil || x.last.held == nil) && x.batch == nil || !x.costly() {
		return
	}
	if x.shared != nil && len(x.history) == 0 { // another's answer, which this worker did not take either
		if !x.shared.Buried {
			x.keep()
		}
		return
	}
	if !x.earned() {
		x.land(nil)
		return
	}
	x.left, x.outcome = true, outcomeOf(x.stop, x.class(), len(x.history))
	x.reason = x.fixedWord()
	if x.flight != nil {
		x.land(x.dress(x.final(out))) //nolint:bodyclose // whoever joined reads it, dress keeps it
		return
	}
	if x.shared == nil {
		x.share(x.dress(x.final(out))) //nolint:bodyclose // as above
	}
	if x.shared != nil {
		x.keep()
	}
}

// share makes an answer that several can be given, if its body is at hand as a whole.
func (x *exchange) share(resp *http.Response) *calls.Answer {
	var a *calls.Answer
	head := resp.Header
	if x.head != nil {
		head = x.head // this worker has been given its own addresses
	}
	head = head.Clone()
	switch {
	case x.last != nil && resp == x.last.resp && x.last.held != nil:
		a = calls.NewAnswer(resp.StatusCode, head, x.last.held)
		x.last.held = nil // the answer releases it
	case x.last != nil && resp == x.last.resp && !x.last.complete && !x.last.empty():
		return nil // on its way to the worker, from whom it cannot be had again
	default:
		text, err := io.ReadAll(resp.Body) // in memory: an error that was kept whole, or the proxy's own answer
		if err != nil {
			return nil
		}
		resp.Body = io.NopCloser(bytes.NewReader(text))
		body := x.account.Bodies.Body(int64(len(text)))
		if _, err := body.ReadFrom(bytes.NewReader(text)); err != nil {
			body.Release()
			return nil
		}
		a = calls.NewAnswer(resp.StatusCode, head, body)
	}
	story := told{account: x.account}
	if x.outcome != Success {
		a.Buried, a.Lasting = !x.left, x.outcome != CircuitOpen
		story = told{x.account, append([]attempt(nil), x.history...), x.err, x.stop, x.notBefore, x.job}
	}
	a.Story = story
	x.shared = a
	return a
}
