package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

// buryTime bounds how long a worker waits for its dead letter to be durable.
const buryTime = 30 * time.Second

// bury writes the dead letter of a request that failed and returns its id. A letter that cannot be written is logged, and counted by the
// store; the worker's answer does not suffer for it.
func (x *exchange) bury() string {
	defer x.step("dead letter", x.mark())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.in.Context()), buryTime)
	defer cancel()
	secrets := x.secrets()
	envelope, body, err := x.envelope(secrets)
	if err == nil && x.resent.about(envelope) {
		_ = body.Close()
		return x.resent.failed(envelope)
	}
	if err == nil {
		var id string
		id, err = x.put(ctx, envelope, body)
		if err == nil {
			return id
		}
	}
	x.account.Log.Error("dead letter not written: the document is in no queue, only in the worker's hands",
		zap.String("provider", x.listener.Name), zap.String("operation", x.op.Name), zap.String("outcome", string(x.outcome)),
		zap.String("error", secrets.Text(err.Error())))
	return ""
}

// put hands the letter to the store, with the body if the request had one.
func (x *exchange) put(ctx context.Context, e *dlq.Envelope, body io.ReadCloser) (string, error) {
	defer func() { _ = body.Close() }()
	if body == http.NoBody {
		return x.listener.Sink.Put(ctx, e, nil)
	}
	return x.listener.Sink.Put(ctx, e, body)
}

// envelope tells the request's story without its credentials, and gives the body that belongs to it.
func (x *exchange) envelope(secrets *scrub.Values) (*dlq.Envelope, io.ReadCloser, error) {
	keys, err := x.identify()
	if err != nil {
		return nil, nil, err
	}
	request, body, err := x.request()
	if err != nil {
		return nil, nil, err
	}
	last := x.lastAttempt()
	e := &dlq.Envelope{
		Outcome:            string(x.letterOutcome()),
		DocumentID:         cmp.Or(x.ask.documentID, keys.Idempotency),
		IdempotencyKey:     keys.Idempotency,
		RequestFingerprint: keys.Fingerprint,
		Tenant:             x.ask.tenant,
		Provider:           x.listener.Name,
		Kind:               x.listener.Provider.Name,
		Operation:          x.op.Name,
		FailureClass:       x.class().Failure(),
		ErrorClass:         x.class().String(),
		ErrorCode:          secrets.Text(last.verdict.Code),
		ErrorMessage:       secrets.Text(last.verdict.Message),
		HTTPStatus:         status(last.status),
		Diagnostic:         secrets.Text(x.diagnostic()),
		StackTrace:         secrets.Text(x.stackTrace()),
		RetryCount:         max(0, len(x.history)-1),
		ClassChanged:       slices.ContainsFunc(x.history, func(a attempt) bool { return a.verdict.Class != last.verdict.Class }),
		Ambiguous:          slices.ContainsFunc(x.history, func(a attempt) bool { return a.ambiguous }),
		Request:            request,
		FirstAttemptAt:     x.start,
		FailedAt:           time.Now(),
		Occurrences:        1,
		TraceID:            x.traceID(),
	}
	if !x.notBefore.IsZero() && x.notBefore.After(e.FailedAt) {
		e.RetryNotBefore = &x.notBefore
	}
	for _, a := range x.history {
		e.Attempts = append(e.Attempts, dlq.Attempt{
			N: a.n, Account: a.at, Ambiguous: a.ambiguous, StartedAt: a.started, DurationMS: milliseconds(a.duration), HTTPStatus: status(a.status),
			ErrorClass: a.verdict.Class.String(), ErrorCode: secrets.Text(a.verdict.Code),
			WaitedMS: milliseconds(a.before.length), WaitSource: a.before.source, UpstreamRequestID: secrets.Text(a.requestID),
		})
	}
	if len(e.Attempts) > 0 {
		e.FirstAttemptAt = x.history[0].started
	}
	return e, x.aboutJob(e, body), nil
}

// letterOutcome is the outcome that the letter has: that of the request, unless the operator wants people to have the documents of an outage that lasts.
func (x *exchange) letterOutcome() Outcome {
	if x.outcome == CircuitOpen && x.listener.OnSustained == ToPeople && x.circuit.sustained() {
		return Review
	}
	return x.outcome
}

