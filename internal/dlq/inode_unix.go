//go:build unix

package dlq

import (
	"io/fs"
	"syscall"
)

// fileNumber is the file system's own name for a file: no two files have the same at a time.
func fileNumber(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Ino)
	}
	return 0
}
