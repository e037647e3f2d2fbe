package spool

import (
	"errors"
	"fmt"
	"io/fs"
)

var (
	// ErrReleased is what a body answers after Release, and what readers see that
	// followed a writer which was cut off by it.
	ErrReleased = errors.New("body has been released")
	// ErrFinished is returned to a writer that goes on after the end of its body.
	ErrFinished = errors.New("body is finished")
	// ErrUnfinished is returned when something needs the whole body too early.
	ErrUnfinished = errors.New("body is not finished")

	errNegativeOffset = errors.New("read before the first byte of a body")
	// ErrLonger is returned when more bytes arrive than the declared size.
	ErrLonger = errors.New("body is longer than its declared size")

	errSecondWriter = errors.New("body has another writer")
	errReaderClosed = fmt.Errorf("read body: %w", fs.ErrClosed)
)

// TooLargeError says that a body is larger than its limit.
type TooLargeError struct {
	Limit int64 // the limit in bytes
	Size  int64 // the declared size in bytes, or -1 when it was not known
}

// Error names the limit, and the size where it is known.
func (e *TooLargeError) Error() string {
	if e.Size < 0 {
		return fmt.Sprintf("body is larger than the limit of %d bytes", e.Limit)
	}
	return fmt.Sprintf("body of %d bytes is larger than the limit of %d bytes", e.Size, e.Limit)
}

// WriteError says that a body could not be kept because of trouble with the spool's
// own file, such as a full disk. No error of the body's source has this type, unless
// the source is itself a reader of such a body.
type WriteError struct {
	Dir string // the folder of the files
	Err error  // what the operating system said
}

// Error names the folder and the cause.
func (e *WriteError) Error() string {
	return fmt.Sprintf("cannot keep a body in %s, check its free space and permissions: %v", e.Dir, e.Err)
}

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }
