package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// sum is the SHA-256 of a body.
type sum = [sha256.Size]byte

// ledger is what workers were told is safe.
type ledger struct {
	mu      sync.Mutex
	letters map[string]sum // Body by the id of the dead letter.
	jobs    map[string]sum // Body by the id of the job.
}

func newLedger() *ledger { return &ledger{letters: map[string]sum{}, jobs: map[string]sum{}} }

func (l *ledger) letter(id string, body sum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.letters[id] = body
}

func (l *ledger) job(id string, body sum) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[id] = body
}

// record is what is read of letters and of the records of jobs. It is written down here anew, so that nothing is believed for the reason that
// the program believes it.
type record struct {
	ID            string `json:"id"`
	JobID         string `json:"job_id"`
	Outcome       string `json:"outcome"`
	RawPayloadRef string `json:"raw_payload_ref"`
	Request       body   `json:"request"`
	Start         body   `json:"start"`
}

type body struct {
	BodyBytes  int64  `json:"body_bytes"`
	BodySHA256 string `json:"body_sha256"`
}

// check looks in the folder for everything that was promised.
func (l *ledger) check(dir string) error {
	for id, want := range l.letters {
		r, err := readRecord(filepath.Join(dir, "open", id+".json"))
		if err == nil && (r.ID != id || r.Outcome == "") {
			err = fmt.Errorf("it says id %q and outcome %q", r.ID, r.Outcome)
		}
		if err == nil {
			err = checkPayload(dir, r.RawPayloadRef, r.Request, want)
		}
		if err != nil {
			return fmt.Errorf("LOST: letter %s was promised to a worker: %w", id, err)
		}
	}
	if len(l.jobs) == 0 {
		return nil
	}
	found, err := readJobs(dir)
	if err != nil {
		return err
	}
	for id, want := range l.jobs {
		r, ok := found[id]
		if !ok {
			return fmt.Errorf("LOST: job %s was given to a worker and has no record", id)
		}
		if err := checkPayload(dir, r.RawPayloadRef, r.Start, want); err != nil {
			return fmt.Errorf("LOST: job %s was given to a worker: %w", id, err)
		}
	}
	return nil
}

func readRecord(path string) (r record, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// readJobs reads every record of a job; a broken one is an error.
func readJobs(dir string) (map[string]record, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "jobs", "*.json"))
	if err != nil {
		return nil, err
	}
	found := map[string]record{}
	for _, path := range paths {
		r, err := readRecord(path)
		if err != nil {
			return nil, fmt.Errorf("record of a job: %w", err)
		}
		found[r.JobID] = r
	}
	return found, nil
}

func checkPayload(dir, ref string, said body, want sum) error {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(ref)))
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	n, err := io.Copy(h, f)
	switch {
	case err != nil:
		return err
	case sum(h.Sum(nil)) != want:
		return fmt.Errorf("payload %s of %d bytes is not what was sent", ref, n)
	case said.BodySHA256 != hex.EncodeToString(want[:]) || said.BodyBytes != n:
		return fmt.Errorf("the record describes another body than the %d bytes that were sent", n)
	}
	return nil
}

// entries are the names in a folder of the store.
func entries(dir, folder string) ([]string, error) {
	files, err := os.ReadDir(filepath.Join(dir, folder))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names, err
}
