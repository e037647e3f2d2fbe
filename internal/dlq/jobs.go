package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
)

// CallKey tells one call from another. Two calls are the same when account,
// credential and fingerprint are equal and so is the call id or the token.
type CallKey struct {
	Account     string
	Credential  string // As in [JobRecord].
	Fingerprint string
	CallID      string // As in [JobRecord]; empty matches nothing.
	Token       string // Empty matches nothing.
}

// call is the key of the call that started the job.
func (r *JobRecord) call() CallKey {
	return CallKey{r.Account, r.Credential, r.RequestFingerprint, r.CallID, r.Token}
}

// PutJob keeps the record of an accepted job start and, when body is not nil
// and payloads are kept, the start's body. The record is durable when PutJob
// returns without an error. A record of the same account and job is replaced.
// Where the body alone finds no room, the record is kept without it.
//
// The error is [ErrFull] when the store has no room, [fs.ErrClosed] after
// Close, the context's cause when it ended first, or what the disk said. It is
// counted, and nothing is then kept of r, unless it replaces a record: then
// either of them may be found after a crash.
func (s *Store) PutJob(ctx context.Context, r *JobRecord, body io.Reader) error {
	err := s.putJob(ctx, r, body)
	if err == nil {
		s.sweepJobs() // Only now: a removal takes the locks that a write holds.
		return nil
	}
	s.metrics.jobErrors.Inc()
	return fmt.Errorf("journal job %s: %w", r.JobID, err)
}

func (s *Store) putJob(ctx context.Context, r *JobRecord, body io.Reader) error {
	r.Schema, r.RawPayloadRef = JobSchema, ""
	if r.AcceptedAt.IsZero() {
		r.AcceptedAt = time.Now()
	}
	if err := r.check(); err != nil {
		return err
	}
	unlock, err := s.requests.lock(ctx, jobKey(r.Account, r.JobID))
	if err != nil {
		return err
	}
	defer unlock()
	done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()

	sum, err := s.keepJobPayload(ctx, r, body)
	if err != nil {
		return err
	}
	return s.writeJob(r, sum)
}

// writeJob makes the record's file, or replaces it. It takes over one hold on the payload of that sum: the index has it from now on, or it is
// given back.
func (s *Store) writeJob(r *JobRecord, sum string) error {
	kept := false
	defer func() {
		if !kept {
			s.releaseJobPayload(sum)
		}
	}()
	data, err := r.encode()
	if err != nil {
		return err
	}
	name := jobFile(r.Account, r.JobID)
	old := s.jobs.named(name)
	var replaced int64
	if old != nil {
		replaced = old.size
	}
	file, err := s.stageEnvelope(data, replaced, true)
	if err != nil {
		return err
	}
	defer file.discard()
	to := s.path(jobsFolder, name)
	if err := s.place(file, to); err != nil {
		return err
	}
	err = s.settle(file, s.path(jobsFolder))
	if err != nil && old == nil && os.Remove(to) == nil { // The caller is told that nothing is kept, so nothing is.
		s.usage.grow(-file.size)
		return err
	}
	kept = true
	if before := s.jobs.add(newJob(r, file.size, sum)); before != nil {
		s.releaseJobPayload(before.payload)
	}
	return err
}

// FindCall gives the record of a job that the same call has started and that
// is not known to have ended, or nil.
func (s *Store) FindCall(k CallKey) *JobRecord {
	return s.findCall(k, false)
}

// FailedJob is the id of the failed job that the same call has started; "": there is none.
func (s *Store) FailedJob(k CallKey) string {
	if r := s.findCall(k, true); r != nil {
		return r.JobID
	}
	return ""
}

func (s *Store) findCall(k CallKey, failed bool) *JobRecord {
	for _, key := range k.keys() {
		// The record may be newer than the index, where a job has failed this instant.
		if r := s.readJob(s.jobs.call(key, time.Now())); r != nil && (r.FailedAt != nil) == failed {
			return r
		}
	}
	return nil
}

