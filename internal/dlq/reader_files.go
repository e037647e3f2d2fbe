package dlq

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Payload opens the letter's request body; the caller closes it. The error
// wraps [fs.ErrNotExist] when none was kept or it is gone.
func (r *Reader) Payload(e *Envelope) (io.ReadCloser, error) {
	path, _, err := r.PayloadPath(e)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, fmt.Errorf("dead letter %s has no payload: it was not kept (dead_letters.payloads), or had to be left out: %w", e.ID, fs.ErrNotExist)
	}
	return os.Open(path) //nolint:gosec // Built of the folder and a hash.
}

// Result opens what a replay of a letter brought back: an HTTP/1.1 answer as on
// the wire. The caller closes it. The error wraps [ErrInvalidID] or [fs.ErrNotExist].
func (r *Reader) Result(id string) (io.ReadCloser, error) {
	if !validID(id) {
		return nil, fmt.Errorf("%q is %w", id, ErrInvalidID)
	}
	f, err := os.Open(filepath.Join(r.dir, resultsFolder, id)) //nolint:gosec // A checked id.
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dead letter %s has no result, since no replay of it succeeded: %w", id, fs.ErrNotExist)
	}
	return f, err
}
