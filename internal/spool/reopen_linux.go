package spool

import (
	"os"
	"strconv"
)

// reopen returns a second descriptor of f with an offset of its own, open for
// reading. A plain file is what net sends with sendfile, and no other descriptor of
// a file without a name has its own offset.
func reopen(f *os.File) (*os.File, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var again *os.File
	var openErr error
	err = conn.Control(func(fd uintptr) {
		again, openErr = os.Open("/proc/self/fd/" + strconv.FormatUint(uint64(fd), 10))
	})
	if err != nil {
		return nil, err
	}
	return again, openErr
}
