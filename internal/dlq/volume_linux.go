package dlq

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// openVolume opens the folder when its file system can be relied on to be
// synced as a whole, else the result is nil. That is so for the file systems
// of disks: behind others (network, FUSE, overlays) syncfs may leave out what
// fsync does, or be silent about errors. Kernels before 5.17 are silent too.
func openVolume(dir string) *os.File {
	var u unix.Utsname
	var in unix.Statfs_t
	if unix.Uname(&u) != nil || !tellsErrors(unix.ByteSliceToString(u.Release[:])) || unix.Statfs(dir, &in) != nil {
		return nil
	}
	switch in.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC:
	default:
		return nil
	}
	f, err := os.Open(dir) //nolint:gosec // A folder of the store.
	if err != nil {
		return nil
	}
	return f
}

// tellsErrors reports whether a kernel of that release passes on all errors of syncfs: those of files since 5.8, those of the file system itself since 5.17.
func tellsErrors(release string) bool {
	first, rest, _ := strings.Cut(release, ".")
	second := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	major, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	minor, err := strconv.Atoi(second)
	return err == nil && (major > 5 || major == 5 && minor >= 17)
}

// syncVolume makes everything on the file system of f durable.
func syncVolume(f *os.File) error {
	for {
		err := unix.Syncfs(int(f.Fd()))
		if err != unix.EINTR {
			return os.NewSyscallError("syncfs", err)
		}
	}
}

// unwrittenBytes is how much the whole machine has still to write to its disks.
func unwrittenBytes() (sum int64, ok bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // Dirty: 12345 kB
		if len(f) == 3 && (f[0] == "Dirty:" || f[0] == "Writeback:") {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0, false
			}
			sum += n << 10
			found++
		}
	}
	return sum, found == 2
}

func sameVolume(a, b fs.FileInfo) bool {
	x, ok := a.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	y, ok := b.Sys().(*syscall.Stat_t)
	return ok && x.Dev == y.Dev
}
