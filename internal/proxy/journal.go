package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
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

// jobs are the kind's rules about jobs, for calls of this form; nil: they start none.
func (x *exchange) jobs() *provider.Jobs {
	if x.rpc != nil {
		return x.rpc.kind.Jobs
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

// credentialMark is the salted hash of the credential that the call is made with, or of the client token that its worker has shown; "": it is the account's
// own, and nobody is asked who he is.
func (x *exchange) credentialMark() (string, error) {
	parts := x.account.credentials(x.in)
	if x.client != "" {
		parts = append(parts, "client", x.client)
	}
	if len(parts) == 0 {
		return "", nil
	}
	return x.account.Jobs.Mark(append(parts, "credential")...)
}

// recallJob answers a job start with the job that the same call has already started; nil: none has. The same call over the other transport has
// another fingerprint, so that nobody is given an answer that it cannot read.
func (x *exchange) recallJob(out *http.Request) *http.Response {
	if !x.starts() {
		return nil
	}
	key, err := x.callKey()
	if err != nil {
		return nil // the journal will say so itself when the job is accepted
	}
	r := x.findCall(key)
	if r == nil {
		return nil
	}
	x.stop, x.outcome, x.reason, x.status = retry.Final, Success, reasonJournaled, r.Answer.Status
	h, body := http.Header(r.Answer.Headers).Clone(), r.Answer.Content()
	x.describe(h, 0)
	return &http.Response{
		StatusCode: r.Answer.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: out,
	}
}

// journal notes what the provider's last answer says about a job: an accepted start is durable when this returns, and of one that has come to
// its end the document is known.
func (x *exchange) journal() {
	defer x.step("journal", x.mark())
	j, started := x.jobs(), ""
	defer func() { x.jobBegun(started) }()
	switch {
	case j == nil || x.last == nil:
	case x.rpc != nil && x.last.rpc == nil: // no gRPC answer, or one too large to be held: it tells of no job
	case x.starts():
		if status := x.statusOf(x.last.resp); status >= 200 && status < 300 && x.last.fault == nil {
			started = x.keepJob(j)
		}
	case x.polls(), slices.Contains(j.Drops, x.op.Name):
		x.followJob(j)
	}
}

// keepJob journals an accepted start and gives the job's id; "": the answer names none. One that cannot be journaled is logged, and counted by
// the store: the worker's answer does not suffer.
func (x *exchange) keepJob(j *provider.Jobs) (id string) {
	header, body, err := x.last.whole(x.account.Provider.RequestID, maxJobAnswer)
	if err == nil {
		if id = j.Started(header, body); id == "" {
			return "" // not the answer that was promised: whoever can read it must follow the job without us
		}
		err = x.putJob(j, id, header, body)
	}
	if err != nil {
		if g := x.listener.Group; g != nil && id != "" {
			g.remember(leadOfJob+id, x.account, j.Lives) // it is there all the same, and nowhere else
		}
		x.account.Log.Error("an accepted job is not in the journal: a repeat of its start may be a second job, and a letter about it would not know its document",
			zap.String("provider", x.account.Name), zap.String("operation", x.op.Name), zap.String("error", x.secrets().Text(err.Error())))
	}
	return id
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
	clean := []byte(x.secrets().Text(string(body)))
	if x.rpc != nil && !bytes.Equal(clean, body) {
		return errSecretInside
	}
	now := time.Now()
	r := &dlq.JobRecord{
		Account: x.account.Name, Kind: x.account.Provider.Name, Operation: x.op.Name, JobID: id,
		DocumentID: cmp.Or(x.ask.documentID, keys.Idempotency), Tenant: x.ask.tenant,
		IdempotencyKey: keys.Idempotency, RequestFingerprint: keys.Fingerprint,
		CallID: call.CallID, Credential: call.Credential, Token: call.Token, Start: request,
		Answer:     dlq.JobAnswer{Status: x.last.resp.StatusCode, Headers: header},
		AcceptedAt: now, ExpiresAt: now.Add(j.Lives),
	}
	r.Answer.SetContent(clean)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.in.Context()), buryTime)
	defer cancel()
	if payload == http.NoBody {
		return x.account.Jobs.PutJob(ctx, r, nil)
	}
	return x.account.Jobs.PutJob(ctx, r, payload)
}

// errSecretInside says that an answer must not be written down as it is, nor in any other way.
var errSecretInside = errors.New("the answer's message echoes a credential, which cannot be cut out of it")

// whole is an answer of at most limit bytes with the headers and trailers by which a client goes on. Its body is without its encoding. A body
// that goes to the worker as it comes is not waited for: then the head alone is kept.
func (t *answer) whole(ids []string, limit int64) (http.Header, []byte, error) {
	header := http.Header{}
	for _, name := range slices.Concat(addresses(), ids, []string{"Content-Type", "Retry-After", http.TrailerPrefix + "Grpc-Status"}) {
		if values := t.resp.Header[name]; len(values) > 0 {
			header[name] = slices.Clone(values)
		}
	}
	if t.held == nil || t.streams {
		delete(header, "Content-Type")
		return header, nil, nil
	}
	body, err := t.plain(limit)
	return header, body, err
}
