package dlq

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Letter is an envelope together with the folder it was found in.
type Letter struct {
	*Envelope
	// Status is open, claimed, resolved or discarded.
	Status string `json:"status"`
}

// Filter selects letters. A zero field selects whatever there is, except for Status.
type Filter struct {
	// Provider is the name of a provider account.
	Provider string
	// Class is an error class, for example throttle.
	Class string
	// Outcome is permanent, exhausted, circuit_open or review.
	Outcome string
	// Code is a provider's error code.
	Code string
	// Operation is the provider's name for the call.
	Operation string
	// Tenant is a worker's tenant.
	Tenant string
	// Document is a document id; of one that is a hash the first twelve characters or more will do.
	Document string
	// Since leaves out letters whose last failure is older.
	Since time.Time
	// Until leaves out letters whose last failure is not before it; zero leaves out none.
	Until time.Time
	// Before leaves out letters whose id is not smaller: those that [Reader.List] has given up to it.
	Before string
	// Status is open, claimed, resolved or discarded; empty means open.
	Status string
}

func (f Filter) selects(e *Envelope) bool {
	return matches(f.Provider, e.Provider) && matches(f.Class, e.ErrorClass) && matches(f.Outcome, e.Outcome) &&
		matches(f.Code, e.ErrorCode) && matches(f.Operation, e.Operation) && matches(f.Tenant, e.Tenant) && f.selectsDocument(e.DocumentID) &&
		!e.FailedAt.Before(f.Since) && (f.Until.IsZero() || e.FailedAt.Before(f.Until))
}

// ShortHash is how many characters of a hash are enough to tell it by.
const ShortHash = 12

// IsHash tells whether a document id is a SHA-256, as it is when the worker named none.
func IsHash(id string) bool { return hashPattern.MatchString(id) }

var hashPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (f Filter) selectsDocument(id string) bool {
	return matches(f.Document, id) || len(f.Document) >= ShortHash && IsHash(id) && strings.HasPrefix(id, f.Document)
}

func matches(want, have string) bool { return want == "" || want == have }

// Reader looks at a store without changing it. It needs no lock, so it works
// beside the process that owns the store: letters may move while it reads.
type Reader struct{ dir string }

// View reads the store in dir. It fails when dir is no folder; an empty folder is an empty store.
func View(dir string) (*Reader, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("dead-letter folder %s does not exist: check the path, or start the proxy once to create it: %w", dir, fs.ErrNotExist)
	case err != nil:
		return nil, fmt.Errorf("dead-letter folder: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("dead-letter folder %s is a file: check the path", dir)
	}
	return &Reader{dir: dir}, nil
}

// List gives the selected letters, those written last first. Payloads are not
// read, and one envelope is in memory at a time. A file that cannot be read
// comes as an error that wraps [ErrUnreadable] or [ErrUnread] and names it; the
// caller may go on, see [PassedOver]. Any other error is the last element.
func (r *Reader) List(f Filter) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		status := cmp.Or(f.Status, StatusOpen)
		if !slices.Contains(statuses(), status) {
			yield(Letter{}, fmt.Errorf("status %q is unknown: use open, claimed, resolved or discarded", f.Status))
			return
		}
		folder := filepath.Join(r.dir, status)
		names, err := letterNames(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(Letter{}, fmt.Errorf("list dead letters: %w", err))
			return
		}
		// UUIDv7 begin with the time, so the names are in order of writing.
		for _, name := range slices.Backward(names) {
			if f.Before != "" && name >= fileName(f.Before) {
				continue
			}
			e, _, err := readEnvelope(filepath.Join(folder, name))
			switch {
			case folderMissing(err): // It moved on since the folder was listed.
			case err != nil:
				if !yield(Letter{}, fmt.Errorf("%s: %w", filepath.Join(status, name), err)) {
					return
				}
			case f.selects(e):
				if !yield(Letter{e, status}, nil) {
					return
				}
			}
		}
	}
}

// Get finds a letter in whatever folder it lies. The error wraps
// [ErrInvalidID], [fs.ErrNotExist], [ErrUnreadable] or [ErrUnread].
func (r *Reader) Get(id string) (Letter, error) {
	if !validID(id) {
		return Letter{}, fmt.Errorf("%q is %w", id, ErrInvalidID)
	}
	// The second look catches a letter that went back to open during the first.
	for range 2 {
		for _, status := range statuses() {
			e, _, err := readEnvelope(filepath.Join(r.dir, status, fileName(id)))
			if err == nil {
				return Letter{e, status}, nil
			}
			if !folderMissing(err) {
				return Letter{}, fmt.Errorf("%s: %w", filepath.Join(status, fileName(id)), err)
			}
		}
	}
	return Letter{}, fmt.Errorf("no dead letter has the id %s: %w", id, fs.ErrNotExist)
}

