package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// owner is the user and the group of a file.
type owner struct{ uid, gid int }

// ownerOf reads UID:GID; nothing is root.
func ownerOf(text string) (o owner, err error) {
	if text == "" {
		return o, nil
	}
	if _, err := fmt.Sscanf(text, "%d:%d", &o.uid, &o.gid); err != nil {
		return o, fmt.Errorf("--chown=%s: two numbers are expected, as there are no names in an empty image", text)
	}
	return o, nil
}

// tree collects the files of the image's one layer.
type tree struct {
	date    time.Time
	content bytes.Buffer
	writer  *tar.Writer
	folders map[string]bool
}

func newTree(date time.Time) *tree {
	t := &tree{date: date, folders: map[string]bool{"": true}}
	t.writer = tar.NewWriter(&t.content)
	return t
}

// copy is COPY: a file to a name, or into a folder when the name ends in a slash; what is in a folder to a folder of that name.
func (t *tree) copy(from, to string, o owner) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	target := strings.TrimPrefix(path.Clean(to), "/")
	if !info.IsDir() {
		if strings.HasSuffix(to, "/") {
			target = path.Join(target, filepath.Base(from))
		}
		return t.file(from, target, info, o)
	}
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		at := path.Join(target, filepath.ToSlash(below))
		if entry.IsDir() {
			return t.folder(at, o)
		}
		return t.file(name, at, info, o)
	})
}

// folder adds a folder, and those above it, which are root's.
func (t *tree) folder(at string, o owner) error {
	if at == "." || t.folders[at] {
		return nil
	}
	if err := t.folder(path.Dir(at), owner{}); err != nil {
		return err
	}
	t.folders[at] = true
	return t.writer.WriteHeader(t.header(tar.Header{Typeflag: tar.TypeDir, Name: at + "/", Mode: 0o755}, o))
}

func (t *tree) file(from, at string, info fs.FileInfo, o owner) error {
	if err := t.folder(path.Dir(at), owner{}); err != nil {
		return err
	}
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	content, err := os.ReadFile(from) //nolint:gosec // reading the project is what this program is for
	if err != nil {
		return err
	}
	if err := t.writer.WriteHeader(t.header(tar.Header{Typeflag: tar.TypeReg, Name: at, Mode: mode, Size: int64(len(content))}, o)); err != nil {
		return err
	}
	_, err = t.writer.Write(content)
	return err
}

func (t *tree) header(h tar.Header, o owner) *tar.Header {
	h.Uid, h.Gid, h.ModTime, h.Format = o.uid, o.gid, t.date, tar.FormatPAX
	return &h
}

func (t *tree) layer() (v1.Layer, error) {
	if err := t.writer.Close(); err != nil {
		return nil, err
	}
	content := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(t.content.Bytes())), nil }
	return tarball.LayerFromOpener(content, tarball.WithCompressionLevel(gzip.DefaultCompression))
}
