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
	// Status is open, claimed, resolved or discarded; empty means open.
	Status string
	// Before is a letter's id, be there such a letter or not: only those with a smaller id are selected, which were written before it. A
	// listing goes on behind its last letter this way.
	Before string
}

func (f Filter) selects(e *Envelope) bool {
	return matches(f.Provider, e.Provider) && matches(f.Class, e.ErrorClass) && matches(f.Outcome, e.Outcome) &&
		matches(f.Code, e.ErrorCode) && matches(f.Operation, e.Operation) && matches(f.Tenant, e.Tenant) && f.selectsDocument(e.DocumentID) &&
		f.selectsTime(e.FailedAt)
}

func (f Filter) selectsTime(failed time.Time) bool {
	return !failed.Before(f.Since) && (f.Until.IsZero() || failed.Before(f.Until))
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

// noFolderError is that of a folder which does not exist.
type noFolderError struct{ dir string }

func (e *noFolderError) Error() string {
	return "dead-letter folder " + e.dir + " does not exist: check the path, or start the proxy once to create it"
}

func (*noFolderError) Unwrap() error { return fs.ErrNotExist }

// View reads the store in dir. It fails when dir is no folder; an empty folder is an empty store.
func View(dir string) (*Reader, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &noFolderError{dir}
	case err != nil:
		return nil, fmt.Errorf("dead-letter folder: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("dead-letter folder %s is a file: check the path", dir)
	}
	return &Reader{dir: dir}, nil
}

// List gives the selected letters, those written last first. Payloads are not
// read, and one envelope is in memory at a time; of the other letters no more
// than their ids are. Where the filter asks for more than a status, the store's
// index tells which letters need not be read. A file that cannot be read comes
// as an error that wraps [ErrUnreadable] or [ErrUnread] and names it; the
// caller may go on, see [PassedOver]. Any other error is the last element.
func (r *Reader) List(f Filter) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		if err := r.list(f, yield); err != nil && !errors.Is(err, errEnough) {
			yield(Letter{}, err)
		}
	}
}

// errEnough says that whoever asked for letters wants no more.
var errEnough = errors.New("no more letters are asked for")

const (
	firstPage = 1024    // Ids that a folder is searched for at first; most want no more.
	lastPage  = 1 << 20 // At most as many at a time, of 16 bytes each.
)

func (r *Reader) list(f Filter, yield func(Letter, error) bool) error {
	older, err := f.check()
	if err != nil {
		return err
	}
	size := firstPage
	if f.narrows() {
		size = lastPage // Each page costs a look through the whole index.
	}
	first := older == nil
	for {
		p, err := newest(r.folder(f), older, size)
		if err != nil {
			return fmt.Errorf("list dead letters: %w", err)
		}
		if first {
			for _, name := range slices.Backward(p.odd) {
				if !r.read(name, f, yield) {
					return errEnough
				}
			}
		}
		passed, err := r.passOver(f, p.ids)
		if err != nil {
			return err
		}
		for i, id := range p.ids {
			if !passed.has(i) && !r.read(fileName(id.String()), f, yield) {
				return errEnough
			}
		}
		if !p.more {
			return nil
		}
		older, first = &p.ids[len(p.ids)-1], false
		size = min(16*size, lastPage)
	}
}

// check reads the parts of the filter that may be wrong.
func (f Filter) check() (older *uid, err error) {
	if f.Status != "" && !slices.Contains(statuses(), f.Status) {
		return nil, fmt.Errorf("status %q is unknown: use open, claimed, resolved or discarded", f.Status)
	}
	if f.Before == "" {
		return nil, nil
	}
	id, ok := parseUID(f.Before)
	if !ok {
		return nil, fmt.Errorf("%q is %w", f.Before, ErrInvalidID)
	}
	return &id, nil
}

func (r *Reader) folder(f Filter) string { return filepath.Join(r.dir, cmp.Or(f.Status, StatusOpen)) }

// read hands a letter on where it is still there and selected. It tells whether more are asked for.
func (r *Reader) read(name string, f Filter, yield func(Letter, error) bool) bool {
	e, _, err := readEnvelope(filepath.Join(r.folder(f), name))
	switch status := cmp.Or(f.Status, StatusOpen); {
	case folderMissing(err):
		return true // It moved on since the folder was listed.
	case err != nil:
		return yield(Letter{}, fmt.Errorf("%s: %w", filepath.Join(status, name), err))
	default:
		return !f.selects(e) || yield(Letter{e, status}, nil)
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

const (
	minPrefix = 8    // Characters of an id that are asked for at least.
	maxFound  = 1000 // Letters that begin so and are counted.
)

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
		err := eachName(filepath.Join(r.dir, status), func(name string) error {
			if strings.HasPrefix(name, prefix) && len(found) < maxFound {
				found[strings.TrimSuffix(name, letterSuffix)] = struct{}{}
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Letter{}, fmt.Errorf("look for dead letter %s: %w", prefix, err)
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
