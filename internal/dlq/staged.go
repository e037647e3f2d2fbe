package dlq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// ErrFull says that a letter would have made the store larger than its limit.
var ErrFull = errors.New("the dead-letter store is full: raise dead_letters.max_bytes, or remove resolved and discarded letters with `ocr-proxy dlq prune`")

// staged is a file in tmp whose place is not taken yet. Its content becomes
// durable by harden, at the latest when it is placed.
type staged struct {
	store    *Store
	path     string
	file     *os.File // Nil once its content is durable.
	faults   int64    // Of the volume, before the first byte was written.
	size     int64
	sum      [sha256.Size]byte // Only of payloads.
	reserved int64             // Bytes promised to it by usage.
}

// discard removes the file unless it was moved into place. It may be called on nil and repeatedly.
func (f *staged) discard() {
	if f == nil || f.path == "" {
		return
	}
	if f.file != nil {
		_ = f.file.Close() // Nobody will read it.
		f.file = nil
	}
	_ = os.Remove(f.path) // It is in tmp: never listed, and the next Open removes it.
	f.store.usage.release(f.reserved)
	f.path, f.reserved = "", 0
}

// placed records that the file is where it belongs.
func (f *staged) placed() {
	f.store.usage.commit(f.reserved)
	f.path, f.reserved = "", 0
}

// createTmp opens a new file in tmp. It is the first step of every write, so a
// store that was removed is noticed, and made again, before a body is read.
func (s *Store) createTmp() (*os.File, error) {
	f, err := os.CreateTemp(s.path(tmpFolder), "put-*")
	if folderMissing(err) {
		if err := s.repair(); err != nil {
			return nil, err
		}
		f, err = os.CreateTemp(s.path(tmpFolder), "put-*")
	}
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(fileMode); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, nil
}

// stage makes a file of what write writes. After an error nothing is left of it.
func (s *Store) stage(write func(f *os.File, into *staged) error) (*staged, error) {
	faults := s.volume.faults.Load()
	f, err := s.createTmp()
	if err != nil {
		return nil, err
	}
	into := &staged{store: s, path: f.Name(), file: f, faults: faults}
	if err := write(f, into); err != nil {
		into.discard()
		return nil, err
	}
	return into, nil
}

// stageEnvelope writes an envelope that takes the place of one of replaced
// bytes. Only a limited one may be refused for its size.
func (s *Store) stageEnvelope(data []byte, replaced int64, limited bool) (*staged, error) {
	return s.stage(func(f *os.File, into *staged) error {
		growth := int64(len(data)) - replaced
		if !limited {
			s.usage.promise(growth)
		} else if !s.usage.reserve(growth) {
			return ErrFull
		}
		into.reserved, into.size = growth, int64(len(data))
		_, err := f.Write(data)
		return err
	})
}

// stagePayload writes the body and hashes it on the way.
func (s *Store) stagePayload(ctx context.Context, body io.Reader) (*staged, error) {
	return s.stage(func(f *os.File, into *staged) error {
		return s.copyHashed(ctx, into, body, func(p []byte) error {
			if !s.usage.reserve(int64(len(p))) {
				return ErrFull
			}
			into.reserved += int64(len(p))
			_, err := f.Write(p)
			return err
		})
	})
}

// hashOnly reads the body for its hash and length alone.
func (s *Store) hashOnly(ctx context.Context, body io.Reader) (*staged, error) {
	read := &staged{store: s}
	return read, s.copyHashed(ctx, read, body, func([]byte) error { return nil })
}

// stageResult writes what a replay brought back. It was paid for, so no limit keeps it out.
func (s *Store) stageResult(result io.Reader) (*staged, error) {
	return s.stage(func(f *os.File, into *staged) error {
		return s.copyHashed(context.Background(), into, result, func(p []byte) error {
			s.usage.promise(int64(len(p)))
			into.reserved += int64(len(p))
			_, err := f.Write(p)
			return err
		})
	})
}

