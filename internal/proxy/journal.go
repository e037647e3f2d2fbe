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
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
	"github.com/ocr-proxy/ocr-proxy/internal/scrub"
)

// reasonJournaled marks an answer that cost no call of its own: the same call has already started a job.
const reasonJournaled = "journaled"

const (
	// maxJobAnswer bounds the answer to a job start that is journaled, in bytes: it names a job and holds no result.
	maxJobAnswer = 64 << 10
	// maxJobCall bounds the body of a call that asks for a job, in bytes.
	maxJobCall = 64 << 10
)

// jobs are the kind's rules about jobs; nil where calls of this form start none.
func (x *exchange) jobs() *provider.Jobs {
	if x.rpc != nil {
		return nil
	}
	return x.account.Provider.Jobs
}

// starts reports whether the call starts a job that is journaled.
func (x *exchange) starts() bool {
	j := x.jobs()
	return j != nil && x.account.Jobs != nil && slices.Contains(j.Starts, x.op.Name)
}

// callKey tells a call by which a job is started from others. What tells it are the client library's id of the call, or the worker's name
// for the document, and the idempotency token that the job start carries; where there is none of them, nothing does, and no later call is the
// same. All of them survive a restart. The credential counts as a salted hash, so that nobody is given another's job.
func (x *exchange) callKey() (dlq.CallKey, error) {
	keys, err := x.identify()
	if err != nil {
		return dlq.CallKey{}, err
	}
	k := dlq.CallKey{Account: x.account.Name, Fingerprint: keys.Fingerprint, Token: cmp.Or(x.given, x.token)}
	if name := x.callName(); name != "" {
		if k.CallID, err = x.account.Jobs.Mark("call", name); err != nil {
			return dlq.CallKey{}, err
		}
	}
	k.Credential, err = x.credentialMark()
	return k, err
}

// credentialMark is the salted hash of the credential that the call is made with; "": the account's own.
func (x *exchange) credentialMark() (string, error) {
	parts := x.account.credentials(x.in)
	if len(parts) == 0 {
		return "", nil
	}
	return x.account.Jobs.Mark(append(parts, "credential")...)
}

// recallJob answers a job start with the job that the same call has already started; nil: none has.
func (x *exchange) recallJob(out *http.Request) *http.Response {
	if !x.starts() {
		return nil
	}
	key, err := x.callKey()
	if err != nil {
		return nil // the journal will say so itself when the job is accepted
	}
	r := x.account.Jobs.FindCall(key)
	if r == nil {
		return nil
	}
	x.stop, x.outcome, x.reason, x.status = retry.Final, Success, reasonJournaled, r.Answer.Status
	h := http.Header(r.Answer.Headers).Clone()
	x.describe(h, 0)
	return &http.Response{
		StatusCode: r.Answer.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: io.NopCloser(strings.NewReader(r.Answer.Body)), ContentLength: int64(len(r.Answer.Body)), Request: out,
	}
}

// journal notes what the provider's last answer says about a job: an accepted start is durable when this returns, and of one that has come to
// its end the document is known.
func (x *exchange) journal() {
	j := x.jobs()
	switch {
	case j == nil || x.last == nil:
	case x.starts():
		if status := x.last.resp.StatusCode; status >= 200 && status < 300 && x.last.fault == nil {
			x.keepJob(j)
		}
	case x.polls(), slices.Contains(j.Drops, x.op.Name):
		x.followJob(j)
	}
}

// keepJob journals an accepted start. One that cannot be journaled is logged, and counted by the store: the worker's answer does not suffer.
func (x *exchange) keepJob(j *provider.Jobs) {
	header, body, err := x.last.whole(x.account.Provider.RequestID, maxJobAnswer)
	if err == nil {
		id := j.Started(header, body)
		if id == "" {
			return // not the answer that was promised: whoever can read it must follow the job without us
		}
		err = x.putJob(j, id, header, body)
	}
	if err != nil {
		x.account.Log.Error("an accepted job is not in the journal: a repeat of its start may be a second job, and a letter about it would not know its document",
			zap.String("provider", x.account.Name), zap.String("operation", x.op.Name), zap.String("error", x.secrets().Text(err.Error())))
	}
}

func (x *exchange) putJob(j *provider.Jobs, id string, header http.Header, body []byte) error {
	call, err := x.callKey()
	if err != nil {
		return err
	}
	keys, err := x.identify()
	if err != nil {
		return err
	}
	request, payload, err := x.request()
	if err != nil {
		return err
	}
	defer func() { _ = payload.Close() }()
	for name, values := range header { // clones: the worker gets them as they came
		for i, v := range values {
			if slices.Contains(addresses(), name) {
				v = scrub.Location(v) // an address must stay one
			}
			values[i] = x.secrets().Text(v)
		}
	}
	body = []byte(x.secrets().Text(string(body)))
	now := time.Now()
	r := &dlq.JobRecord{
		Account: x.account.Name, Kind: x.account.Provider.Name, Operation: x.op.Name, JobID: id,
		DocumentID: cmp.Or(x.ask.documentID, keys.Idempotency), Tenant: x.ask.tenant,
		IdempotencyKey: keys.Idempotency, RequestFingerprint: keys.Fingerprint,
		CallID: call.CallID, Credential: call.Credential, Token: call.Token, Start: request,
		Answer:     dlq.JobAnswer{Status: x.last.resp.StatusCode, Headers: header, Body: string(body)},
		AcceptedAt: now, ExpiresAt: now.Add(j.Lives),
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.in.Context()), buryTime)
	defer cancel()
	if payload == http.NoBody {
		return x.account.Jobs.PutJob(ctx, r, nil)
	}
	return x.account.Jobs.PutJob(ctx, r, payload)
}

