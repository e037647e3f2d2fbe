package dlq

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxJobs bounds the records. Beyond it the oldest go: a repeat of their start is then a new job.
	maxJobs = 50_000
	// sweepEvery is the least time between two searches for expired jobs.
	sweepEvery = time.Minute
	// sweepStep bounds the removals of one sweep, which a worker waits for.
	sweepStep = 32
)

// job is what the store remembers of a record. Entries are replaced, never changed.
type job struct {
	account  string
	id       string
	name     string  // Of its file.
	key      hashKey // Of its lock.
	size     int64
	payload  string // Hash of the start's body; empty when none is kept.
	accepted time.Time
	expires  time.Time
	failed   bool
	ended    bool // Whether or not it failed: a repair begins when its result is seen.
	calls    []hashKey
}

func newJob(r *JobRecord, size int64, payload string) *job {
	return &job{
		account: strings.ToValidUTF8(r.Account, "\uFFFD"), id: r.JobID, name: jobFile(r.Account, r.JobID), key: jobKey(r.Account, r.JobID), size: size,
		payload: payload, accepted: r.AcceptedAt, expires: r.ExpiresAt, failed: r.FailedAt != nil,
		ended: r.FailedAt != nil || r.Repair != nil, calls: r.call().keys(),
	}
}

// keys are the names under which a call is looked for: at most two.
func (k CallKey) keys() []hashKey {
	if k.Fingerprint == "" {
		return nil
	}
	var all []hashKey
	if k.CallID != "" {
		all = append(all, hashOf("call", k.Account, k.Credential, k.Fingerprint, k.CallID))
	}
	if k.Token != "" {
		all = append(all, hashOf("token", k.Account, k.Credential, k.Fingerprint, k.Token))
	}
	return all
}

// jobKey names a job, for its file and its lock.
func jobKey(account, id string) hashKey { return hashOf("job", account, id) }

// hashOf hashes parts so that ("ab", "c") and ("a", "bc") differ.
func hashOf(parts ...string) (sum hashKey) {
	h := sha256.New()
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	h.Sum(sum[:0])
	return sum
}

// jobIndex knows every job without a look at the disk. It is built anew at each start.
type jobIndex struct {
	limit int // Of records; set before use.

	mu       sync.Mutex
	jobs     map[string]*job // By file name.
	calls    map[hashKey]*job
	payloads map[string]int      // Holders of each payload.
	seen     map[string]struct{} // Accounts: keeps a series at 0 instead of letting it vanish.
	swept    time.Time
}

func newJobIndex() *jobIndex {
	return &jobIndex{
		limit: maxJobs, jobs: map[string]*job{}, calls: map[hashKey]*job{}, payloads: map[string]int{}, seen: map[string]struct{}{},
	}
}

// add puts an entry in and gives the one that it replaces, or nil. The payload was pinned before.
func (x *jobIndex) add(j *job) (before *job) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if before = x.jobs[j.name]; before != nil {
		x.remove(before)
	}
	x.jobs[j.name] = j
	x.seen[j.account] = struct{}{}
	for _, key := range j.calls {
		if other := x.calls[key]; other == nil || !j.failed && other.failed || j.failed == other.failed && !j.accepted.Before(other.accepted) {
			x.calls[key] = j
		}
	}
	return before
}

// drop takes an entry out unless it was replaced. It tells whether it did.
func (x *jobIndex) drop(j *job) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.jobs[j.name] != j {
		return false
	}
	x.remove(j)
	return true
}

func (x *jobIndex) remove(j *job) {
	delete(x.jobs, j.name)
	for _, key := range j.calls {
		if x.calls[key] == j {
			delete(x.calls, key)
		}
	}
}

func (x *jobIndex) named(name string) *job {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.jobs[name]
}

// call gives the job that a call has started, unless it has expired; one that failed only where there is no other.
func (x *jobIndex) call(key hashKey, now time.Time) *job {
	x.mu.Lock()
	defer x.mu.Unlock()
	if j := x.calls[key]; j != nil && j.expires.After(now) {
		return j
	}
	return nil
}

// pin notes one more holder of a payload.
func (x *jobIndex) pin(sum string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if sum != "" {
		x.payloads[sum]++
	}
}

// unpin notes one holder less. It tells whether that was the last.
func (x *jobIndex) unpin(sum string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.payloads[sum]--; x.payloads[sum] > 0 {
		return false
	}
	delete(x.payloads, sum)
	return true
}

func (x *jobIndex) pinned(sum string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.payloads[sum] > 0
}

// due lists some of the jobs that have expired, or that are the oldest of too many.
func (x *jobIndex) due(now time.Time) []*job {
	x.mu.Lock()
	defer x.mu.Unlock()
	beyond := len(x.jobs) - x.limit
	if beyond <= 0 && now.Before(x.swept.Add(sweepEvery)) {
		return nil
	}
	var gone, all []*job
	for _, j := range x.jobs {
		if !j.expires.After(now) {
			gone = append(gone, j)
		} else if beyond > 0 {
			all = append(all, j)
		}
	}
	if over := beyond - len(gone); over > 0 {
		// A few more than needed, so that a full journal is not sorted for every start.
		slices.SortFunc(all, func(a, b *job) int { return cmp.Or(a.accepted.Compare(b.accepted), strings.Compare(a.name, b.name)) })
		gone = append(gone, all[:min(len(all), over+x.limit/1000)]...)
	}
	if len(gone) <= sweepStep {
		x.swept = now
		return gone
	}
	return gone[:sweepStep]
}

// running lists the jobs of an account that were accepted since then and are not known to have ended.
func (x *jobIndex) running(account string, since time.Time) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var ids []string
	for _, j := range x.jobs {
		if j.account == account && !j.ended && j.accepted.After(since) {
			ids = append(ids, j.id)
		}
	}
	return ids
}

// open counts the jobs by account that are not known to have ended.
func (x *jobIndex) open(now time.Time) map[string]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	open := make(map[string]int, len(x.seen))
	for account := range x.seen {
		open[account] = 0
	}
	for _, j := range x.jobs {
		if !j.ended && j.expires.After(now) {
			open[j.account]++
		}
	}
	return open
}