// TryResult tells, by doing it, whether a result of that many bytes could be kept now. Nothing is left of it.
func (s *Store) TryResult(size int64) error {
	done, err := s.begin(context.Background())
	if err != nil {
		return err
	}
	defer done()
	f, err := s.stageResult(io.LimitReader(zeros{}, size))
	if err != nil {
		return err
	}
	defer f.discard()
	to := s.path(resultsFolder, filepath.Base(f.path))
	if err := s.rename(f.path, to); err != nil {
		return err
	}
	return os.Rename(to, f.path) // From where it is removed.
}

// zeros is an endless source.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// copyHashed hands the source on piece by piece and records its size and hash.
func (s *Store) copyHashed(ctx context.Context, into *staged, from io.Reader, each func([]byte) error) error {
	buffer, _ := s.buffers.Get().(*[copyBufferBytes]byte)
	defer s.buffers.Put(buffer)
	hash := sha256.New()
	for {
		n, err := from.Read(buffer[:])
		if n > 0 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			hash.Write(buffer[:n])
			into.size += int64(n)
			if err := each(buffer[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the body: %w", err)
		}
	}
	hash.Sum(into.sum[:0])
	return nil
}

func (f *staged) hexSum() string { return hex.EncodeToString(f.sum[:]) }

// place moves a staged file to its name, once its content is durable. The caller settles the folder.
func (s *Store) place(f *staged, to string) error {
	if err := s.harden(f); err != nil {
		return err
	}
	if err := s.rename(f.path, to); err != nil {
		return err
	}
	f.placed()
	return nil
}

// rename moves a file within the store and makes the folders again once when they are gone.
func (s *Store) rename(from, to string) error {
	err := os.Rename(from, to)
	if !folderMissing(err) {
		return err
	}
	if _, lost := os.Lstat(from); lost != nil {
		return err // It is the file that is missing, not its new folder.
	}
	if err := s.repair(); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// placePayload gives a payload its place, or drops it when its content is
// there already. The payload is durable when it returns.
func (s *Store) placePayload(ctx context.Context, f *staged) error {
	to := s.path(filepath.FromSlash(payloadRef(f.hexSum())))
	placed, err := s.placeContent(ctx, f, to)
	switch {
	case err != nil:
		return err
	case placed:
		return s.settle(f, filepath.Dir(to))
	default: // The writer of the one that was there may not have come this far.
		return s.folders.commit(filepath.Dir(to))
	}
}

// placeContent tells whether the content was not there yet.
func (s *Store) placeContent(ctx context.Context, f *staged, to string) (placed bool, err error) {
	unlock, err := s.contents.lock(ctx, f.sum)
	if err != nil {
		return false, err
	}
	defer unlock()
	s.pruning.note(f.sum) // Before the look at what is there.
	shard := filepath.Dir(to)
	if err := s.makeShard(shard); err != nil {
		return false, err
	}
	info, err := os.Lstat(to)
	if err == nil && info.Mode().IsRegular() && info.Size() == f.size {
		f.discard()
		return false, nil
	}
	broken := err == nil
	err = s.place(f, to)
	if folderMissing(err) {
		s.shards.Delete(shard)
		if err := s.makeShard(shard); err != nil {
			return false, err
		}
		err = s.place(f, to)
	}
	if err == nil && broken {
		s.usage.grow(-info.Size())
	}
	return err == nil, err
}

// makeShard makes one of the folders that payloads are spread over and its name durable.
func (s *Store) makeShard(path string) error {
	if _, done := s.shards.Load(path); done {
		return nil
	}
	_, err := makeFolder(path)
	if folderMissing(err) {
		if err := s.repair(); err != nil {
			return err
		}
		_, err = makeFolder(path)
	}
	if err != nil {
		return err
	}
	if err := s.folders.commit(filepath.Dir(path)); err != nil {
		return err
	}
	s.shards.Store(path, struct{}{})
	return nil
}
