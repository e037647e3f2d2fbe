package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/spool"
)

// observation is a call at an account that observes. It goes to the provider and back as through a plain reverse proxy; what the proxy would have
// made of it is worked out from copies, when the worker has its answer. It is the Transport of its own ReverseProxy.
type observation struct {
	x *exchange // what verdicts, metrics and log lines are made of; its loop does not run

	began   time.Time    // of the attempt; zero: none was made
	ended   time.Time    // of the attempt
	left    atomic.Bool  // the head of the request has been sent
	sized   atomic.Int64 // bytes of the request's body that went up
	cut     atomic.Bool  // the worker did not send all of it
	arrived atomic.Bool  // all of it has been read
	failed  error        // why there was no answer
	status  int          // of the answer; 0: there was none
	header  http.Header  // of the answer, as it came
	trailer http.Header  // of the answer
	empty   bool         // the answer has no body
	whole   bool         // the answer came to its end
	broken  error        // why it did not; nil: the worker did not take it
	record  *spool.Body  // a copy of the answer's body, of an error its beginning; nil: nobody would look at it
	upgrade bool         // the connection speaks another protocol now
	hungUp  bool         // the worker had gone before the end

	permit *permit // nil: the circuit would not have let the call pass
	unseen bool    // something that would have been looked at was not

	would       []string // what would have been done
	wouldReason string   // why the document would have been refused
	ends        Outcome  // that the call would have had; "": nobody knows
}

// observe takes one call of a worker's from its head to its last byte, and changes nothing.
func (a *Account) observe(w http.ResponseWriter, r *http.Request) {
	x := &exchange{listener: a, account: a, credential: a.Credential, in: r, control: http.NewResponseController(w), start: time.Now()}
	o := &observation{x: x}
	x.observed = o
	leave := a.Purse.Enter()
	defer func() {
		// The last bytes of the answer leave when the handler has returned, so that nothing is worked out before that.
		o.over()
		go func() {
			defer leave() // last: a drain waits for the line, too
			o.conclude()
		}()
	}()
	if refused := o.admit(); refused != nil {
		x.outcome, x.reason, x.err = Rejected, refused.reason, errors.New(refused.message)
		o.fail(w, refused.status, refused.reason, refused.message)
		return
	}
	_ = x.control.EnableFullDuplex() // an answer may begin before the upload has ended; over HTTP/2 it may in any case
	w.Header()["Content-Type"] = nil // what the provider does not name is not ours to guess
	proxy := httputil.ReverseProxy{
		Rewrite: o.rewrite, Transport: o, BufferPool: a.CopyBuffers, ErrorLog: a.ErrorLog,
		FlushInterval:  -1, // each piece goes on as it comes
		ModifyResponse: func(*http.Response) error { o.lastCall(w.Header()); return nil },
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { o.unanswered(w, r, err) },
	}
	proxy.ServeHTTP(w, r)
	o.x.delivered = true
}

// admit reads what the head says, and asks the circuit for its opinion. What cannot be passed on is a call to somebody else, and one whose signature
// can neither be kept nor replaced.
func (o *observation) admit() *refusal {
	r, a := o.x.in, o.x.account
	if r.Method == http.MethodConnect || !strings.HasPrefix(r.RequestURI, "/") {
		return &refusal{status: http.StatusBadRequest, reason: "bad_target", message: badTarget}
	}
	if a.Provider.GRPC != nil && r.ProtoMajor > 1 && provider.IsGRPC(r.Header) {
		o.x.rpc = &rpc{kind: a.Provider.GRPC, coding: r.Header.Get("Grpc-Encoding")}
	}
	if refused := o.x.visitor(); refused != nil {
		return refused
	}
	o.x.ask, _ = readInstructions(r.Header) // what is wrong with them would be told, and changes nothing
	o.x.op = o.x.operation()
	o.x.policy = a.Policy(o.x.op.Name)
	o.x.policy.Total = o.x.limit(o.x.policy.Total)
	o.x.total = o.x.policy.Total
	if problem := o.x.credential.Refuses(r.Header); problem != "" {
		return &refusal{status: http.StatusBadRequest, reason: "streaming_signature", message: problem}
	}
	o.x.circuit = a.circuitFor(r)
	asked := new(permit)
	if _, err := o.x.circuit.acquire(asked, a.HoldOpen); err == nil {
		o.permit = asked
	}
	return nil
}

