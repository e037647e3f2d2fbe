package dlq

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// JobSchema is the value of a job record's schema field. Readers refuse any other.
const JobSchema = "ocr-proxy/job/v1"

// JobRecord is one accepted job start: what was asked, what the provider
// answered, and whose document it is about. It lies in the folder jobs until
// the job's end or its own expiry.
type JobRecord struct {
	// Schema is always [JobSchema]; PutJob sets it.
	Schema string `json:"schema"`
	// Account is the name of the provider account. Required.
	Account string `json:"account"`
	// Kind is the provider's kind, for example textract.
	Kind string `json:"kind"`
	// Operation is the provider's name for the start, for example StartDocumentAnalysis.
	Operation string `json:"operation"`
	// JobID is the provider's name for the job or its result. Required.
	JobID string `json:"job_id"`
	// DocumentID is the worker's name for the document.
	DocumentID string `json:"document_id"`
	// Tenant is the worker's tenant, or empty.
	Tenant string `json:"tenant"`
	// IdempotencyKey is a lower-case hex SHA-256 over document and processing version.
	IdempotencyKey string `json:"idempotency_key"`
	// RequestFingerprint is a lower-case hex SHA-256 that equal requests share.
	RequestFingerprint string `json:"request_fingerprint"`
	// CallID is a hash of what tells the call from others about the same document; empty when nothing does.
	CallID string `json:"call_id"`
	// Credential is a salted hash of the worker's own credential; empty when the account has one.
	Credential string `json:"credential"`
	// Token is the idempotency token that the start carried, the worker's or the proxy's; empty when it had none.
	Token string `json:"token"`
	// Start is the request that was accepted, without its credentials.
	Start Request `json:"start"`
	// RawPayloadRef leads to the start's body, relative to the store; empty when none is kept. PutJob sets it.
	RawPayloadRef string `json:"raw_payload_ref"`
	// Answer is what the provider said to the start.
	Answer JobAnswer `json:"answer"`
	// AcceptedAt is when the answer came; PutJob uses the present when it is zero.
	AcceptedAt time.Time `json:"accepted_at"`
	// ExpiresAt is when the provider has forgotten the job, and the record may go. Required.
	ExpiresAt time.Time `json:"expires_at"`
	// FailedAt is when the job was seen to have failed, nil before. FailJob sets it.
	FailedAt *time.Time `json:"failed_at"`
	// Repair is the second job that reads the pages which the first one's result lacks, nil when there is none. BeginRepair sets it.
	Repair *JobRepair `json:"repair,omitempty"`
}

// JobAnswer is a provider's answer to a job start as it came.
type JobAnswer struct {
	// Status is the HTTP status.
	Status int `json:"status"`
	// Headers are those by which a client goes on, with the provider's own addresses.
	Headers map[string][]string `json:"headers"`
	// Body is the answer's body where it is text, without any content encoding. Content reads it.
	Body string `json:"body"`
	// Binary is the body where it is no text, as most messages of gRPC are none; in the file it is base64, and absent where there is none.
	Binary []byte `json:"body_base64,omitempty"`
}

// SetContent keeps a body, so that [JobAnswer.Content] gives every byte of it again.
func (a *JobAnswer) SetContent(body []byte) {
	a.Body, a.Binary = "", nil
	if utf8.Valid(body) {
		a.Body = string(body)
	} else {
		a.Binary = body
	}
}

// Content is the answer's body.
func (a *JobAnswer) Content() []byte {
	if a.Binary != nil {
		return a.Binary
	}
	return []byte(a.Body)
}

// check reports what a record cannot do without.
func (r *JobRecord) check() error {
	switch {
	case r.Account == "":
		return errors.New("account is missing")
	case r.JobID == "":
		return errors.New("job_id is missing")
	case r.ExpiresAt.IsZero():
		return errors.New("expires_at is missing")
	}
	return nil
}

// encode is the record as it is stored, in one line.
func (r *JobRecord) encode() ([]byte, error) {
	r.Start.normalize()
	if r.Answer.Headers == nil {
		r.Answer.Headers = map[string][]string{}
	}
	r.AcceptedAt, r.ExpiresAt = r.AcceptedAt.UTC(), r.ExpiresAt.UTC()
	if r.FailedAt != nil {
		at := r.FailedAt.UTC()
		r.FailedAt = &at
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("encode the record: %w", err)
	}
	if b.Len() > maxEnvelopeBytes {
		return nil, fmt.Errorf("record of %d bytes is larger than the allowed %d", b.Len(), maxEnvelopeBytes)
	}
	return b.Bytes(), nil
}

// errUnreadableJob is [ErrUnreadable] for a file that should be a job's record.
var errUnreadableJob = fmt.Errorf("no whole job record: %w", ErrUnreadable)

// decodeJob reads one record. Fields that it does not know are allowed and
// dropped. Every error wraps [ErrUnreadable].
func decodeJob(data []byte) (*JobRecord, error) {
	var r *JobRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadableJob, err)
	}
	if r == nil || r.Schema != JobSchema {
		return nil, fmt.Errorf("%w: its schema is not %q", errUnreadableJob, JobSchema)
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadableJob, err)
	}
	r.Start.normalize()
	return r, nil
}
