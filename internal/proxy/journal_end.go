package proxy

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/jsonstream"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
)

// endedJob is a job of which the provider's last answer tells the end.
type endedJob struct {
	id     string
	record *dlq.JobRecord // nil: the journal does not know it
	failed bool
	// forgotten says that the provider knows the job no more although nobody has seen its end. Its text will never come: the document has to be
	// sent anew, and nothing but its start has it.
	forgotten bool
}

// followJob looks whether an answer is about a job that has come to its end.
func (x *exchange) followJob(j *provider.Jobs) {
	id := j.Asked(x.in.URL, x.plainRequest(maxJobCall))
	if id == "" {
		return
	}
	job := &endedJob{id: id, failed: x.last.fault != nil && x.last.fault.Job}
	if x.account.Jobs != nil {
		job.record = x.account.Jobs.FindJob(x.account.Name, id)
	}
	switch {
	case job.failed || job.record != nil && x.ended(j, job.record):
		job.forgotten = !job.failed && x.polls() && x.statusOf(x.last.resp) >= http.StatusBadRequest
		x.job = job
		x.account.Permits.Ended(id)
	case job.record == nil && x.account.Permits.Holds(id) && x.saysEnd(j):
		x.account.Permits.Ended(id)
	}
}

// saysEnd reports whether the provider's answer says of itself, to whomever, that a job is through. That it knows it no more is none of that.
func (x *exchange) saysEnd(j *provider.Jobs) bool {
	return x.statusOf(x.last.resp) < http.StatusBadRequest && (slices.Contains(j.Drops, x.op.Name) || x.tellsEnd(x.last, j))
}

// ended reports whether the provider's answer says that a job is through, or that it knows it no more.
func (x *exchange) ended(j *provider.Jobs, r *dlq.JobRecord) bool {
	switch status := x.statusOf(x.last.resp); {
	case status >= http.StatusBadRequest:
		return x.owns(r) && x.looksWhereItIs(j, r) && j.Gone(status, x.lastAttempt().verdict.Code)
	case slices.Contains(j.Drops, x.op.Name):
		return true
	}
	return x.tellsEnd(x.last, j)
}

// tellsEnd reports whether a good answer says that its job is through.
func (x *exchange) tellsEnd(t *answer, j *provider.Jobs) bool {
	if t.held == nil || t.streams {
		return false
	}
	found, err := x.pick(t, j.Watch)
	return err == nil && j.Ended(found)
}

// pick finds the values at paths of an answer that is held as a whole.
func (x *exchange) pick(t *answer, paths []string) (jsonstream.Found, error) {
	body := t.held.Open()
	defer func() { _ = body.Close() }()
	if x.rpc != nil {
		return x.pickRPC(context.WithoutCancel(x.in.Context()), body, t.resp.Header.Get("Grpc-Encoding"))
	}
	plain, err := decoded(t.resp.Header.Get("Content-Encoding"), body)
	if err != nil {
		return nil, err
	}
	return jsonstream.Pick(plain, paths, maxJudged)
}

// owns reports whether the call is made with the credential that started the job: only its owner hears that a job is gone.
func (x *exchange) owns(r *dlq.JobRecord) bool {
	mark, err := x.credentialMark()
	return err == nil && mark == r.Credential
}

// looksWhereItIs reports whether the call looks for a job where it is. Elsewhere, under the name of another model for one, a job that runs is
// unknown too, and to forget it would be to pay for it again. Where it is, the start's answer says with an address, which a repeat of the start
// is given as well; an answer without one of this provider's leaves nothing to compare.
func (x *exchange) looksWhereItIs(j *provider.Jobs, r *dlq.JobRecord) bool {
	if j.Serves != nil && !j.Serves(x.op.Name, r.Operation) {
		return false
	}
	told := false
	for _, name := range addresses() {
		for _, address := range r.Answer.Headers[name] {
			rest, ours := under(x.account.Upstream, address)
			if !ours {
				rest, ours = address, strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//")
			}
			if path, _, _ := strings.Cut(rest, "?"); ours && strings.EqualFold(path, x.in.URL.EscapedPath()) {
				return true
			}
			told = told || ours
		}
	}
	return !told
}

// aboutJob makes the letter about a failed or forgotten job, or about a result to look at, one about the document that the job was started for. Its request is
// the start, which is what a replay has to send, and without a token of ours, under which the provider would only name the same job again; the
// job's own start keeps it. It gives the body that belongs to the letter.
func (x *exchange) aboutJob(e *dlq.Envelope, body io.ReadCloser) io.ReadCloser {
	job := x.job
	if job == nil || !job.failed && !job.forgotten && (x.class() != classify.Soft || job.record == nil) {
		return body // a result whose start is not known is asked for again by the poll itself
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
	if job.failed {
		e.Diagnostic = "The job that this request started ended as failed (" + cmp.Or(e.ErrorCode, "no code") + "); look at the document and the options, then replay it as a new job."
	}
	if job.forgotten {
		e.Diagnostic = "The provider does not know the job any more that this request started (" + cmp.Or(e.ErrorCode, "no code") + "), and nobody has had its result; replay it as a new job."
	}
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
	switch r := x.job.record; {
	case x.job.failed:
	case x.outcome.good() && x.polls() && r.Repair != nil && r.Repair.JobID != "":
		return // kept until it expires: whoever asks for the result again gets the same pages
	default:
		a.Jobs.EndJob(r.Account, x.job.id)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.in.Context()), buryTime)
	defer cancel()
	if err := a.Jobs.FailJob(ctx, x.job.record.Account, x.job.id); err != nil {
		a.Log.Warn("a failed job could not be marked in the journal: a repeat of its start will be answered with it", zap.String("provider", a.Name), zap.Error(err))
	}
}