// rewrite turns the worker's request into the one that goes upstream. Only what is between two hops is taken out, and what is said to this proxy.
func (o *observation) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL = target(o.x.account.Upstream, r.In.URL, r.In.RequestURI)
	r.Out.Host = o.x.account.Upstream.Host
	dropInstructions(r.Out.Header)
	for _, name := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = values // the standard library takes them for a proxy's and drops them; here they are the worker's
		}
	}
}

// RoundTrip makes the one attempt: the body goes up while it arrives, and the answer comes down while it does.
func (o *observation) RoundTrip(out *http.Request) (*http.Response, error) {
	trace := &httptrace.ClientTrace{WroteHeaders: func() { o.left.Store(true) }, Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		dropInstructions(http.Header(h)) // before they are passed on
		return nil
	}}
	req := out.WithContext(httptrace.WithClientTrace(out.Context(), trace))
	o.began = time.Now()
	err := o.prove(req)
	if hasBody(req) && o.x.body == nil {
		req.Body = o.copied(req.Body)
	}
	var resp *http.Response
	if err == nil {
		resp, err = o.way().RoundTrip(req)
	}
	if err != nil {
		o.failed = err
		return nil, err
	}
	o.status, o.header = resp.StatusCode, resp.Header
	if resp.StatusCode == http.StatusSwitchingProtocols {
		o.upgrade = true
		return resp, nil
	}
	told := &answer{resp: resp}
	o.empty = told.empty()
	if o.judged() {
		o.record = o.copyOf(resp)
	}
	resp.Body = &passing{ReadCloser: resp.Body, o: o, resp: resp}
	resp.Header = o.x.relocated(resp.Header)
	dropInstructions(resp.Header) // only this proxy speaks for itself
	dropInstructions(resp.Trailer)
	return resp, nil
}

// copyOf is where an answer is copied to: all of it that a request might be, of an error no more than the classifier sees.
func (o *observation) copyOf(resp *http.Response) *spool.Body {
	if resp.StatusCode >= http.StatusBadRequest {
		record := o.x.account.Bodies.Body(-1)
		record.Limit(maxErrorPrefix)
		return record
	}
	record := o.x.account.Bodies.Body(resp.ContentLength)
	record.Limit(o.x.account.MaxBody)
	return record
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// way is the way to the provider.
func (o *observation) way() http.RoundTripper {
	if a := o.x.account; a.GRPCTransport != nil && o.x.in.ProtoMajor > 1 && provider.IsGRPC(o.x.in.Header) {
		return a.GRPCTransport
	}
	return o.x.account.Transport
}

// prove puts the account's credential on the request. One that signs the body has to have all of it first.
func (o *observation) prove(req *http.Request) error {
	if o.x.credential.PassesThrough() {
		return nil
	}
	req.Header = req.Header.Clone()
	o.x.sent = req.Header
	err := o.x.credential.Apply(o.x.in.Context(), credential.Attempt{Request: req, Sum256: func() ([sha256.Size]byte, error) { return o.receive(req) }})
	if err != nil {
		return &classify.CredentialError{Err: err}
	}
	return nil
}

// receive takes the whole body, of whatever size, so that it can be signed.
func (o *observation) receive(req *http.Request) (sum [sha256.Size]byte, err error) {
	if !hasBody(req) {
		return sha256.Sum256(nil), nil
	}
	o.x.body = o.x.account.Bodies.Body(-1)
	o.x.body.Limit(math.MaxInt64)
	size, err := o.x.body.ReadFrom(&rising{ReadCloser: req.Body, o: o})
	if err != nil {
		return sum, err
	}
	o.x.upload = time.Since(o.began)
	req.Body, req.ContentLength, req.TransferEncoding = o.x.body.Open(), size, nil
	return o.x.body.Sum256()
}

// copied is the worker's body on its way up. A copy is kept where somebody would look at it, in memory or on the disk as every body is, and given up
// when it cannot be: that costs the observation, not the call.
func (o *observation) copied(body io.ReadCloser) io.ReadCloser {
	a := o.x.account
	if _, checked := a.Provider.Checks[o.x.op.Name]; a.Precheck != nil && checked {
		o.x.body = a.Bodies.Body(o.x.in.ContentLength)
	}
	return &rising{ReadCloser: body, o: o, copy: o.x.body}
}

// rising is a request's body on its way up. The transport may still be reading it when the answer has ended.
type rising struct {
	io.ReadCloser
	o    *observation
	copy *spool.Body // nil: none is kept
}

func (b *rising) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.o.sized.Add(int64(n))
	switch {
	case err == io.EOF:
		b.o.arrived.Store(true)
	case err != nil:
		b.o.cut.Store(true)
	}
	if b.copy != nil {
		if n > 0 {
			_, _ = b.copy.Write(p[:n]) // the copy remembers that it is none
		}
		if err != nil {
			b.copy.Finish(err)
		}
	}
	return n, err
}