// whole is an answer of at most limit bytes with the headers by which a client goes on. Its text is without its content encoding. A body that
// goes to the worker as it comes is not waited for: then the head alone is kept.
func (t *answer) whole(ids []string, limit int64) (http.Header, []byte, error) {
	header := http.Header{}
	for _, name := range slices.Concat(addresses(), ids, []string{"Content-Type", "Retry-After"}) {
		if values := t.resp.Header[name]; len(values) > 0 {
			header[name] = slices.Clone(values)
		}
	}
	if t.held == nil || t.streams {
		delete(header, "Content-Type")
		return header, nil, nil
	}
	text, err := t.plain(limit)
	if err == nil && !utf8.Valid(text) {
		err = errNoText
	}
	return header, text, err
}

// endedJob is a job of which the provider's last answer tells the end.
type endedJob struct {
	id     string
	record *dlq.JobRecord // nil: the journal does not know it
	failed bool
}

// followJob looks whether an answer is about a job that has come to its end.
func (x *exchange) followJob(j *provider.Jobs) {
	id := j.Asked(x.in.URL, x.received(maxJobCall))
	if id == "" {
		return
	}
	job := &endedJob{id: id, failed: x.last.fault != nil && x.last.fault.Job}
	if x.account.Jobs != nil {
		job.record = x.account.Jobs.FindJob(x.account.Name, id)
	}
	if job.failed || job.record != nil && x.ended(j, job.record) {
		x.job = job
	}
}

// ended reports whether the provider's answer says that a job is through, or that it knows it no more.
func (x *exchange) ended(j *provider.Jobs, r *dlq.JobRecord) bool {
	switch status := x.last.resp.StatusCode; {
	case status >= http.StatusBadRequest:
		return x.owns(r) && j.Gone(status, x.lastAttempt().verdict.Code)
	case slices.Contains(j.Drops, x.op.Name):
		return true
	case x.last.held == nil || x.last.streams:
		return false
	}
	body := x.last.held.Open()
	defer func() { _ = body.Close() }()
	plain, err := decoded(x.last.resp.Header.Get("Content-Encoding"), body)
	if err != nil {
		return false
	}
	found, err := jsonstream.Pick(plain, j.Watch, maxJudged)
	return err == nil && j.Ended(found)
}

// owns reports whether the call is made with the credential that started the job: only its owner hears that a job is gone.
func (x *exchange) owns(r *dlq.JobRecord) bool {
	mark, err := x.credentialMark()
	return err == nil && mark == r.Credential
}

// aboutJob makes the letter about a failed job one about the document that the job was started for. Its request is the start, which is what a
// replay has to send, and without a token of ours, under which the provider would only name the failed job again; the job's own start keeps
// it. It gives the body that belongs to the letter.
func (x *exchange) aboutJob(e *dlq.Envelope, body io.ReadCloser) io.ReadCloser {
	job := x.job
	if job == nil || !job.failed {
		return body
	}
	e.Job = &dlq.Job{ID: job.id}
	r := job.record
	if r == nil {
		return body
	}
	_ = body.Close()
	start := r.Start
	e.Job.Start, e.Request = &start, r.Start
	e.Request.Token = ""
	e.Operation, e.DocumentID, e.Tenant = r.Operation, r.DocumentID, r.Tenant
	e.IdempotencyKey, e.RequestFingerprint = r.IdempotencyKey, r.RequestFingerprint
	e.Diagnostic = "The job that this request started ended as failed (" + cmp.Or(e.ErrorCode, "no code") + "); look at the document and the options, then replay it as a new job."
	payload, err := x.account.Jobs.JobPayload(r)
	if err != nil {
		return http.NoBody // the letter names the document all the same
	}
	return payload
}

// closeJob ends a job in the journal. It is called when the worker has been told of the end: one that was not asks again.
func (x *exchange) closeJob() {
	if x.job == nil || x.job.record == nil {
		return
	}
	a := x.account
	if !x.job.failed {
		a.Jobs.EndJob(a.Name, x.job.id)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.in.Context()), buryTime)
	defer cancel()
	if err := a.Jobs.FailJob(ctx, a.Name, x.job.id); err != nil {
		a.Log.Warn("a failed job could not be marked in the journal: a repeat of its start will be answered with it", zap.String("provider", a.Name), zap.Error(err))
	}
}

// errNoText says that an answer cannot be kept as text.
var errNoText = errors.New("the answer to the job start is no text")
