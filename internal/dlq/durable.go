package dlq

import (
	"errors"
	"math"
)

// harden makes the content of files durable. Those that are, and nil, cost nothing.
func (s *Store) harden(files ...*staged) error {
	soft := make([]*staged, 0, len(files))
	since := int64(math.MaxInt64)
	for _, f := range files {
		if f != nil && f.file != nil {
			soft = append(soft, f)
			since = min(since, f.faults)
		}
	}
	if len(soft) == 0 {
		return nil
	}
	err := s.durable(since, func() error {
		s.syncing <- struct{}{}
		defer func() { <-s.syncing }()
		for _, f := range soft {
			if err := f.file.Sync(); err != nil {
				return err
			}
		}
		return nil
	})
	for _, f := range soft {
		err = errors.Join(err, f.file.Close())
		f.file = nil
	}
	return err
}

// settle makes the name that a file was given in the folder durable.
func (s *Store) settle(f *staged, folder string) error {
	return s.durable(f.faults, func() error { return s.folders.commit(folder) })
}

// durable returns when what a writer has done is durable. In a crowd one sync
// of the volume serves all of them; else, and whenever that does not tell that
// all is well, each makes sure of its own, so that everybody hears of the
// errors that concern it. A fault of the volume since the writer began counts,
// too: it may have been about this writer and was told to others.
func (s *Store) durable(since int64, own func() error) error {
	if len(s.writers) >= crowd && s.volume.sync() == nil && s.volume.faults.Load() == since {
		return nil
	}
	return own()
}

// syncFolder makes the names in a folder durable when one of the threads that may be in a sync is free.
func (s *Store) syncFolder(path string) error {
	s.syncing <- struct{}{}
	defer func() { <-s.syncing }()
	return syncFolder(path)
}
