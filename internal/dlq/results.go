package dlq

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Result opens what a replay of a letter brought back: an HTTP/1.1 answer as on
// the wire. The caller closes it. The error wraps [ErrInvalidID] or [fs.ErrNotExist].
func (r *Reader) Result(id string) (io.ReadCloser, error) {
	if !validID(id) {
		return nil, fmt.Errorf("%q is %w", id, ErrInvalidID)
	}
	f, err := os.Open(filepath.Join(r.dir, resultsFolder, id)) //nolint:gosec // The id was checked.
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dead letter %s has no result, since no replay of it succeeded: %w", id, fs.ErrNotExist)
	}
	return f, err
}
