package dlq

import (
	"errors"
	"os"
	"time"

	"go.uber.org/zap"
)

// settleInterrupted ends a claim that outlived its process. What it had brought
// back lies durable under results before a letter is resolved: with it the
// letter is resolved now and never sent again. Without it the call may have been
// made and paid for; the letter is open again and says so.
func (s *Store) settleInterrupted(name string) error {
	from := s.path(StatusClaimed, name)
	e, _, err := readEnvelope(from)
	if err != nil {
		s.setAside(StatusClaimed, name, err) // One that cannot be read now waits for the next start.
		return nil
	}
	now, to := time.Now(), StatusOpen
	if s.hasNewResult(e) {
		to = StatusResolved
		s.settled = append(s.settled, e)
		e.Resolution = &Resolution{By: resolvedByReplay, At: now, Note: "the proxy ended after it had stored the result"}
		s.log.Info("dead letter was claimed by a process that ended after its result was stored; it is resolved", zap.String("file", name))
	} else {
		e.Interrupted(now, ReplayInterrupted)
		s.log.Warn("dead letter was claimed by a process that ended; it is open again, and the call may have been made", zap.String("file", name))
	}
	if err := s.rewriteClaimed(e); err != nil {
		// A full disk must keep no proxy from starting. The move says the most important of one that is resolved; one that is open and
		// does not say that its call may have been made would be sent as if it had not.
		s.log.Error("what became of a dead letter cannot be written into it", zap.String("file", name), zap.Bool("stays_claimed", to == StatusOpen), zap.Error(err))
		if to == StatusOpen {
			return nil
		}
	}
	return os.Rename(from, s.path(to, name))
}

// hasNewResult tells whether a claimed letter's replay had brought something back. A letter that people opened again has the result of the time
// before, which was stored before its resolution was made.
func (s *Store) hasNewResult(e *Envelope) bool {
	info, err := os.Lstat(s.path(resultsFolder, e.ID))
	return err == nil && (e.Resolution == nil || info.ModTime().After(e.Resolution.At))
}

// Announce tells the observer of the letters that Open has resolved, because
// their result was there, once. An observer may be ready only after Open.
func (s *Store) Announce() {
	for _, e := range s.settled {
		s.observer.Resolved(e)
	}
	s.settled = nil
}

// resolvedByReplay is who resolved a letter whose replay brought a result.
const resolvedByReplay = "replay"

// rewriteClaimed replaces a claimed letter's file before the store is in use.
func (s *Store) rewriteClaimed(e *Envelope) error {
	data, err := e.encode()
	if err != nil {
		return err
	}
	f, err := s.createTmp()
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // It has moved, or is of no use.
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.path(StatusClaimed, fileName(e.ID)))
}
