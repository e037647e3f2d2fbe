package dlq

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

const (
	saltName  = "salt" // In the folder of jobs.
	saltBytes = 32
)

// salt is what [Store.Mark] mixes in. It is read, or made, when it is first needed.
type salt struct {
	mu    sync.Mutex // Held while the file is read or written, once: whoever waits needs the same salt.
	bytes []byte     // Nil before.
}

// Mark hashes secrets so that they can be compared later, in another process
// too, but not read: with a salt that lies in the store. The error is what the disk said.
func (s *Store) Mark(parts ...string) (string, error) {
	key, err := s.saltOnce()
	if err != nil {
		return "", fmt.Errorf("salt of the journal of jobs: %w", err)
	}
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (s *Store) saltOnce() ([]byte, error) {
	s.salt.mu.Lock()
	defer s.salt.mu.Unlock()
	if s.salt.bytes == nil {
		key, err := s.readSalt()
		if err != nil {
			return nil, err
		}
		s.salt.bytes = key
	}
	return s.salt.bytes, nil
}

// readSalt reads the salt or makes one. A damaged one is replaced: what it
// marked is then nobody's, which costs a second job at most.
func (s *Store) readSalt() ([]byte, error) {
	path := s.path(jobsFolder, saltName)
	text, err := os.ReadFile(path) //nolint:gosec // A file of the store.
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if key, err := hex.DecodeString(strings.TrimSpace(string(text))); err == nil && len(key) == saltBytes {
		return key, nil
	}
	key := make([]byte, saltBytes)
	_, _ = rand.Read(key) // It never fails.
	file, err := s.stageEnvelope([]byte(hex.EncodeToString(key)+"\n"), int64(len(text)), false)
	if err != nil {
		return nil, err
	}
	defer file.discard()
	if err := s.place(file, path); err != nil {
		return nil, err
	}
	return key, s.folders.commit(s.path(jobsFolder))
}
