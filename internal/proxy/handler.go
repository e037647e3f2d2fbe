package proxy

import (
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// ServeHTTP takes one call of a worker's from its head to its last byte. Every way out, a panic that aborts the connection included, passes
// through the record in the defer.
func (a *Account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.Observe != nil {
		a.observe(w, r)
		return
	}
	x := &exchange{listener: a, account: a, credential: a.Credential, in: r, control: http.NewResponseController(w), start: time.Now()}
	_ = x.control.SetWriteDeadline(time.Time{}) // the connection's last answer had one
	x.beginTrace()
	x.serve(w)
}

// serve runs the request from its head to its last byte.
func (x *exchange) serve(w http.ResponseWriter) {
	a, r := x.listener, x.in
	leave := a.Purse.Enter()
	defer func() {
		if !x.delivered && x.outcome != ClientGone && (x.last == nil || !x.last.streams) { // of a stream only its end tells
			x.rescue(nil)
			if x.outcome == Success {
				x.outcome = ClientGone
			}
		}
		x.land(nil)
		x.jobBegun("") // where a panic came between
		if x.last != nil {
			x.last.discard() // settles it, if that is still open
		}
		x.dropAttempt()
		if x.shared != nil {
			x.shared.Release()
		}
		x.report() // may bury the document, so that the body must still be there
		if x.body != nil {
			x.body.Release()
		}
		leave() // last: a drain waits for the letter too
	}()
	refusal := x.admit()
	if refusal == nil {
		refusal = x.receive()
	}
	if refusal == nil {
		refusal = x.oneMessage()
	}
	if refusal == nil {
		began := x.mark()
		refusal = x.precheck()
		x.step("precheck", began)
	}
	if refusal != nil {
		if refusal.reason == queueFull {
			x.notBefore = time.Now().Add(refusal.retry)
		} else {
			x.resent.refuse(refusal.message)
		}
		x.refuse(w, *refusal)
		return
	}
	if x.stop == retry.Canceled {
		abort(w, r, nil)
	}
	w.Header()["Content-Type"] = nil // what the provider does not name is not ours to guess
	proxy := httputil.ReverseProxy{
		Rewrite:      x.rewrite,
		Transport:    x,
		BufferPool:   a.CopyBuffers,
		ErrorHandler: x.failed,
		ErrorLog:     a.ErrorLog,
	}
	proxy.ServeHTTP(w, r)
	if x.refused != nil {
		return
	}
	if r.ProtoMajor > 1 && x.outcome.good() && x.control.Flush() != nil {
		abort(w, r, nil) // over HTTP/2 the last piece leaves only when the worker has room for it
	}
	x.delivered = true
	x.endDelivery()
	if a.Ending.Err() != nil {
		_ = x.control.Flush() // once this request counts as done, its connection may be closed
	}
	x.closeJob()
	x.heal()
}

// failed ends a request without an answer: its body did not arrive, or there is nobody left to answer.
func (x *exchange) failed(w http.ResponseWriter, r *http.Request, err error) {
	if x.refused == nil {
		abort(w, r, err)
	}
	x.refuse(w, *x.refused)
}

// abort ends the worker's connection. It is called when there is nobody left to answer.
func abort(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
