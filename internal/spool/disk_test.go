package spool

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// fullDisk makes files that take nothing.
func fullDisk(dir string) (*spillFile, error) {
	f, err := createSpillFile(dir)
	if err == nil {
		err = f.Close() // every write fails from here on
	}
	return f, err
}

func TestFullDiskIsAWriteError(t *testing.T) {
	for _, known := range []bool{true, false} {
		p, data := newPool(t, roomy()), noise(2*mib)
		p.files.create = fullDisk
		b := p.Body(declared(data, known))
		follower := b.Open()
		n, err := b.ReadFrom(bytes.NewReader(data))
		var disk *WriteError
		require.ErrorAs(t, err, &disk)
		require.Equal(t, p.limits.Dir, disk.Dir)
		require.ErrorContains(t, err, p.limits.Dir)
		require.ErrorIs(t, err, fs.ErrClosed, "the cause")
		got, readErr := io.ReadAll(follower)
		require.Same(t, disk, readErr)
		require.Len(t, got, int(n))
		require.True(t, bytes.HasPrefix(data, got))
		require.NoError(t, follower.Close())
		b.Release()
	}
}

func TestDiskThatFailsOnTheWay(t *testing.T) {
	p := newPool(t, roomy())
	b := p.Body(-1)
	data := noise(2 * mib)
	_, err := b.Write(data)
	require.NoError(t, err)
	require.NoError(t, b.file.Close())
	n, err := b.Write([]byte("more"))
	require.Zero(t, n)
	var disk *WriteError
	require.ErrorAs(t, err, &disk)
	_, err = b.Write([]byte("more"))
	require.Same(t, disk, err, "the error ends the body")
	b.Finish(nil)
	r := b.Open()
	_, err = io.ReadAll(r)
	require.Error(t, err)
	require.NoError(t, r.Close())
	b.Release()
}

func TestFolderReplacedByAFile(t *testing.T) {
	p := newPool(t, roomy())
	require.NoError(t, os.Remove(p.limits.Dir))
	require.NoError(t, os.WriteFile(p.limits.Dir, nil, 0o600))
	b := p.Body(2 * mib)
	_, err := b.ReadFrom(bytes.NewReader(noise(2 * mib)))
	var disk *WriteError
	require.ErrorAs(t, err, &disk)
	b.Release()

	small := filled(t, p, noise(1000), true) // needs no disk
	small.Release()

	require.NoError(t, os.Remove(p.limits.Dir))
	data := noise(2 * mib)
	b = filled(t, p, data, true) // a folder that was cleaned away is made again
	require.True(t, bytes.Equal(data, drain(t, b)))
	b.Release()
}

func TestFileCutByOthersDoesNotLookComplete(t *testing.T) {
	p := newPool(t, roomy())
	p.canReopen = false
	b := filled(t, p, noise(2*mib), true)
	defer b.Release()
	require.NoError(t, b.file.Truncate(mib))
	r := b.Open()
	got, err := io.ReadAll(r)
	require.Len(t, got, mib)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, r.Close())
	_, err = b.Sum256()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestFileThatKeepsItsNameIsRemovedInTheEnd(t *testing.T) {
	p := newPool(t, roomy())
	p.files.create = func(dir string) (*spillFile, error) { // as on Windows
		f, err := os.CreateTemp(dir, "body-*")
		return &spillFile{File: f, named: true}, err
	}
	b := filled(t, p, noise(2*mib), true)
	files, err := os.ReadDir(p.limits.Dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	b.Release() // newPool looks whether it is gone
}

func TestFilesHaveNoNameAndAreReadableByTheirUserOnly(t *testing.T) {
	p := newPool(t, roomy())
	b := filled(t, p, noise(2*mib), true)
	defer b.Release()
	if b.file.named {
		t.Skip("this system does not remove open files")
	}
	info, err := b.file.Stat()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	files, err := os.ReadDir(p.limits.Dir)
	require.NoError(t, err)
	require.Empty(t, files)
}

func TestSecondDescriptorMustShowTheFile(t *testing.T) {
	f, err := createSpillFile(t.TempDir())
	require.NoError(t, err)
	_, err = f.WriteString("proof")
	require.NoError(t, err)
	require.Equal(t, runtime.GOOS == "linux", readsBack(f.File, "proof"))
	require.False(t, readsBack(f.File, "something else"))
	require.NoError(t, f.discard())
	require.False(t, readsBack(f.File, "proof"), "the file is closed")
}