// judged reports whether the body of the answer would be looked at.
func (o *observation) judged() bool {
	switch {
	case o.empty:
		return false
	case o.status >= http.StatusBadRequest:
		return true
	case o.x.rpc != nil:
		return o.x.op.Judged && !o.x.rpc.kind.Streams(o.x.in.URL.Path)
	}
	return o.x.op.Judged && isJSON(o.header)
}

// passing is an answer's body on its way down.
type passing struct {
	io.ReadCloser
	o    *observation
	resp *http.Response
}

func (b *passing) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	o := b.o
	if o.record != nil && n > 0 {
		_, _ = o.record.Write(p[:n]) // the copy remembers that it is none
	}
	if err != nil && o.ended.IsZero() {
		o.ended = time.Now()
		if o.whole = err == io.EOF; o.whole { // a wrapped one tells of an answer that broke off
			o.trailer = b.resp.Trailer.Clone()
			dropInstructions(b.resp.Trailer) // known only now
		} else {
			o.broken = err
		}
	}
	return n, err
}

// unanswered tells the worker that there was no answer, as a reverse proxy does, in the provider's shape.
func (o *observation) unanswered(w http.ResponseWriter, r *http.Request, err error) {
	if o.x.gone() {
		abort(w, r, err)
	}
	if o.failed == nil {
		o.failed = err
	}
	o.x.outcome, o.x.err, o.x.history = Exhausted, err, append(o.x.only[:0], attempt{n: 1, err: err}) // for the words
	p := o.x.problem()
	o.lastCall(w.Header())
	o.fail(w, http.StatusBadGateway, p.Reason, p.Message)
}

// lastCall lets the connection end with an answer that begins before all of the upload has been read. A server that lets both overlap looks for
// the rest of the upload when it listens for the next call already, and gives the connection up over that: the next call would be lost with it.
func (o *observation) lastCall(h http.Header) {
	if o.x.in.ProtoMajor == 1 && hasBody(o.x.in) && !o.arrived.Load() && !o.upgrade {
		h.Set("Connection", "close")
	}
}

// fail answers in the provider's shape.
func (o *observation) fail(w http.ResponseWriter, status int, reason, message string) {
	o.x.status = status
	status, header, body := o.x.tell(provider.Problem{Status: status, Reason: reason, Message: message})
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	if o.x.in.Method != http.MethodHead {
		_, _ = w.Write(body) // a worker that has gone needs no answer
	}
}

// over notes how the call has ended, while its connection still tells.
func (o *observation) over() {
	if o.ended.IsZero() {
		o.ended = time.Now()
	}
	o.hungUp = o.x.gone() || o.cut.Load() && (o.failed != nil || o.broken != nil) || !o.x.delivered && o.failed == nil && o.broken == nil && !o.upgrade
	if o.x.status == 0 {
		o.x.status = o.status
	}
	// What is worked out from here on has a time of its own.
	ctx := o.x.account.Ending
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	o.x.in = o.x.in.WithContext(ctx)
}
