package dlq

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Dimension is something that letters of a group have in common.
type Dimension string

// The dimensions of [TopOptions].
const (
	ByProvider  Dimension = "provider"
	ByOutcome   Dimension = "outcome"
	ByClass     Dimension = "class"
	ByCode      Dimension = "code"
	ByOperation Dimension = "operation"
	ByTenant    Dimension = "tenant"
	ByHour      Dimension = "hour" // Of the last failure, in UTC.
)

// Dimensions lists them all.
func Dimensions() []Dimension {
	return []Dimension{ByProvider, ByOutcome, ByClass, ByCode, ByOperation, ByTenant, ByHour}
}

// defaultDimensions are those of a [TopOptions] without any.
func defaultDimensions() []Dimension { return []Dimension{ByProvider, ByOutcome, ByClass, ByCode} }

// NewWithin is how long an error code is new when [TopOptions] do not say it.
const NewWithin = 24 * time.Hour

// TopOptions tell [Reader.Top] how to group.
type TopOptions struct {
	// By is what the letters of a group have in common; none means provider, outcome, class and code.
	By []Dimension
	// NewWithin is how long ago a provider's code may have been seen first to be new; 0 means [NewWithin].
	NewWithin time.Duration
}

// Group is what letters that are alike have in common. Fields that were not grouped by are empty.
type Group struct {
	Provider  string `json:"provider"`
	Outcome   string `json:"outcome"`
	Class     string `json:"error_class"`
	Code      string `json:"error_code"`
	Operation string `json:"operation,omitempty"`
	Tenant    string `json:"tenant,omitempty"`
	// Hour is the beginning of an hour in UTC.
	Hour time.Time `json:"hour,omitzero"`
	// Letters counts the files.
	Letters int `json:"letters"`
	// Occurrences counts the failures, which is at least Letters.
	Occurrences int `json:"occurrences"`
	// Documents counts the different documents by document id, else by idempotency key, else each letter as one.
	Documents int `json:"documents"`
	// ClassChanged counts the letters whose tries did not all fail in the same class: many of them mean that a rule may be wrong.
	ClassChanged int `json:"class_changed"`
	// BodyBytes is the length of all their requests together.
	BodyBytes int64 `json:"body_bytes"`
	// NewCodes lists error codes that no open letter of the same provider had before, at most ten of them.
	NewCodes []string `json:"new_codes"`
	// Oldest is the earliest first attempt.
	Oldest time.Time `json:"oldest"`
	// Newest is the latest failure.
	Newest time.Time `json:"newest"`
	// Action says what to do about them, in one sentence.
	Action string `json:"action"`
}

// maxProblems bounds what an error lists.
const maxProblems = 100

// Top groups the selected letters, the biggest group first. Of open letters it
// asks the store's index, and reads those alone that the index does not know;
// all others are read. Unreadable files are left out and joined into the error,
// which then comes with the groups.
func (r *Reader) Top(f Filter, o TopOptions) ([]Group, error) {
	t, err := newTally(f, o)
	if err != nil {
		return nil, err
	}
	older, err := f.check()
	if err != nil {
		return nil, err
	}
	var problems []error
	problem := func(err error) {
		if len(problems) < maxProblems {
			problems = append(problems, err)
		}
	}
	first := older == nil
	for {
		p, err := newest(r.folder(f), older, lastPage)
		if err != nil {
			return nil, fmt.Errorf("list dead letters: %w", err)
		}
		if first {
			for _, name := range p.odd {
				r.read(name, Filter{Status: f.Status}, func(_ Letter, err error) bool { problem(err); return true })
			}
		}
		if err := r.tallyPage(f, p.ids, t, problem); err != nil {
			return nil, err
		}
		if !p.more {
			break
		}
		older, first = &p.ids[len(p.ids)-1], false
	}
	return t.groups(), errors.Join(problems...)
}

// tallyPage counts the letters of a page.
func (r *Reader) tallyPage(f Filter, ids []uid, t *tally, problem func(error)) error {
	s, err := r.index(f)
	if err != nil {
		return err
	}
	defer s.close()
	t.expect(len(ids))
	places := newPlaces(ids)
	last, err := s.latest(len(ids), places.of)
	if err != nil {
		return err
	}
	err = s.each(func(n uint32, rec *record) error {
		if rec.sized || rec.gone {
			return nil
		}
		if place, ok := places.of(rec.id); ok && last[place] == n {
			return t.count(&rec.facts)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, id := range ids {
		if last[i] != 0 {
			continue
		}
		r.read(fileName(id.String()), Filter{Status: f.Status}, func(l Letter, unreadable error) bool {
			if unreadable != nil {
				problem(unreadable)
				return true
			}
			known := factsOf(id, l.Envelope)
			err = t.count(&known)
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ParseDimensions reads a list of dimensions.
func ParseDimensions(names []string) ([]Dimension, error) {
	var by []Dimension
	for _, name := range names {
		d := Dimension(name)
		if !slices.Contains(Dimensions(), d) {
			return nil, fmt.Errorf("%q is nothing to group by: use %s", name, joinDimensions())
		}
		if !slices.Contains(by, d) {
			by = append(by, d)
		}
	}
	return by, nil
}

func joinDimensions() string {
	names := make([]string, 0, len(Dimensions()))
	for _, d := range Dimensions() {
		names = append(names, string(d))
	}
	return strings.Join(names, ", ")
}
