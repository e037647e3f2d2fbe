package dlq

import (
	"context"
	"fmt"
	"time"
)

// JobRepair is a job for some pages of another one's document. It is started once at most, whatever becomes of it.
type JobRepair struct {
	// Pages are those that it reads, in the provider's numbers.
	Pages []int `json:"pages"`
	// JobID is the provider's name for it; empty while nobody knows whether it was started.
	JobID string `json:"job_id"`
}

// FailJob notes that a job has failed. From now on no call is answered with
// it, while FindJob still tells whose it was until it expires, so that whoever
// asks for the same job again hears of the same document.
func (s *Store) FailJob(ctx context.Context, account, id string) error {
	_, err := s.changeJob(ctx, account, id, func(r *JobRecord) bool {
		now := time.Now()
		first := r.FailedAt == nil
		r.FailedAt = &now
		return first
	})
	return err
}

// BeginRepair notes, before a second job is started for pages that the result
// of a job lacks, that it is: durable when it returns true, and true once for
// each job.
func (s *Store) BeginRepair(ctx context.Context, account, id string, pages []int) (bool, error) {
	return s.changeJob(ctx, account, id, func(r *JobRecord) bool {
		first := r.Repair == nil && r.FailedAt == nil
		r.Repair = &JobRepair{Pages: pages}
		return first
	})
}

// NoteRepair notes the id of that second job. From now on the first one's
// payload is not needed any more, and goes.
func (s *Store) NoteRepair(ctx context.Context, account, id, repair string) error {
	_, err := s.changeJob(ctx, account, id, func(r *JobRecord) bool {
		if r.Repair == nil {
			return false
		}
		r.Repair.JobID, r.RawPayloadRef = repair, ""
		return true
	})
	return err
}

// changeJob replaces a job's record by a changed one, if there is one and change wants it so.
func (s *Store) changeJob(ctx context.Context, account, id string, change func(r *JobRecord) bool) (changed bool, err error) {
	unlock, err := s.requests.lock(ctx, jobKey(account, id))
	if err != nil {
		return false, err
	}
	defer unlock()
	done, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	j := s.jobs.named(jobFile(account, id))
	r := s.readJob(j)
	if r == nil || !change(r) {
		return false, nil
	}
	sum, _ := jobPayloadSum(r.RawPayloadRef)
	s.jobs.pin(sum) // One more holder: writeJob gives the old record's hold back.
	if err := s.writeJob(r, sum); err != nil {
		return false, fmt.Errorf("change the record of job %s: %w", id, err)
	}
	return true, nil
}
