package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// spillFile is a temporary file that goes away with its last descriptor, or with
// discard where the system does not let an open file be removed.
type spillFile struct {
	*os.File
	named  bool  // it still has a name
	length int64 // in bytes; may be more than its body's, where it was used before
}

// createSpillFile makes a file that only this user can read. It makes the folder
// again when something has cleaned it away: it looks empty all the time.
func createSpillFile(dir string) (*spillFile, error) {
	const pattern = "ocr-proxy-body-*"
	f, err := os.CreateTemp(dir, pattern)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create folder: %w", err)
		}
		f, err = os.CreateTemp(dir, pattern)
	}
	if err != nil {
		return nil, fmt.Errorf("create file: %w", err)
	}
	return &spillFile{File: f, named: os.Remove(f.Name()) != nil}, nil
}

// discard closes the file and removes its name if it still has one.
func (f *spillFile) discard() error {
	err := f.Close()
	if f.named {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// readsBack reports whether reopen works here and gives the file's content from
// its first byte.
func readsBack(f *os.File, content string) bool {
	again, err := reopen(f)
	if err != nil {
		return false
	}
	got, err := io.ReadAll(again)
	return errors.Join(err, again.Close()) == nil && string(got) == content
}
