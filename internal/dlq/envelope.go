// Package dlq keeps dead letters: one JSON file for each document that could
// not be processed, in a folder that says what became of it. Letters move from
// open to claimed and on to resolved or discarded by rename, so a listing is
// the whole truth and a claim is its own lock.
//
// The package takes envelopes that are already free of credentials and writes
// them as they are.
package dlq

import (
	"math"
	"slices"
	"time"
)

// Schema is the value of an envelope's schema field. Readers refuse any other.
const Schema = "ocr-proxy/dead-letter/v1"

// Envelope is one dead letter: what failed, how it was tried and what is needed
// to send it again. Its state is not in it; the folder it lies in is its state.
type Envelope struct {
	// Schema is always [Schema]; Put sets it.
	Schema string `json:"schema"`
	// ID is a UUID in its canonical form and the file's name. Put makes a UUIDv7 when it is empty.
	ID string `json:"id"`
	// Outcome is why the request ended: permanent, exhausted, circuit_open or review. Required.
	Outcome string `json:"outcome"`
	// DocumentID is the worker's name for the document.
	DocumentID string `json:"document_id"`
	// IdempotencyKey is a lower-case hex SHA-256 over document and processing version.
	IdempotencyKey string `json:"idempotency_key"`
	// RequestFingerprint is a lower-case hex SHA-256 that equal requests share. Letters without one are never merged.
	RequestFingerprint string `json:"request_fingerprint"`
	// Tenant is the worker's tenant, or empty.
	Tenant string `json:"tenant"`
	// Provider is the name of the provider account. Required.
	Provider string `json:"provider"`
	// Kind is the provider's kind, for example textract.
	Kind string `json:"kind"`
	// Operation is the provider's operation, for example AnalyzeDocument.
	Operation string `json:"operation"`
	// FailureClass is transient, fatal or soft.
	FailureClass string `json:"failure_class"`
	// ErrorClass is the class of the last answer.
	ErrorClass string `json:"error_class"`
	// ErrorCode is the provider's own code, or empty.
	ErrorCode string `json:"error_code"`
	// ErrorMessage is the provider's own message, or empty.
	ErrorMessage string `json:"error_message"`
	// HTTPStatus is the status of the last answer, nil when there was none.
	HTTPStatus *int `json:"http_status"`
	// Diagnostic is one sentence for the person who triages.
	Diagnostic string `json:"diagnostic"`
	// StackTrace is the error chain, outermost first.
	StackTrace string `json:"stack_trace"`
	// Attempts lists the tries of the last occurrence that made any, in order.
	Attempts []Attempt `json:"attempts"`
	// RetryCount is the number of tries beyond the first.
	RetryCount int `json:"retry_count"`
	// ClassChanged is true when the tries did not all fail in the same class.
	ClassChanged bool `json:"class_changed"`
	// Ambiguous is true when the provider may have done the work all the same, at whichever try.
	Ambiguous bool `json:"ambiguous"`
	// RawPayloadRef leads to the request body, relative to the store; empty when no payload is kept. Put sets it.
	RawPayloadRef string `json:"raw_payload_ref"`
	// Request is the request as it was received, without its credentials.
	Request Request `json:"request"`
	// Job is nil unless the letter is about a finished job.
	Job *Job `json:"job"`
	// FirstAttemptAt is when the first try of the first occurrence began.
	FirstAttemptAt time.Time `json:"first_attempt_at"`
	// FailedAt is when the last occurrence was given up; Put uses the present when it is zero.
	FailedAt time.Time `json:"failed_at"`
	// RetryNotBefore is the earliest time at which a replay makes sense, nil when nothing is known.
	RetryNotBefore *time.Time `json:"retry_not_before"`
	// Occurrences counts how often the request failed while its letter was open, at least 1.
	Occurrences int `json:"occurrences"`
	// Replays lists the replays so far in order.
	Replays []Replay `json:"replays"`
	// Resolution is nil until the letter is resolved or discarded.
	Resolution *Resolution `json:"resolution"`
	// TraceID connects the letter with a trace, or is empty.
	TraceID string `json:"trace_id"`
}

