package dlq

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"go.uber.org/zap"
)

const (
	jobPayloads = "payloads" // In the folder of jobs: their payloads come and go with them, those of letters stay.

	// orphanAge is how old a payload without a record must be to be removed at
	// start: no job lives longer, and a record in quarantine may be mended until then.
	orphanAge = 7 * 24 * time.Hour
)

var jobPayloadPattern = regexp.MustCompile(`^` + jobsFolder + `/` + jobPayloads + `/([0-9a-f]{64})$`)

// jobFile is the name of a job's record.
func jobFile(account, id string) string {
	key := jobKey(account, id)
	return hex.EncodeToString(key[:]) + letterSuffix
}

// jobPayloadSum is the hash that a record's reference names; ok is false for anything but its exact form.
func jobPayloadSum(ref string) (sum string, ok bool) {
	m := jobPayloadPattern.FindStringSubmatch(ref)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// readJobRecord reads the record at path and gives its size in bytes.
func readJobRecord(path string) (*JobRecord, int64, error) {
	data, err := readBounded(path)
	if err != nil {
		return nil, 0, err
	}
	r, err := decodeJob(data)
	if err != nil {
		return nil, 0, err
	}
	if filepath.Base(path) != jobFile(r.Account, r.JobID) {
		return nil, 0, fmt.Errorf("%w: the file has another job's name", errUnreadableJob)
	}
	return r, int64(len(data)), nil
}

// keepJobPayload reads the start's body, describes it in the record and keeps
// it where payloads are kept. The payload of the returned sum has one more
// holder; an empty sum stands for none.
func (s *Store) keepJobPayload(ctx context.Context, r *JobRecord, body io.Reader) (sum string, err error) {
	if body == nil {
		return "", nil
	}
	read := s.hashOnly
	if s.keepPayloads.Load() {
		read = s.stagePayload
	}
	f, err := read(ctx, body)
	if errors.Is(err, ErrFull) {
		return "", nil // The record alone still keeps the job from being started twice.
	}
	if err != nil {
		return "", err
	}
	defer f.discard()
	r.Start.BodyBytes, r.Start.BodySHA256 = f.size, f.hexSum()
	if !s.keepPayloads.Load() {
		return "", nil
	}
	sum = f.hexSum()
	if err := s.placeJobPayload(ctx, f); err != nil {
		return "", err
	}
	r.RawPayloadRef = jobsFolder + "/" + jobPayloads + "/" + sum
	return sum, nil
}

// placeJobPayload gives a payload its place and one more holder, or drops it
// when its content is there already. It is durable when this returns.
func (s *Store) placeJobPayload(ctx context.Context, f *staged) error {
	unlock, err := s.contents.lock(ctx, f.sum)
	if err != nil {
		return err
	}
	defer unlock()
	folder := s.path(jobsFolder, jobPayloads)
	to := filepath.Join(folder, f.hexSum())
	info, err := os.Lstat(to)
	if err == nil && info.Mode().IsRegular() && info.Size() == f.size {
		f.discard()
		err = s.folders.commit(folder) // Its writer may not have come this far.
	} else {
		broken := err == nil
		if err := s.place(f, to); err != nil {
			return err
		}
		if broken {
			s.usage.grow(-info.Size())
		}
		err = s.settle(f, folder)
	}
	if err != nil {
		return err
	}
	s.jobs.pin(f.hexSum())
	return nil
}

// releaseJobPayload gives a hold on a payload back; with the last one it is removed.
func (s *Store) releaseJobPayload(sum string) {
	var key hashKey
	if n, err := hex.Decode(key[:], []byte(sum)); err != nil || n != len(key) {
		return // There is none.
	}
	unlock, err := s.contents.lock(context.Background(), key)
	if err != nil {
		return
	}
	defer unlock()
	if !s.jobs.unpin(sum) {
		return
	}
	at := s.path(jobsFolder, jobPayloads, sum)
	info, err := os.Lstat(at)
	if err != nil {
		return
	}
	if err := os.Remove(at); err != nil {
		s.log.Warn("the payload of a finished job cannot be removed", zap.String("file", at), zap.Error(err))
		return
	}
	s.usage.grow(-info.Size())
}

// loadJobs builds the index from the disk. Expired records go, unreadable ones
// move to quarantine, payloads that nobody has needed for long are removed.
func (s *Store) loadJobs() error {
	names, err := letterNames(s.path(jobsFolder))
	if err != nil {
		return err
	}
	now := time.Now()
	var released []string
	for _, name := range names {
		at := s.path(jobsFolder, name)
		r, size, err := readJobRecord(at)
		switch {
		case errors.Is(err, ErrUnread):
			return err // To start without the record would be to forget a job that is paid for.
		case err != nil:
			s.setAside(jobsFolder, name, err)
			continue
		}
		sum, _ := jobPayloadSum(r.RawPayloadRef)
		s.jobs.pin(sum)
		if r.ExpiresAt.After(now) {
			s.jobs.add(newJob(r, size, sum))
			continue
		}
		if err := os.Remove(at); err != nil {
			return err
		}
		released = append(released, sum)
	}
	for _, sum := range released { // Only now is it known whether another record needs it.
		s.releaseJobPayload(sum)
	}
	return s.removeOrphans(now)
}

// removeOrphans removes old payloads that no record leads to: a start that was cut off, or a record that was removed by hand.
func (s *Store) removeOrphans(now time.Time) error {
	files, err := os.ReadDir(s.path(jobsFolder, jobPayloads))
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || s.jobs.pinned(f.Name()) || now.Sub(info.ModTime()) < orphanAge {
			continue
		}
		if err := os.Remove(s.path(jobsFolder, jobPayloads, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// readJobs sets aside the records that cannot be read.
func (v *verification) readJobs() error {
	names, err := letterNames(filepath.Join(v.dir, jobsFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list jobs: %w", err)
	}
	for _, name := range names {
		if _, _, err := readJobRecord(filepath.Join(v.dir, jobsFolder, name)); err != nil {
			if err := v.setAside(jobsFolder, name, err); err != nil {
				return err
			}
		}
	}
	return nil
}
