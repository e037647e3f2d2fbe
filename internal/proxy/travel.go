package proxy

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/credential"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// travel runs the request at one account after the other, until one has an answer for it or there is no other that may be asked. It returns why
// there is no further attempt, as the loop does.
func (x *exchange) travel(out *http.Request) retry.Stop {
	if x.listener.Group == nil {
		return x.run(out)
	}
	for _, name := range x.credentialHeaders() {
		out.Header.Del(name) // what the worker put into one account's place must not reach another
	}
	x.setOut(out)
	var first *doubted
	for {
		stop := x.run(out)
		if first != nil {
			return x.better(first, stop, out)
		}
		if x.asksElsewhere(stop) {
			first = x.doubt()
			x.moveOn(out)
			continue
		}
		x.comeBack = sooner(x.comeBack, x.notBefore)
		if !x.mayMove(stop) {
			x.notBefore = x.comeBack // the letter may go to whoever is free first
			x.noteUnsure()
			return stop
		}
		if x.last != nil && !x.last.complete {
			x.last.discard()
			x.last = nil
		}
		x.moveOn(out)
	}
}

// moveOn turns to the next account of the route.
func (x *exchange) moveOn(out *http.Request) {
	x.notBefore = time.Time{}
	next := x.route[0]
	x.route = x.route[1:]
	x.turnTo(next, out)
}

// setOut decides which account is asked first, and which ones after it.
func (x *exchange) setOut(out *http.Request) {
	switch first := x.theOne(); {
	case first != nil:
		x.turnTo(first, out)
	case x.portable():
		way := x.listener.Group.order(x.print(), x.ready)
		way = slices.DeleteFunc(way, func(a *Account) bool { return a.Credential.Refuses(x.in.Header) != "" })
		if len(way) > 0 {
			x.route = way[1:]
			x.turnTo(way[0], out)
		}
	}
}

// theOne is the one account that a call may go to wherever it was sent: the one that has the job, or that may have started it; nil: none is known.
func (x *exchange) theOne() *Account {
	if x.ofJob() {
		return x.hasJob()
	}
	if x.bound != nil {
		return x.bound
	}
	if x.lasting() && x.portable() {
		if call := x.recurring(); call != "" {
			return x.listener.Group.lead(call)
		}
	}
	return nil
}

// turnTo makes an account the one that is asked. Everything of the account asked before stays with it: its credential above all.
func (x *exchange) turnTo(a *Account, out *http.Request) {
	if x.sent != nil {
		x.sentTo, x.sent = append(x.sentTo, x.sent), nil
	}
	x.account, x.credential, x.circuit = a, x.credentialOf(a), a.circuitFor(x.in)
	x.elsewhere, x.queued = len(x.history), false
	x.policy = a.Policy(x.op.Name)
	x.policy.Total = x.portion()
	out.URL, out.Host = target(a.Upstream, x.in.URL, x.in.RequestURI), a.Upstream.Host
}

// portion is how far into the request the account may go on waiting, so that enough is left for those after it that could serve now. An attempt
// that has begun may take longer, up to the end of the request: what it costs is paid already.
func (x *exchange) portion() time.Duration {
	elapsed, others := time.Since(x.start), 0
	for _, a := range x.route {
		if x.closed(a) {
			others++
		}
	}
	return elapsed + (x.total-elapsed)/time.Duration(1+others)
}

// mayMove reports whether the call, which stopped at one account, is made at the next. The stop must be one that says something about that
// account and not about the call, and nothing of the call may have been done there that would be paid for again: a token protects only within
// one account. A refused credential stays where it is: it is a mistake of the configuration, and must be seen.
func (x *exchange) mayMove(stop retry.Stop) bool {
	switch stop {
	case retry.Breaker:
		if len(x.route) > 0 && x.standsBy(x.route[0]) {
			return false
		}
	case retry.Attempts, retry.Elapsed, retry.HintTooLong, retry.Overflow, retry.Crowded, retry.Full:
	case retry.Final:
		if x.class() != classify.Quota || x.batch != nil && x.lastAttempt().status < http.StatusBadRequest {
			return false // of a batch that is through all that came is kept; one that was refused goes on with what is missing
		}
	case retry.Continue, retry.Unsafe, retry.Canceled, retry.Shutdown:
		return false
	}
	again := x.policy.Ambiguous == RepeatAlways || x.policy.Ambiguous != RepeatNever && !x.lasting()
	if !again && slices.ContainsFunc(x.history, func(a attempt) bool { return a.ambiguous }) {
		return false
	}
	return len(x.route) > 0 && time.Since(x.start) < x.total-x.policy.leastAttempt() && x.interrupted() == retry.Continue
}

// lasting reports whether the call leaves something behind, such as a job, so that it must not be made twice.
func (x *exchange) lasting() bool { return x.op.Repeat != provider.Always }

// portable reports whether another account of the kind can answer the call as well.
func (x *exchange) portable() bool {
	return slices.Contains(x.listener.Provider.Portable, x.op.Name) && (x.op.Name != provider.Other || x.in.Method == http.MethodPost)
}

// ofJob reports whether the call is about a job that exists, so that only the account that has it can answer.
func (x *exchange) ofJob() bool {
	j := x.jobs()
	return j != nil && (x.polls() || slices.Contains(j.Drops, x.op.Name) || slices.Contains(j.Parts, x.op.Name))
}

// hasJob is the account that has the job that the call is about; nil: nothing says which one. A worker may name any job it likes: what accounts
// beyond the group have is not looked at.
func (x *exchange) hasJob() *Account {
	id := x.jobs().Asked(x.in.URL, x.plainRequest(maxJobCall))
	if id == "" {
		return nil
	}
	for _, a := range x.listener.group() {
		if a.Jobs != nil && a.Jobs.FindJob(a.Name, id) != nil {
			return a
		}
	}
	return x.listener.Group.lead(leadOfJob + id)
}

