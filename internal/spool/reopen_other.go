//go:build !linux

package spool

import (
	"errors"
	"os"
)

// reopen is only possible on Linux; elsewhere readers share one descriptor.
func reopen(*os.File) (*os.File, error) {
	return nil, errors.ErrUnsupported
}
