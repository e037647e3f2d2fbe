//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package dlq

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the lock without waiting. The kernel gives it back when the
// process ends, however it ends.
func lockFile(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrInUse
		default:
			return err
		}
	}
}