// findCall is the journaled job that the same call has started at any account of the group; nil: none has. That account is the asked one then.
func (x *exchange) findCall(key dlq.CallKey) *dlq.JobRecord {
	for _, a := range x.listener.group() {
		key.Account = a.Name
		if r := a.Jobs.FindCall(key); r != nil {
			x.account = a
			return r
		}
	}
	return nil
}

// failedJobs are the ids of the failed jobs that the same call has started, at whichever accounts of the group; "": there is none.
func (x *exchange) failedJobs(key dlq.CallKey) string {
	var all strings.Builder
	for _, a := range x.listener.group() {
		key.Account = a.Name
		all.WriteString(a.Jobs.FailedJob(key))
	}
	return all.String()
}

// named is an account of the group; nil: it has none of that name.
func (x *exchange) named(name string) *Account {
	for _, a := range x.listener.group() {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// print is what a job start is told by, so that a repeat of it meets the same account; "" for calls that leave nothing behind.
func (x *exchange) print() string {
	if !x.lasting() || x.listener.Group.spread == nil {
		return ""
	}
	keys, err := x.identify()
	if err != nil {
		return ""
	}
	return keys.Fingerprint
}

// recurring is what a repeat of a call that leaves something behind is known by; "": nothing tells it from another one.
func (x *exchange) recurring() string {
	name := cmp.Or(x.callName(), x.given)
	if name == "" && (x.listener.Injection == InjectContent || x.in.Header.Get(x.listener.Idempotency.Header) != "") {
		name = x.token
	}
	if name == "" {
		return ""
	}
	keys, err := x.identify()
	if err != nil {
		return ""
	}
	return keys.Fingerprint + " " + name
}

// noteUnsure remembers where a call that must not be made twice may have been done.
func (x *exchange) noteUnsure() {
	if !x.lasting() || !x.portable() || x.class().Good() || !slices.ContainsFunc(x.history, func(a attempt) bool { return a.ambiguous }) {
		return
	}
	if call := x.recurring(); call != "" {
		x.listener.Group.remember(call, x.account, leadTime)
	}
}

// ready reports whether an account could serve the call now: its circuit is closed, and its queue has room and no pause longer than the request.
func (x *exchange) ready(a *Account) bool {
	queue := a.Queues.For(x.op.Name)
	if _, full := queue.Full(); full {
		return false
	}
	return x.closed(a) && queue.Remaining() < x.total-x.policy.leastAttempt()-time.Since(x.start)
}

// closed reports whether an account's circuit lets the request pass.
func (x *exchange) closed(a *Account) bool {
	c := a.circuitFor(x.in)
	return c.wait() == 0
}

// anotherIsReady reports whether somebody who may be asked after this account could serve now.
func (x *exchange) anotherIsReady() bool {
	return slices.ContainsFunc(x.route, func(a *Account) bool { return x.ready(a) && !x.standsBy(a) })
}

// standsBy reports whether an account is kept for outages that last, and the one that the request meets does not yet.
func (x *exchange) standsBy(a *Account) bool {
	return x.listener.OnSustained == FallBack && x.listener.Group.fallsBackTo(a) && !x.circuit.sustained()
}

// refusedFor is how long open circuits would keep the call from every account that it may go to; 0: one could be asked now.
func (x *exchange) refusedFor() time.Duration {
	wait := x.circuit.wait()
	if wait == 0 || x.listener.Group == nil || !x.portable() && !x.ofJob() {
		return wait
	}
	for _, a := range x.listener.Group.all {
		if c := a.circuitFor(x.in); !x.standsBy(a) {
			wait = min(wait, c.wait())
		}
	}
	return wait
}

// full reports whether no account that the call may go to has room for it in its queue, and how long until one will.
func (x *exchange) full() (wait time.Duration, full bool) {
	if x.listener.Group == nil || !x.portable() && !x.ofJob() {
		return x.queue().Full()
	}
	for i, a := range x.listener.Group.all {
		left, taken := a.Queues.For(x.op.Name).Full()
		if !taken {
			return 0, false
		}
		if i == 0 || left < wait {
			wait = left
		}
	}
	return wait, true
}

// credentialOf is what a call to an account is made with.
func (x *exchange) credentialOf(a *Account) *credential.Credential {
	if x.resent != nil {
		return a.replayCredential()
	}
	return a.Credential
}

// credentialHeaders are the headers in which any account that may have been asked carries its credential.
func (x *exchange) credentialHeaders() []string {
	if x.listener.Group == nil {
		return x.credential.Headers()
	}
	var all []string
	for _, a := range x.listener.Group.all {
		all = append(all, x.credentialOf(a).Headers()...)
	}
	return all
}

// asked is the name of the account that is asked where it is not the listener's own; else "".
func (x *exchange) asked() string {
	if x.account == x.listener {
		return ""
	}
	return x.account.Name
}

// boundTo is the account that a dead letter must go to, because it may have done the letter's call: under a token it does nothing twice, where
// another would. nil, true: any. nil, false: nothing says which one that is, or it is not of the group any more.
func (x *exchange) boundTo() (a *Account, known bool) {
	e := x.resent.letter
	if x.listener.Group == nil || e.Job != nil || !e.Ambiguous || !x.lasting() || !x.portable() || x.policy.Ambiguous == RepeatAlways {
		return nil, true
	}
	for _, made := range slices.Backward(e.Attempts) {
		if made.Ambiguous {
			a = x.named(cmp.Or(made.Account, x.listener.Name))
			return a, a != nil
		}
	}
	return nil, false
}

// sooner is the earlier of two times, of which a zero one is not known.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
