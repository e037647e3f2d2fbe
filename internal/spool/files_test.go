package spool

import (
	"bytes"
	"io"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFilesAreUsedAgain(t *testing.T) {
	p := newPool(t, roomy())
	made := countFiles(p)
	long, short := noise(5*mib), noise(2*mib)
	filled(t, p, long, true).Release()
	b := filled(t, p, short, true)
	require.Equal(t, 1, *made)
	require.True(t, bytes.Equal(short, drain(t, b)), "nothing of the longer one that was there before")
	n, err := io.Copy(io.Discard, io.NewSectionReader(b, 0, 10*mib))
	require.NoError(t, err)
	require.Equal(t, int64(2*mib), n)
	b.Release()
}

// The kernel may go on sending a file when everybody has let go of it: the next body's bytes would go to the wrong place.
func TestAFileThatTheKernelMaySendIsNotUsedAgain(t *testing.T) {
	p := newPool(t, roomy())
	if !p.canReopen {
		t.Skip("this system gives no second descriptor")
	}
	made := countFiles(p)
	b := filled(t, p, noise(2*mib), true)
	f, ok := b.Open().(*os.File)
	require.True(t, ok)
	require.NoError(t, f.Close())
	b.Release()
	filled(t, p, noise(2*mib), true).Release()
	require.Equal(t, 2, *made)
}

func TestFilesThatNobodyUsesAreRemoved(t *testing.T) {
	p := newPool(t, roomy())
	synctest.Test(t, func(t *testing.T) {
		some := []*Body{filled(t, p, noise(2*mib), true), filled(t, p, noise(3*mib), true), filled(t, p, noise(4*mib), true)}
		for _, b := range some {
			b.Release()
		}
		requireSpare(t, p, 3, 9*mib)
		for range 3 { // one is in use all the time
			time.Sleep(spareTime - time.Second)
			filled(t, p, noise(2*mib), true).Release()
		}
		synctest.Wait()
		requireSpare(t, p, 1, 4*mib) // the last one was the longest
		time.Sleep(2 * spareTime)
		synctest.Wait()
		requireSpare(t, p, 0, 0)
	})
}

func requireSpare(t *testing.T, p *Pool, n, bytes int) {
	t.Helper()
	p.files.mu.Lock()
	defer p.files.mu.Unlock()
	require.Len(t, p.files.spare, n)
	require.Equal(t, int64(bytes), p.files.bytes)
}

func TestSpareFilesAreBounded(t *testing.T) {
	p := newPool(t, roomy())
	defer p.files.empty()
	var all []*Body
	for range spareFiles + 3 {
		all = append(all, filled(t, p, noise(mib+1), true))
	}
	for _, b := range all {
		b.Release()
	}
	require.Len(t, p.files.spare, spareFiles)
	p.files.empty()
	f, err := p.files.take()
	require.NoError(t, err)
	f.length = spareBytes + 1
	p.files.give(f, true)
	require.Empty(t, p.files.spare)
}

func TestSpareFilesMakeRoomOnAFullDisk(t *testing.T) {
	p := newPool(t, roomy())
	filled(t, p, noise(2*mib), true).Release()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no disk that is always full")
	}
	defer func() { require.NoError(t, full.Close()) }()
	require.Len(t, p.files.spare, 1)
	err = p.files.write(&spillFile{File: full}, []byte("some"), 0)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Empty(t, p.files.spare)
}

// countFiles counts the files that a pool makes.
func countFiles(p *Pool) *int {
	n, create := 0, p.files.create
	p.files.create = func(dir string) (*spillFile, error) {
		n++
		return create(dir)
	}
	return &n
}
