package dlq

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrInUse says that another process owns the store.
var ErrInUse = errors.New("in use by another process")

// takeLock makes this process the only one that writes to the store.
func takeLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, fileMode) //nolint:gosec // the operator names the folder
	if err != nil {
		return nil, err
	}
	if err = f.Chmod(fileMode); err == nil {
		err = lockFile(f)
	}
	if err == nil {
		return f, nil
	}
	_ = f.Close() // Nothing was written, and the first error says more.
	if errors.Is(err, ErrInUse) {
		return nil, fmt.Errorf("dead-letter folder %s is %w: stop that one or choose another dead_letters.dir", dir, ErrInUse)
	}
	return nil, fmt.Errorf("lock dead-letter folder %s: %w", dir, err)
}

// renewLock takes the lock once more when the folder was made anew: a lock on a
// file that nobody can open any longer keeps nobody out.
func renewLock(dir string, held *os.File) (*os.File, error) {
	before, err := held.Stat()
	if err != nil {
		return held, err
	}
	if now, err := os.Stat(filepath.Join(dir, lockName)); err == nil && os.SameFile(before, now) {
		return held, nil
	}
	f, err := takeLock(dir)
	if err != nil {
		return held, err
	}
	return f, held.Close()
}
