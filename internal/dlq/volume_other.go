//go:build !linux

package dlq

import (
	"io/fs"
	"os"
)

// openVolume knows no file system here that can be synced as a whole.
func openVolume(string) *os.File { return nil }

func syncVolume(*os.File) error { return errNoVolume }

func sameVolume(_, _ fs.FileInfo) bool { return false }

func unwrittenBytes() (int64, bool) { return 0, false }