// Attempt is one try at the provider.
type Attempt struct {
	// N counts from 1.
	N int `json:"n"`
	// StartedAt is when the try began.
	StartedAt time.Time `json:"started_at"`
	// DurationMS is how long the try took, in milliseconds with three decimals.
	DurationMS float64 `json:"duration_ms"`
	// HTTPStatus is nil when no answer arrived.
	HTTPStatus *int `json:"http_status"`
	// ErrorClass is the class of the answer.
	ErrorClass string `json:"error_class"`
	// ErrorCode is the provider's own code, or empty.
	ErrorCode string `json:"error_code"`
	// WaitedMS is the wait before this try, in milliseconds with three decimals.
	WaitedMS float64 `json:"waited_ms"`
	// WaitSource says who asked for that wait: backoff, hint, gate, queue or none.
	WaitSource string `json:"wait_source"`
	// UpstreamRequestID is the provider's name for the try, or empty.
	UpstreamRequestID string `json:"upstream_request_id"`
	// Account is the account that was asked; empty when it is the letter's own.
	Account string `json:"account,omitempty"`
	// Ambiguous says that the provider may have done the work of this try.
	Ambiguous bool `json:"ambiguous,omitempty"`
}

// Request is what is needed, beside the payload, to send a request again.
type Request struct {
	// Method is the HTTP method.
	Method string `json:"method"`
	// Path is the escaped path as received.
	Path string `json:"path"`
	// Query is the raw query as received, without credentials.
	Query string `json:"query"`
	// Headers holds the headers that the allow-list lets through.
	Headers map[string][]string `json:"headers"`
	// Credentials names the carriers of credentials that were cut out.
	Credentials []string `json:"credentials"`
	// Token is the idempotency token that was sent along, or empty.
	Token string `json:"token"`
	// ContentType is the body's media type as received.
	ContentType string `json:"content_type"`
	// BodyBytes is the body's length in bytes. Put sets it when it is given a body.
	BodyBytes int64 `json:"body_bytes"`
	// BodySHA256 is the body's lower-case hex SHA-256. Put sets it when it is given a body.
	BodySHA256 string `json:"body_sha256"`
}

// Job names the asynchronous job that a letter is about.
type Job struct {
	// ID is the provider's name for the job.
	ID string `json:"id"`
	// Start is the request that started it, nil when it is not known.
	Start *Request `json:"start"`
}

// Replay is one attempt to process a letter again.
type Replay struct {
	// At is when the replay ended.
	At time.Time `json:"at"`
	// Outcome is the outcome of the replayed request, [ReplayInterrupted] or [ReplayNotKept].
	Outcome string `json:"outcome"`
	// ErrorClass is the class of its last answer.
	ErrorClass string `json:"error_class"`
	// HTTPStatus is nil when no answer arrived.
	HTTPStatus *int `json:"http_status"`
}

// Resolution says how a letter came to its end.
type Resolution struct {
	// By is who or what ended it.
	By string `json:"by"`
	// At is when it ended; the store uses the present when it is zero.
	At time.Time `json:"at"`
	// Note is free text.
	Note string `json:"note"`
	// Label is a word to group by, or empty.
	Label string `json:"label"`
}

// normalize gives the envelope its written form: times in UTC, lists that are
// never null and durations that JSON can hold.
func (e *Envelope) normalize() {
	e.FirstAttemptAt = e.FirstAttemptAt.UTC()
	e.FailedAt = e.FailedAt.UTC()
	if e.RetryNotBefore != nil {
		at := e.RetryNotBefore.UTC()
		e.RetryNotBefore = &at
	}
	if e.Attempts == nil {
		e.Attempts = []Attempt{}
	}
	for i := range e.Attempts {
		a := &e.Attempts[i]
		a.StartedAt = a.StartedAt.UTC()
		a.DurationMS = milliseconds(a.DurationMS)
		a.WaitedMS = milliseconds(a.WaitedMS)
	}
	if e.Replays == nil {
		e.Replays = []Replay{}
	}
	for i := range e.Replays {
		e.Replays[i].At = e.Replays[i].At.UTC()
	}
	if e.Resolution != nil {
		e.Resolution.At = e.Resolution.At.UTC()
	}
	e.Request.normalize()
	if e.Job != nil && e.Job.Start != nil {
		e.Job.Start.normalize()
	}
	e.Occurrences = max(e.Occurrences, 1)
}