// ErrAmbiguous says that several letters have ids that begin alike.
var ErrAmbiguous = errors.New("give more of the id")

// minPrefix is how much of an id is asked for at least, in characters.
const minPrefix = 8

var idPrefix = regexp.MustCompile(`^[0-9a-f-]+$`)

// CheckID tells whether Find can make sense of an id or its beginning; the error is then [ErrInvalidID].
func CheckID(prefix string) error {
	if len(prefix) < minPrefix || !idPrefix.MatchString(prefix) {
		return fmt.Errorf("%q is %w, nor its first %d characters or more", prefix, ErrInvalidID, minPrefix)
	}
	return nil
}

// Find is Get for an id of which only the beginning is given, at least eight
// characters. The error may wrap [ErrAmbiguous], too.
func (r *Reader) Find(prefix string) (Letter, error) {
	if validID(prefix) {
		return r.Get(prefix)
	}
	if err := CheckID(prefix); err != nil {
		return Letter{}, err
	}
	found := map[string]struct{}{} // One that moves meanwhile may be seen twice.
	for _, status := range statuses() {
		names, err := letterNames(filepath.Join(r.dir, status))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Letter{}, fmt.Errorf("look for dead letter %s: %w", prefix, err)
		}
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				found[strings.TrimSuffix(name, letterSuffix)] = struct{}{}
			}
		}
	}
	if len(found) > 1 {
		return Letter{}, fmt.Errorf("%d dead letters have ids that begin with %s: %w", len(found), prefix, ErrAmbiguous)
	}
	for id := range found {
		return r.Get(id)
	}
	return Letter{}, fmt.Errorf("no dead letter has an id that begins with %s: %w", prefix, fs.ErrNotExist)
}

// PayloadPath says where the letter's payload lies and how many bytes it has.
// The path is empty when no payload was kept; the error wraps [fs.ErrNotExist] when it is gone.
func (r *Reader) PayloadPath(e *Envelope) (path string, size int64, err error) {
	sum, ok := payloadSum(e.RawPayloadRef)
	if !ok {
		return "", 0, nil
	}
	path = filepath.Join(r.dir, filepath.FromSlash(payloadRef(sum)))
	info, err := os.Stat(path)
	if err != nil {
		return path, 0, fmt.Errorf("payload of dead letter %s: %w", e.ID, err)
	}
	return path, info.Size(), nil
}

// Group is what letters with the same provider, outcome, class and code have in common.
type Group struct {
	Provider string `json:"provider"`
	Outcome  string `json:"outcome"`
	Class    string `json:"error_class"`
	Code     string `json:"error_code"`
	// Letters counts the files.
	Letters int `json:"letters"`
	// Occurrences counts the failures, which is at least Letters.
	Occurrences int `json:"occurrences"`
	// Documents counts the different documents by document id, else by idempotency key, else each letter as one.
	Documents int `json:"documents"`
	// Oldest is the earliest first attempt.
	Oldest time.Time `json:"oldest"`
	// Newest is the latest failure.
	Newest time.Time `json:"newest"`
}

type groupKey struct{ provider, outcome, class, code string }

// Top groups the selected letters, the biggest group first. Unreadable files
// are left out and joined into the error, which then comes with the groups.
func (r *Reader) Top(f Filter) ([]Group, error) {
	groups := map[groupKey]*Group{}
	documents := map[groupKey]map[string]struct{}{}
	var problems []error
	for l, err := range r.List(f) {
		if err != nil {
			problems = append(problems, err)
			continue
		}
		k := groupKey{l.Provider, l.Outcome, l.ErrorClass, l.ErrorCode}
		g := groups[k]
		if g == nil {
			g = &Group{Provider: k.provider, Outcome: k.outcome, Class: k.class, Code: k.code, Oldest: l.FirstAttemptAt, Newest: l.FailedAt}
			groups[k], documents[k] = g, map[string]struct{}{}
		}
		g.Letters++
		g.Occurrences += l.Occurrences
		documents[k][cmp.Or(l.DocumentID, l.IdempotencyKey, l.ID)] = struct{}{}
		if l.FirstAttemptAt.Before(g.Oldest) {
			g.Oldest = l.FirstAttemptAt
		}
		if l.FailedAt.After(g.Newest) {
			g.Newest = l.FailedAt
		}
	}
	top := make([]Group, 0, len(groups))
	for k, g := range groups {
		g.Documents = len(documents[k])
		top = append(top, *g)
	}
	slices.SortFunc(top, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Letters, a.Letters), cmp.Compare(b.Occurrences, a.Occurrences), cmp.Compare(a.Provider, b.Provider),
			cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Code, b.Code))
	})
	return top, errors.Join(problems...)
}
