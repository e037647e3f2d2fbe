package webhook

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	folderMode fs.FileMode = 0o700
	fileMode   fs.FileMode = 0o600

	segmentSuffix = ".log"
)

// segment is one file of a queue.
type segment struct {
	first uint64 // The number of its first line, and its name.
	size  int64  // Up to the end of its last line, in bytes.
}

func (s segment) path(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", s.first, segmentSuffix))
}

// create makes the file, and the folder if it has gone.
func (s segment) create(dir string) (*os.File, error) {
	make := func() (*os.File, error) {
		return os.OpenFile(s.path(dir), os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	}
	f, err := make()
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(dir, folderMode) == nil {
		return make()
	}
	return f, err
}

func (s segment) remove(dir string) error {
	if err := os.Remove(s.path(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// recoverSegments lists the segments that a former process left, oldest first, and tells the number of the last event in them. Files at the
// end in which no line was finished are removed: whoever wrote them was never told that they were.
func recoverSegments(dir string) (all []segment, last uint64, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, err
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), segmentSuffix)
		first, err := strconv.ParseUint(name, 10, 64)
		if !ok || err != nil || first == 0 {
			continue
		}
		info, err := f.Info()
		if err != nil {
			return nil, 0, err
		}
		all = append(all, segment{first: first, size: info.Size()})
	}
	slices.SortFunc(all, func(a, b segment) int { return cmp.Compare(a.first, b.first) })
	for len(all) > 0 {
		s := all[len(all)-1]
		last, err := s.last(dir)
		if err != nil {
			return nil, 0, err
		}
		if last >= s.first {
			return all, last, nil
		}
		if err := s.remove(dir); err != nil {
			return nil, 0, err
		}
		all = all[:len(all)-1]
	}
	return nil, 0, nil
}

func (s segment) last(dir string) (uint64, error) {
	f, err := os.Open(s.path(dir))
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	return scan(f, s.first-1)
}

// tail reads the lines of a segment, up to what is known to be whole.
type tail struct {
	file      *os.File
	committed func() int64
	offset    int64 // What the file gave so far, in bytes.
	short     bool  // The file ends before that.
	lines     *bufio.Reader
}

func openTail(dir string, first uint64, committed func() int64) (*tail, error) {
	f, err := os.Open(segment{first: first}.path(dir))
	if err != nil {
		return nil, err
	}
	t := &tail{file: f, committed: committed}
	t.lines = bufio.NewReader(t)
	return t, nil
}

// line is the next line without its end, or [io.EOF].
func (t *tail) line() ([]byte, error) { return readLine(t.lines) }

// Read implements [io.Reader] for the lines.
func (t *tail) Read(p []byte) (int, error) {
	whole := t.committed()
	if t.offset >= whole {
		return 0, io.EOF
	}
	n, err := t.file.ReadAt(p[:min(int64(len(p)), whole-t.offset)], t.offset)
	t.offset += int64(n)
	if errors.Is(err, io.EOF) && t.offset < whole {
		t.short = true
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}
