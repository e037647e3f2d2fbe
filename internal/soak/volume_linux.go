package main

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// inside tells the program that it runs in mount points of its own.
const inside = "OCR_PROXY_SOAK_INSIDE"

// apart starts this program again with mount points of its own, in which it may mount a disk that nobody else sees, and waits for its end. It
// tells false where that cannot be had or has been done.
func apart(ctx context.Context) (bool, error) {
	if os.Getenv(inside) != "" {
		return false, nil
	}
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		return false, nil //nolint:nilerr // It is not allowed here; there is another way to have a full store.
	}
	return true, cmd.Wait()
}

// mount makes the folder a disk of its own where this process may.
func mount(dir string) volume {
	if os.Getenv(inside) == "" || syscall.Mount("soak", dir, "tmpfs", 0, "size="+roomy) != nil {
		return volume{dir: dir}
	}
	return volume{dir: dir, small: func(full bool) error {
		size := roomy
		if full {
			var s syscall.Statfs_t
			if err := syscall.Statfs(dir, &s); err != nil {
				return err
			}
			size = strconv.FormatUint((s.Blocks-s.Bfree+1)*uint64(s.Bsize), 10)
		}
		err := syscall.Mount("soak", dir, "tmpfs", syscall.MS_REMOUNT, "size="+size)
		if err != nil && full {
			return errGrows
		}
		return err
	}}
}

// unmount gives the disk back.
func (v volume) unmount() {
	if v.small != nil {
		_ = syscall.Unmount(v.dir, syscall.MNT_DETACH)
	}
}

const roomy = "8g"
