package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// ErrSettled says that a claim was already resolved, discarded or released.
var ErrSettled = errors.New("this claim on a dead letter has already been settled")

// Claim is the sole right to deal with one letter. It ends with exactly one
// successful Resolve, Discard or Release; one that fails may be followed by
// another. A claim that is never settled goes back to open at the next [Open].
type Claim struct {
	store    *Store
	id       string
	envelope *Envelope

	mu      sync.Mutex // Held while the letter is moved: its owner alone waits here.
	size    int64      // Of the file in claimed, in bytes.
	kept    bool       // A result of this claim is durable.
	settled bool
}

// Claim takes an open letter; that is durable when it returns. The error wraps [fs.ErrNotExist] when it is not
// open, be it that another has it, [ErrInvalidID] when id is none,
// [ErrUnreadable] when the file is damaged (it is then in quarantine),
// [ErrUnread] when it cannot be read now (it is still open) and [fs.ErrClosed] after Close.
func (s *Store) Claim(id string) (*Claim, error) {
	if !validID(id) {
		return nil, fmt.Errorf("%q is %w", id, ErrInvalidID)
	}
	name := fileName(id)
	var key hashKey
	switch e, _, err := readEnvelope(s.path(StatusOpen, name)); {
	case err == nil:
		key = keyOf(e)
	case errors.Is(err, ErrUnread):
		return nil, fmt.Errorf("claim dead letter %s: %w", id, err)
	}
	// The lock keeps the letter from being raised, which would put it into open once more.
	unlock, err := s.requests.lock(context.Background(), key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	done, err := s.begin(context.Background())
	if err != nil {
		return nil, fmt.Errorf("claim dead letter %s: %w", id, err)
	}
	defer done()
	if err := os.Rename(s.path(StatusOpen, name), s.path(StatusClaimed, name)); err != nil {
		return nil, fmt.Errorf("claim dead letter %s: %w", id, err)
	}
	e, size, err := readEnvelope(s.path(StatusClaimed, name))
	if errors.Is(err, ErrUnread) && os.Rename(s.path(StatusClaimed, name), s.path(StatusOpen, name)) == nil {
		return nil, fmt.Errorf("claim dead letter %s: %w", id, err)
	}
	s.index.remove(id)
	if err != nil {
		s.setAside(StatusClaimed, name, err)
		return nil, fmt.Errorf("claim dead letter %s: %w", id, err)
	}
	s.pruning.noteLetter(e)
	c := &Claim{store: s, id: id, envelope: e, size: size}
	if err := c.claimed(); err != nil {
		return nil, fmt.Errorf("claim dead letter %s: %w", id, err)
	}
	return c, nil
}

// claimed makes the claim durable, before anything is done that must be
// remembered after a crash. One that cannot be made so is taken back.
func (c *Claim) claimed() error {
	s := c.store
	err := s.folders.commit(s.path(StatusClaimed))
	if err == nil {
		err = s.folders.commit(s.path(StatusOpen))
	}
	if err != nil && c.move(StatusOpen) == nil {
		s.index.add(c.envelope)
	}
	return err
}

// Envelope is the letter as it was when it was claimed. It belongs to the
// claim: read it only, and change the letter through Release.
func (c *Claim) Envelope() *Envelope { return c.envelope }

// Payload opens the request body; the caller closes it. The error wraps
// [fs.ErrNotExist] when no payload was kept or it is gone.
func (c *Claim) Payload() (io.ReadCloser, error) {
	sum, ok := payloadSum(c.envelope.RawPayloadRef)
	if !ok {
		return nil, fmt.Errorf("dead letter %s has no payload in this store, so it cannot be sent again: %w", c.id, fs.ErrNotExist)
	}
	f, err := os.Open(c.store.path(payloadRef(sum)))
	if err != nil {
		return nil, fmt.Errorf("payload of dead letter %s: %w", c.id, err)
	}
	return f, nil
}

// Resolve ends the claim well. The result, when not nil, is durable under
// results before the letter moves to resolved; what was paid for is kept
// whatever the store's limit. After an error the letter is still claimed,
// unless only the last step failed: then it is resolved without the resolution's words.
func (c *Claim) Resolve(result io.Reader, r Resolution) error {
	var resolved *Envelope
	err := c.settle("resolve", func() (err error) {
		if result != nil && !c.kept {
			if err := c.keepResult(result); err != nil {
				return fmt.Errorf("keep the result: %w", err)
			}
			c.kept = true
		}
		resolved, err = c.end(StatusResolved, r)
		return err
	})
	if resolved != nil {
		c.store.observer.Resolved(resolved)
	}
	return err
}

// ResolveKept resolves a letter whose result a failed Resolve has stored, and
// spares its words: what was paid for must not be paid for again because a disk
// has no room for a sentence. It fails when there is no such result.
func (c *Claim) ResolveKept(r Resolution) error {
	e := *c.envelope
	e.Resolution = &r
	err := c.settle("resolve", func() error {
		if !c.kept {
			return fmt.Errorf("its result is not stored: %w", fs.ErrNotExist)
		}
		if err := c.move(StatusResolved); err != nil {
			return err
		}
		return c.durable(StatusResolved)
	})
	if err == nil {
		c.store.observer.Resolved(&e)
	}
	return err
}

// Discard ends the claim by giving the letter up. It stays readable in discarded.
func (c *Claim) Discard(r Resolution) error {
	return c.settle("discard", func() error {
		_, err := c.end(StatusDiscarded, r)
		return err
	})
}

// Release puts the letter back to open. The update, when not nil, may change
// anything about it but its id, for example add a replay.
func (c *Claim) Release(update func(*Envelope)) error {
	return c.settle("release", func() error {
		e := *c.envelope
		if update != nil {
			update(&e)
			e.ID, e.Schema = c.id, Schema
		}
		if err := e.check(); err != nil {
			return err
		}
		// Held until the index knows the letter: a new failure of the same request then raises it.
		unlock, err := c.store.requests.lock(context.Background(), keyOf(&e))
		if err != nil {
			return err
		}
		defer unlock()
		if update != nil {
			if err := c.rewrite(&e); err != nil {
				return err
			}
		}
		if err := c.move(StatusOpen); err != nil {
			return err
		}
		c.store.index.add(&e)
		return c.durable(StatusOpen)
	})
}

func (c *Claim) settle(verb string, do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled {
		return fmt.Errorf("%s dead letter %s: %w", verb, c.id, ErrSettled)
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s dead letter %s: %w", verb, c.id, err)
	}
	return nil
}

// end moves the letter to its last folder. The words of the resolution are
// prepared before and put into place after the move: the letter is never in
// two folders, and an interruption cannot bring it back to open. The result is
// the letter as it ended, nil as long as it has not.
func (c *Claim) end(status string, r Resolution) (*Envelope, error) {
	if r.At.IsZero() {
		r.At = time.Now()
	}
	e := *c.envelope
	e.Resolution = &r
	data, err := e.encode()
	if err != nil {
		return nil, err
	}
	final, err := c.store.stageEnvelope(data, c.size, false)
	if err != nil {
		return nil, err
	}
	defer final.discard()
	if err := c.store.harden(final); err != nil { // While the letter is still claimed.
		return nil, err
	}
	if err := c.move(status); err != nil {
		return nil, err
	}
	if err := c.store.place(final, c.store.path(status, fileName(c.id))); err != nil {
		return &e, err
	}
	return &e, c.durable(status)
}

// rewrite replaces the file in claimed.
func (c *Claim) rewrite(e *Envelope) error {
	data, err := e.encode()
	if err != nil {
		return err
	}
	f, err := c.store.stageEnvelope(data, c.size, false)
	if err != nil {
		return err
	}
	defer f.discard()
	if err := c.store.place(f, c.store.path(StatusClaimed, fileName(c.id))); err != nil {
		return err
	}
	c.size = f.size
	return nil
}

// move is the step after which the claim is over.
func (c *Claim) move(status string) error {
	name := fileName(c.id)
	if err := c.store.rename(c.store.path(StatusClaimed, name), c.store.path(status, name)); err != nil {
		return err
	}
	c.settled = true
	return nil
}

// durable syncs the new folder before the old one, so that no moment exists at
// which a crash loses the letter from both.
func (c *Claim) durable(status string) error {
	if err := c.store.folders.commit(c.store.path(status)); err != nil {
		return err
	}
	return c.store.folders.commit(c.store.path(StatusClaimed))
}

func (c *Claim) keepResult(result io.Reader) error {
	f, err := c.store.stageResult(result)
	if err != nil {
		return err
	}
	defer f.discard()
	to := c.store.path(resultsFolder, c.id)
	before, missing := os.Lstat(to)
	if err := c.store.place(f, to); err != nil {
		return err
	}
	if missing == nil {
		c.store.usage.grow(-before.Size())
	}
	return c.store.folders.commit(c.store.path(resultsFolder))
}
