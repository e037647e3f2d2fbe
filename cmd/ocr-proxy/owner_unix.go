//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// checkOwner refuses to let root write among another user's letters: the proxy could not read them any more.
func checkOwner(folder string) error {
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 && stat.Uid != 0 {
		return fmt.Errorf("the dead letters in %s belong to user %d: run this as that user, so that its proxy can read what is written", folder, stat.Uid)
	}
	return nil
}
