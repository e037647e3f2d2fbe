package spool

import (
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestBodiesAreReadAtAnyPlace(t *testing.T) {
	for name, perBody := range map[string]int64{"in memory": 1 << 30, "in a file": 1} {
		for _, size := range []int64{1, ownSliceMax, chunkSize, 3*chunkSize + 5} {
			l := roomy()
			l.MemoryPerBody = perBody
			data := noise(size)
			b := filled(t, newPool(t, l), data, false)
			r := io.NewSectionReader(b, 0, b.Size())
			require.NoError(t, iotest.TestReader(r, data), "%s, %d", name, size)
			tail := make([]byte, 10)
			n, err := b.ReadAt(tail, size-1)
			require.Equal(t, 1, n)
			require.ErrorIs(t, err, io.EOF)
			_, err = b.ReadAt(tail, -1)
			require.ErrorIs(t, err, errNegativeOffset)
			b.Release()
			_, err = b.ReadAt(tail, 0)
			require.ErrorIs(t, err, ErrReleased)
		}
	}
}

func TestOnlyACompleteBodyIsReadAt(t *testing.T) {
	b := newPool(t, roomy()).Body(-1)
	defer b.Release()
	_, err := b.Write([]byte("half"))
	require.NoError(t, err)
	_, err = b.ReadAt(make([]byte, 4), 0)
	require.ErrorIs(t, err, ErrUnfinished)
	broken := errors.New("broken")
	b.Finish(broken)
	_, err = b.ReadAt(make([]byte, 4), 0)
	require.ErrorIs(t, err, broken)
}