// request is what a replay needs: the call without whatever proved who made it, and its body.
func (x *exchange) request() (dlq.Request, io.ReadCloser, error) {
	r := dlq.Request{
		Method: x.in.Method, Path: x.in.URL.EscapedPath(), Headers: map[string][]string{}, Token: x.token,
		ContentType: x.in.Header.Get("Content-Type"),
	}
	own := x.credentialHeaders()
	named := namedByConnection(x.in.Header)
	for name, values := range x.in.Header {
		carries := scrub.Header(name) || slices.ContainsFunc(own, func(s string) bool { return strings.EqualFold(s, name) })
		switch {
		case strings.EqualFold(name, x.listener.Idempotency.Header): // its name often ends like a key's
			r.Headers[name] = values
		case carries:
			r.Credentials = append(r.Credentials, "header:"+name)
		case scrub.Kept(name) && !named[http.CanonicalHeaderKey(name)]:
			r.Headers[name] = values
		}
	}
	if x.resent != nil {
		r.Credentials = slices.Clone(x.resent.letter.Request.Credentials)
	}
	slices.Sort(r.Credentials)
	var cut []string
	r.Query, cut = scrub.Query(x.in.URL.RawQuery)
	for _, name := range cut {
		r.Credentials = append(r.Credentials, "query:"+name)
	}
	body, cut, err := x.withoutSecrets(r.ContentType)
	for _, name := range cut {
		r.Credentials = append(r.Credentials, "form:"+name)
	}
	return r, body, err
}

// withoutSecrets is the body that may be kept, and the names of the credential fields that were cut out of it. One that cannot be cut is left
// out: a letter without its payload still says what happened.
func (x *exchange) withoutSecrets(contentType string) (body io.ReadCloser, cut []string, err error) {
	x.hideMembers()
	form := x.openReceived()
	secrets, err := scrub.FormSecrets(contentType, form)
	_ = form.Close()
	if err != nil && !errors.Is(err, scrub.ErrUnreadableForm) {
		return nil, nil, err
	}
	for _, s := range secrets {
		x.secrets().Add(s.Value)
		if !slices.Contains(cut, s.Name) {
			cut = append(cut, s.Name)
		}
	}
	switch {
	case err != nil:
		x.withoutPayload(err)
		return http.NoBody, append(cut, "unreadable"), nil
	case len(cut) == 0:
		return x.openReceived(), nil, nil
	}
	form = x.openReceived()
	defer func() { _ = form.Close() }()
	clean := x.account.Bodies.Body(-1)
	defer clean.Release() // its reader keeps it
	err = scrub.CutForm(contentType, form, clean)
	clean.Finish(err)
	if err != nil {
		x.withoutPayload(err)
		return http.NoBody, cut, nil
	}
	return clean.Open(), cut, nil
}

// hideMembers adds the credentials among the members of a JSON body to the secrets: the body is kept as it is, but a provider may echo them.
func (x *exchange) hideMembers() {
	body := x.openReceived()
	defer func() { _ = body.Close() }()
	found, _ := jsonstream.Pick(body, []string{"*"}, maxJudged) // what is no JSON has no members
	for _, v := range found["*"] {
		if len(v.Names) == 1 && scrub.Param(v.Names[0]) {
			x.secrets().Add(v.Text)
		}
	}
}

// withoutPayload says that a letter does not hold its document, and why.
func (x *exchange) withoutPayload(why error) {
	x.account.Log.Warn("a dead letter is written without its payload, for the sake of a credential in it",
		zap.String("provider", x.listener.Name), zap.Error(why))
}

// openReceived is a reader over the body as the worker sent it.
func (x *exchange) openReceived() io.ReadCloser {
	if x.body == nil {
		return http.NoBody
	}
	return x.body.Open()
}

// namedByConnection are the headers that the worker declared to be for this hop only.
func namedByConnection(h http.Header) map[string]bool {
	named := map[string]bool{}
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			named[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	return named
}

// lastAttempt is the latest attempt, or an empty one: of the verdict on a document that is not sent, else of class transient.
func (x *exchange) lastAttempt() attempt {
	if n := len(x.history); n > 0 {
		return x.history[n-1]
	}
	return attempt{verdict: cmp.Or(x.hopeless, classify.Verdict{Class: classify.Transient})}
}

// stackTrace is the chain of errors, outermost first, a line each.
func (x *exchange) stackTrace() string {
	lines := []string{"request " + string(x.outcome) + " after " + plural(len(x.history), "attempt")}
	for _, a := range x.history {
		lines = append(lines, a.story())
	}
	for err := x.err; err != nil; err = errors.Unwrap(err) {
		lines = append(lines, err.Error())
	}
	return strings.Join(lines, "\n")
}

func status(code int) *int {
	if code == 0 {
		return nil
	}
	return &code
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
