//go:build unix

package dlq

import (
	"errors"
	"os"
)

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	f, err := os.Open(path) //nolint:gosec // A folder of the store.
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
