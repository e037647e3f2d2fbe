package dlq

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"go.uber.org/zap"
)

// ErrNotOpen says that a letter exists but waits for nobody: it is being
// dealt with, or it has come to its end.
var ErrNotOpen = errors.New("not open")

// ErrNoReason says that a letter is to be given up without a word of why.
var ErrNoReason = errors.New("a letter is not given up without a note that says why")

// Resolve ends an open letter well, by the word of a person. Of its id the
// first eight characters or more will do. The error wraps [ErrNotOpen], and
// else is that of [Reader.Find] or what the disk said.
func (s *Store) Resolve(id string, r Resolution) (Letter, error) {
	return s.triage(id, StatusResolved, r)
}

// Discard gives an open letter up, which takes a note that says why: without
// one it fails with [ErrNoReason]. All else is as with Resolve.
func (s *Store) Discard(id string, r Resolution) (Letter, error) {
	if strings.TrimSpace(r.Note) == "" {
		return Letter{}, ErrNoReason
	}
	return s.triage(id, StatusDiscarded, r)
}

func (s *Store) triage(id, to string, r Resolution) (Letter, error) {
	found, err := (&Reader{dir: s.dir}).Find(id)
	if err != nil {
		return Letter{}, err
	}
	if found.Status != StatusOpen {
		return found, fmt.Errorf("dead letter %s is %w but %s", found.ID, ErrNotOpen, found.Status)
	}
	c, err := s.Claim(found.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return found, fmt.Errorf("dead letter %s is %w any more: another has just taken it", found.ID, ErrNotOpen)
	}
	if err != nil {
		return found, err
	}
	if to == StatusResolved {
		err = c.Resolve(nil, r)
	} else {
		err = c.Discard(r)
	}
	if err != nil {
		s.giveBack(c)
		return found, err
	}
	return (&Reader{dir: s.dir}).Get(found.ID)
}

// giveBack opens a letter again that could not be brought to its end.
func (s *Store) giveBack(c *Claim) {
	if err := c.Release(nil); err != nil && !errors.Is(err, ErrSettled) {
		s.log.Error("a dead letter stays claimed until the next start", zap.String("id", c.id), zap.Error(err))
	}
}