func (r *Request) normalize() {
	if r.Headers == nil {
		r.Headers = map[string][]string{}
	}
	for name, values := range r.Headers {
		if values == nil {
			r.Headers[name] = []string{}
		}
	}
	if r.Credentials == nil {
		r.Credentials = []string{}
	}
}

// milliseconds rounds to three decimals; what is no duration becomes 0.
func milliseconds(v float64) float64 {
	if !(v > 0) || v > math.MaxInt64/1e6 {
		return 0
	}
	return math.Round(v*1000) / 1000
}

// repeat records another failure of the same request. The stored request stays
// with its payload, because a content type and its body belong together; only
// the token follows the attempts, since it names the work they may have begun.
//
// A failure without attempts has learned nothing about the document: it does
// not replace what an earlier one found out.
func (e *Envelope) repeat(again *Envelope) {
	e.Occurrences++
	e.learn(again)
}

// Replayed records that the letter was sent again and failed as again tells:
// its history grows, and what it says of the failure is what is known now.
func (e *Envelope) Replayed(again *Envelope) {
	e.addReplay(Replay{At: again.FailedAt, Outcome: again.Outcome, ErrorClass: again.ErrorClass, HTTPStatus: again.HTTPStatus})
	e.learn(again)
}

// Interrupted records that the letter was in a replayer's hands that will not
// say what became of it, for the reason that is given as the outcome of the
// replay: the call may have been made and paid for.
func (e *Envelope) Interrupted(at time.Time, outcome string) {
	e.addReplay(Replay{At: at, Outcome: outcome, ErrorClass: e.ErrorClass})
	e.Ambiguous = true
}

// The outcomes of replays that are none of a request's.
const (
	// ReplayInterrupted is of a replay whose process ended.
	ReplayInterrupted = "interrupted"
	// ReplayNotKept is of one whose answer was good and could not be stored.
	ReplayNotKept = "not_kept"
)

// maxReplays bounds the history: beyond it the oldest entries go.
const maxReplays = 200

// addReplay leaves the list of whoever shares it as it is.
func (e *Envelope) addReplay(r Replay) {
	e.Replays = append(slices.Clip(e.Replays), r)
	e.Replays = e.Replays[max(0, len(e.Replays)-maxReplays):]
}

// learn takes over what another failure of the same request tells.
func (e *Envelope) learn(again *Envelope) {
	e.FailedAt = again.FailedAt
	if len(again.Attempts) == 0 && e.known() {
		e.RetryNotBefore = later(e.RetryNotBefore, again.RetryNotBefore)
		return
	}
	e.RetryNotBefore = again.RetryNotBefore
	e.Outcome = again.Outcome
	e.FailureClass = again.FailureClass
	e.ErrorClass = again.ErrorClass
	e.ErrorCode = again.ErrorCode
	e.ErrorMessage = again.ErrorMessage
	e.HTTPStatus = again.HTTPStatus
	e.Diagnostic = again.Diagnostic
	e.StackTrace = again.StackTrace
	e.Attempts = withUnsure(e.Attempts, again.Attempts)
	e.RetryCount = again.RetryCount
	e.ClassChanged = again.ClassChanged
	e.Ambiguous = e.Ambiguous || again.Ambiguous // a call that may have been done stays one
	e.TraceID = again.TraceID
	if again.Job != nil {
		e.Job = again.Job
	}
	if again.Request.Token != "" {
		e.Request.Token = again.Request.Token
	}
}

// withUnsure are the attempts of another failure, after the last one before them that may have done the work where none of these may: it says at
// which account.
func withUnsure(before, again []Attempt) []Attempt {
	unsure := func(a Attempt) bool { return a.Ambiguous }
	if slices.ContainsFunc(again, unsure) {
		return again
	}
	for _, a := range slices.Backward(before) {
		if a.Ambiguous {
			return append([]Attempt{a}, again...)
		}
	}
	return again
}

// known tells whether the letter says something about its document, and not
// only that nobody was asked.
func (e *Envelope) known() bool {
	return len(e.Attempts) > 0 || e.Outcome == outcomePermanent || e.Outcome == outcomeRejected
}

// The outcomes that no repetition changes. The second is that of a document that is not worth sending.
const (
	outcomePermanent = "permanent"
	outcomeRejected  = "rejected"
)

// later is the later of two times of which each may be unknown.
func later(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.After(*a) {
		return b
	}
	return a
}
