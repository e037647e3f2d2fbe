package proxy

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// pollEvery is how often the second job is asked for where the provider does not say.
const pollEvery = time.Second

// readInJob reads the pages that a job's result lacks in a second job. The journal knows of it before its start is sent, so that it is started
// once: to ask for the first result again, after a restart too, is to ask for the second again. Without the journal there is none.
func (x *exchange) readInJob(out *http.Request, text []byte) (later *answer, pages []int) {
	r := x.startOf()
	if r == nil {
		return nil, nil
	}
	over := func() {
		if x.tellsEnd(x.last, x.jobs()) {
			x.account.Permits.Ended(r.JobID)
		}
	}
	if r.Repair != nil {
		over()
		return x.await(out, r.Repair.JobID, 0), r.Repair.Pages
	}
	rules, asked := x.account.Provider.Pages, provider.Asked{Query: r.Start.Query}
	if pages = rules.Missing(asked, text); len(pages) == 0 {
		return nil, nil
	}
	selected, err := rules.Select(asked, pages)
	if err != nil {
		return nil, nil
	}
	job, wait := x.startAgain(out, r, selected, pages)
	over() // not before: the second one has its place, which others wait for
	return x.await(out, job, wait), pages
}

// startOf is the journaled start of the job whose result is the answer; nil: there is none that this worker has made and that can be made
// again as it was.
func (x *exchange) startOf() *dlq.JobRecord {
	if x.account.Jobs == nil {
		return nil
	}
	r := x.account.Jobs.FindJob(x.account.Name, x.jobs().Asked(x.in.URL, nil))
	if r == nil || r.FailedAt != nil || !x.owns(r) {
		return nil
	}
	if slices.ContainsFunc(r.Start.Credentials, func(carrier string) bool { return !strings.HasPrefix(carrier, "header:") }) {
		return nil // what was cut out of its query or its form is not here
	}
	return r
}

// startAgain makes a job's start for some pages alone, and gives the id of the job that it starts; "": none is known to have been started.
func (x *exchange) startAgain(out *http.Request, r *dlq.JobRecord, selected provider.Asked, pages []int) (job string, wait time.Duration) {
	start, err := x.again(out, r, selected.Query)
	if err != nil || x.circuit.wait() > 0 || !x.fits(0) {
		return "", 0
	}
	payload, err := x.account.Jobs.JobPayload(r)
	if err != nil {
		return "", 0
	}
	body := x.account.Bodies.Body(r.Start.BodyBytes)
	defer body.Release()
	_, err = body.ReadFrom(payload)
	_ = payload.Close()
	if err != nil {
		return "", 0
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.in.Context()), buryTime)
	defer cancel()
	begun, err := x.account.Jobs.BeginRepair(ctx, x.account.Name, r.JobID, pages)
	if err != nil || !begun {
		return "", 0
	}
	op, was := x.op, x.body
	x.op, x.body, x.paid, x.heir = x.account.Provider.Operation(start), body, true, x.account.Permits.Holds(r.JobID)
	answer, _ := x.beside(start)
	if answer != nil {
		if header, text, err := answer.whole(nil, maxJobAnswer); err == nil {
			job = x.jobs().Started(header, text)
		}
		wait = pollAfter(answer)
		answer.discard()
	}
	x.jobBegun(job)
	x.op, x.body, x.paid, x.heir = op, was, false, false
	if job == "" {
		return "", 0
	}
	if err := x.account.Jobs.NoteRepair(ctx, x.account.Name, r.JobID, job); err != nil {
		x.account.Log.Warn("the job for missing pages is not in the journal: whoever asks for the result again gets it without them",
			zap.String("provider", x.account.Name), zap.Error(err))
	}
	return job, wait
}

// again is a journaled start under the credential of the call that asks for its result.
func (x *exchange) again(out *http.Request, r *dlq.JobRecord, query string) (*http.Request, error) {
	uri := r.Start.Path
	if query != "" {
		uri += "?" + query
	}
	in, err := url.ParseRequestURI(uri)
	if err != nil {
		return nil, err
	}
	start := out.Clone(out.Context())
	start.Method, start.URL = r.Start.Method, target(x.account.Upstream, in, uri)
	for _, name := range []string{"Content-Type", "Content-Encoding"} {
		if values := r.Start.Headers[name]; len(values) > 0 {
			start.Header[name] = values
		}
	}
	return start, nil
}

// await asks for a job's result until it has come to its end, within the time of this request.
func (x *exchange) await(out *http.Request, job string, wait time.Duration) *answer {
	if job == "" {
		return nil
	}
	poll := out.Clone(out.Context())
	poll.URL = x.account.Provider.Pages.Result(out.URL, job)
	for x.fits(wait) && x.untilAsked(wait) == retry.Continue {
		x.waited += wait
		made := len(x.history)
		told, v := x.beside(poll)
		x.history = slices.Delete(x.history, made-1, len(x.history)-1) // asking costs nothing, and is no attempt at the worker's call
		switch {
		case told == nil && v.Class.Retryable():
			wait = max(v.Wait, pollEvery)
		case told == nil:
			return nil
		case x.tellsEnd(told, x.jobs()):
			x.account.Permits.Ended(job)
			return told
		default:
			wait = pollAfter(told)
			told.discard()
		}
	}
	return nil
}

// untilAsked waits before a job is asked for.
func (x *exchange) untilAsked(wait time.Duration) retry.Stop {
	defer x.wait(forJob, x.mark())
	return x.sleep(wait, nil)
}

// pollAfter is when to ask for a job again after that answer.
func pollAfter(told *answer) time.Duration {
	if wait, ok := retry.Hint(told.resp.Header, time.Now()); ok {
		return wait
	}
	return pollEvery
}