// FindJob gives the record of a job, also of one that is known to have failed, or nil.
func (s *Store) FindJob(account, id string) *JobRecord {
	j := s.jobs.named(jobFile(account, id))
	if j == nil || !j.expires.After(time.Now()) {
		return nil
	}
	return s.readJob(j)
}

// RunningJobs lists the ids of an account's jobs that were accepted since then
// and are not known to have ended.
func (s *Store) RunningJobs(account string, since time.Time) []string {
	return s.jobs.running(strings.ToValidUTF8(account, "\uFFFD"), since)
}

// JobPayload opens the body of a job's start; the caller closes it. The error
// wraps [fs.ErrNotExist] when none was kept or it is gone.
func (s *Store) JobPayload(r *JobRecord) (io.ReadCloser, error) {
	sum, ok := jobPayloadSum(r.RawPayloadRef)
	if !ok {
		return nil, fmt.Errorf("job %s has no payload in this store: %w", r.JobID, fs.ErrNotExist)
	}
	f, err := os.Open(s.path(jobsFolder, jobPayloads, sum))
	if err != nil {
		return nil, fmt.Errorf("payload of job %s: %w", r.JobID, err)
	}
	return f, nil
}

// EndJob forgets a job that has come to its end, with its payload. It is not
// durable at once: a job that comes back after a crash ends once more or expires.
func (s *Store) EndJob(account, id string) {
	if j := s.jobs.named(jobFile(account, id)); j != nil {
		s.removeJob(j)
	}
}

// readJob reads the record behind an entry of the index; nil when there is
// none. One that people removed is forgotten, one that is unreadable goes to quarantine.
func (s *Store) readJob(j *job) *JobRecord {
	if j == nil {
		return nil
	}
	r, _, err := readJobRecord(s.path(jobsFolder, j.name))
	if err == nil {
		return r
	}
	s.setAside(jobsFolder, j.name, err)
	if !errors.Is(err, ErrUnread) {
		s.forgetJob(j)
	}
	return nil
}

// forgetJob takes a job out of the index when its file is gone. Its payload is left to the next start, in case somebody still wants it.
func (s *Store) forgetJob(j *job) {
	if j != nil && s.jobs.drop(j) {
		s.usage.grow(-j.size)
	}
}

// removeJob deletes a record and, unless another one needs it, its payload.
func (s *Store) removeJob(j *job) {
	unlock, err := s.requests.lock(context.Background(), j.key)
	if err != nil {
		return
	}
	defer unlock()
	done, err := s.begin(context.Background())
	if err != nil {
		return // The store is closed: the next start finds the record where it was.
	}
	defer done()
	if !s.jobs.drop(j) {
		return // It was replaced, or another was faster.
	}
	err = os.Remove(s.path(jobsFolder, j.name))
	switch {
	case err == nil:
		s.usage.grow(-j.size)
	case !errors.Is(err, fs.ErrNotExist):
		s.log.Warn("the record of a job cannot be removed", zap.String("file", s.path(jobsFolder, j.name)), zap.Error(err))
		return
	}
	s.releaseJobPayload(j.payload)
}

// keepSweeping removes what has expired although no job is started, for a document must not lie here for longer than it is needed, and keeps the
// index from growing although nobody asks for metrics.
func (s *Store) keepSweeping() {
	done, err := s.begin(context.Background())
	if err != nil {
		return // closed
	}
	s.sweeper.Reset(sweepEvery) // while a Close waits for this: it stops what it finds
	done()
	s.sweepJobs()
	s.background.run(0, func(ctx context.Context) { s.compact(ctx, false) })
}

// sweepJobs removes some of what has expired or is beyond the bound; the rest follows with the next writes.
func (s *Store) sweepJobs() {
	now, early := time.Now(), 0
	for _, j := range s.jobs.due(now) {
		if j.expires.After(now) {
			early++
		}
		s.removeJob(j)
	}
	if early > 0 {
		s.log.Warn("the journal of jobs is at its bound: the oldest records went before their jobs' end, and a repeat of those starts is a new job", zap.Int("records", early))
	}
}
