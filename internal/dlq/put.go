package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
)

// Put keeps a dead letter and, when body is not nil and payloads are kept, the
// request body. The letter is durable when Put returns without an error.
//
// When an open letter is about the same request (equal provider, fingerprint,
// document id, idempotency key and tenant; never with an empty fingerprint), that
// letter is raised instead: one more occurrence, the attempts and errors of e
// (if e has no attempts, those that are known stay), its own first attempt,
// request and payload. The body is then not read unless the payload is missing. In both cases *e is afterwards the letter as it is
// stored and the returned id is its name.
//
// The error is [ErrFull] when the store has no room, [fs.ErrClosed] after
// Close, the context's cause when it ended first, or what the disk said;
// nothing is then kept of e and an older letter is left as it was.
func (s *Store) Put(ctx context.Context, e *Envelope, body io.Reader) (id string, err error) {
	written, err := s.put(ctx, e, body)
	switch {
	case errors.Is(err, ErrFull):
		s.metrics.dropped.WithLabelValues(droppedFull).Inc()
		return "", ErrFull
	case err != nil:
		s.metrics.writeErrors.Inc()
		return "", fmt.Errorf("write dead letter: %w", err)
	case written:
		s.metrics.countWritten(e)
		s.observer.Created(e)
	}
	return e.ID, nil
}

// put tells whether it wrote a new letter.
func (s *Store) put(ctx context.Context, e *Envelope, body io.Reader) (written bool, err error) {
	if err := s.prepare(e); err != nil {
		return false, err
	}
	key := keyOf(e)
	if err := s.index.await(ctx, key); err != nil {
		return false, err
	}
	unlock, err := s.requests.lock(ctx, key)
	if err != nil {
		return false, err
	}
	defer unlock()
	done, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer done()

	for _, id := range s.index.find(key) {
		if old, size, ok := s.openLetter(id.String()); ok && keyOf(old) == key {
			return false, s.raise(ctx, old, size, e, body)
		}
	}
	return true, s.write(ctx, e, body)
}

// begin takes one of the places for writers; the caller gives it back with done.
func (s *Store) begin(ctx context.Context) (done func(), err error) {
	select {
	case s.writers <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	leave := s.pruning.enter()
	done = func() { leave(); <-s.writers }
	if s.closed {
		done()
		return nil, fs.ErrClosed
	}
	return done, nil
}

// prepare fills in what the store decides.
func (s *Store) prepare(e *Envelope) error {
	e.Schema = Schema
	if e.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		e.ID = id.String()
	} else if validID(e.ID) && s.exists(fileName(e.ID), statuses()...) {
		return fmt.Errorf("id %s: %w", e.ID, fs.ErrExist)
	}
	if e.FailedAt.IsZero() {
		e.FailedAt = time.Now()
	}
	if e.FirstAttemptAt.IsZero() {
		e.FirstAttemptAt = e.FailedAt
	}
	e.RawPayloadRef = ""
	return e.check()
}

// openLetter reads the open letter that is to be raised. One that is gone or
// unreadable makes way for a new one; one that cannot be read now gets a second
// one beside it.
func (s *Store) openLetter(id string) (e *Envelope, size int64, ok bool) {
	e, size, err := readEnvelope(s.path(StatusOpen, fileName(id)))
	if err == nil {
		s.pruning.noteLetter(e)
		return e, size, true
	}
	if !errors.Is(err, ErrUnread) {
		s.index.remove(id)
	}
	s.setAside(StatusOpen, fileName(id), err)
	return nil, 0, false
}

// write makes a new letter. Everything that needs room on the disk happens in
// tmp first, so that a full disk leaves neither a payload without its letter
// nor half of one; then the payload takes its place before the letter does.
func (s *Store) write(ctx context.Context, e *Envelope, body io.Reader) error {
	payload, err := s.takeBody(ctx, e, body)
	if err != nil {
		return err
	}
	defer payload.discard()
	data, err := e.encode()
	if err != nil {
		return err
	}
	letter, err := s.stageEnvelope(data, 0, true)
	if err != nil {
		return err
	}
	defer letter.discard()
	if err := s.harden(payload, letter); err != nil {
		return err
	}
	if payload != nil {
		if err := s.placePayload(ctx, payload); err != nil {
			return err
		}
	}
	to := s.path(StatusOpen, fileName(e.ID))
	if err := s.place(letter, to); err != nil {
		return err
	}
	if err := s.settle(letter, s.path(StatusOpen)); err != nil {
		if os.Remove(to) == nil { // The caller is told that there is no letter, so there is none.
			s.usage.grow(-letter.size)
		}
		return err
	}
	s.index.add(e)
	return nil
}

// takeBody reads the body and describes it in the envelope. The result is nil
// when no payload is to be kept.
func (s *Store) takeBody(ctx context.Context, e *Envelope, body io.Reader) (*staged, error) {
	if body == nil {
		return nil, nil
	}
	read := s.hashOnly
	if s.keepPayloads.Load() {
		read = s.stagePayload
	}
	f, err := read(ctx, body)
	if err != nil {
		return nil, err
	}
	e.Request.BodyBytes, e.Request.BodySHA256 = f.size, f.hexSum()
	if !s.keepPayloads.Load() {
		return nil, nil
	}
	e.RawPayloadRef = payloadRef(f.hexSum())
	return f, nil
}

// raise records in an open letter that its request failed again. The caller
// holds the request's lock, so nobody claims the letter meanwhile.
func (s *Store) raise(ctx context.Context, old *Envelope, size int64, e *Envelope, body io.Reader) error {
	old.repeat(e)
	var payload *staged
	if body != nil && s.keepPayloads.Load() && !s.hasPayload(old) {
		var err error
		if payload, err = s.takeBody(ctx, e, body); err != nil {
			return err
		}
		defer payload.discard()
		old.Request, old.RawPayloadRef = e.Request, e.RawPayloadRef
	}
	data, err := old.encode()
	if err != nil {
		return err
	}
	letter, err := s.stageEnvelope(data, size, true)
	if err != nil {
		return err
	}
	defer letter.discard()
	if err := s.harden(payload, letter); err != nil {
		return err
	}
	if payload != nil {
		if err := s.placePayload(ctx, payload); err != nil {
			return err
		}
	}
	if err := s.place(letter, s.path(StatusOpen, fileName(old.ID))); err != nil {
		return err
	}
	if err := s.settle(letter, s.path(StatusOpen)); err != nil {
		return err
	}
	s.index.add(old)
	*e = *old
	s.log.Debug("dead letter raised", zap.String("id", old.ID), zap.Int("occurrences", old.Occurrences))
	return nil
}

func (s *Store) hasPayload(e *Envelope) bool {
	sum, ok := payloadSum(e.RawPayloadRef)
	if !ok {
		return false
	}
	_, err := os.Lstat(s.path(payloadRef(sum)))
	return err == nil
}
