package dlq

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// The folders in which a letter may lie. The folder's name is the letter's status.
const (
	StatusOpen      = "open"      // Waiting for somebody.
	StatusClaimed   = "claimed"   // Being replayed.
	StatusResolved  = "resolved"  // Done after all.
	StatusDiscarded = "discarded" // Given up.
)

const (
	quarantineFolder = "quarantine"
	payloadsFolder   = "payloads"
	resultsFolder    = "results"
	jobsFolder       = "jobs"
	indexFolder      = "index"
	tmpFolder        = "tmp"
	lockName         = "lock"
	letterSuffix     = ".json"

	folderMode fs.FileMode = 0o700
	fileMode   fs.FileMode = 0o600
)

var payloadRefPattern = regexp.MustCompile(`^payloads/([0-9a-f]{2})/([0-9a-f]{64})$`)

// statuses lists every folder of letters in the order in which a letter
// usually passes through them, so that a search does not miss one that moves on.
func statuses() []string {
	return []string{StatusOpen, StatusClaimed, StatusResolved, StatusDiscarded}
}

// measured lists the folders whose files count towards the store's size.
func measured() []string {
	return append(statuses(), quarantineFolder, payloadsFolder, resultsFolder, jobsFolder)
}

func layout() []string { return append(measured(), jobsFolder+"/"+jobPayloads, indexFolder, tmpFolder) }

// makeLayout creates what is missing of the store. Modes are set once more by
// chmod because the umask has its say in mkdir. It tells whether a folder was missing.
func makeLayout(dir string) (created bool, err error) {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return false, err
	}
	// A mounted volume often belongs to another user: its mode is then its
	// owner's business, while every folder inside is ours.
	if err := fixMode(dir); err != nil && !errors.Is(err, fs.ErrPermission) {
		return false, err
	}
	for _, name := range layout() {
		made, err := makeFolder(filepath.Join(dir, name))
		if err != nil {
			return created, err
		}
		created = created || made
	}
	if !created {
		return false, nil
	}
	if err := syncFolder(dir); err != nil {
		return created, err
	}
	return created, syncFolder(filepath.Dir(dir))
}

func makeFolder(path string) (created bool, err error) {
	err = os.Mkdir(path, folderMode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	return err == nil, fixMode(path)
}

func fixMode(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return &fs.PathError{Op: "use as a folder", Path: path, Err: syscall.ENOTDIR}
	case info.Mode().Perm() == folderMode:
		return nil
	}
	return os.Chmod(path, folderMode)
}

// folderMissing tells whether an operation failed because something on its path is not there.
func folderMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// payloadRef is the place of a payload relative to the store.
func payloadRef(sum string) string { return payloadsFolder + "/" + sum[:2] + "/" + sum }

// payloadSum is the hash that a reference names; ok is false for anything but
// the exact form of [payloadRef], so a reference never leads out of the store.
func payloadSum(ref string) (sum string, ok bool) {
	m := payloadRefPattern.FindStringSubmatch(ref)
	if m == nil || m[2][:2] != m[1] {
		return "", false
	}
	return m[2], true
}

// setAside decides what becomes of a file that is no letter and no record. What
// was read whole moves to quarantine; to is its new path there. What the disk
// does not give now stays, and the reason comes back. What has moved on since
// it was listed is left to whoever moved it.
func setAside(dir, folder, name string, reason error) (to string, err error) {
	switch {
	case folderMissing(reason):
		return "", nil
	case errors.Is(reason, ErrUnread):
		return "", reason
	}
	return quarantine(dir, folder, name)
}

// quarantine moves a file out of the way under a name that is still free there,
// so that nothing is ever overwritten. It returns the new path.
func quarantine(dir, status, name string) (string, error) {
	if _, err := makeFolder(filepath.Join(dir, quarantineFolder)); err != nil {
		return "", err
	}
	to := filepath.Join(dir, quarantineFolder, name)
	for n := 1; ; n++ {
		_, err := os.Lstat(to)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", err
		}
		to = filepath.Join(dir, quarantineFolder, name+"."+strconv.Itoa(n))
	}
	if err := os.Rename(filepath.Join(dir, status, name), to); err != nil {
		return "", fmt.Errorf("move an unreadable dead letter to %s: %w", quarantineFolder, err)
	}
	return to, nil
}
