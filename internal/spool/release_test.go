package spool

import (
	"bytes"
	"crypto/sha256"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The owner and two readers let go in every order; storage goes back with the last.
func TestReleaseInEveryOrder(t *testing.T) {
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for _, size := range []int64{200 * kib, 2 * mib} {
		for _, order := range orders {
			p, data := newPool(t, roomy()), noise(size)
			p.canReopen = false // readers of own descriptors are not counted
			b := filled(t, p, data, true)
			readers := []io.ReadCloser{b.Open(), b.Open()}
			for i, who := range order {
				require.Positive(t, p.memory.inUse()+p.spilled.Load(), "order %v step %d", order, i)
				if who == 2 {
					b.Release()
					b.Release()
					continue
				}
				got, err := io.ReadAll(readers[who])
				require.NoError(t, err)
				require.True(t, bytes.Equal(data, got), "order %v", order)
				require.NoError(t, readers[who].Close())
				require.NoError(t, readers[who].Close())
			}
			require.Zero(t, p.memory.inUse()+p.spilled.Load(), "order %v", order)
		}
	}
}

func TestChunksAreNotReusedUnderAReader(t *testing.T) {
	p, data := newPool(t, roomy()), noise(3*chunkSize)
	b := filled(t, p, data, true)
	r := b.Open()
	b.Release()
	other := filled(t, p, make([]byte, 8*chunkSize), true) // would take the chunks
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got), "foreign bytes")
	require.NoError(t, r.Close())
	_, err = r.Read(make([]byte, 1))
	require.Error(t, err)
	other.Release()
}

func TestChunksAreReused(t *testing.T) {
	p := newPool(t, roomy())
	filled(t, p, noise(5*chunkSize), true).Release()
	require.Len(t, p.memory.chunks, 5)
	b := filled(t, p, noise(4*chunkSize), true)
	require.Len(t, p.memory.chunks, 1)
	b.Release()
	require.Len(t, p.memory.chunks, 5)
}

func TestBytesStayValidAfterRelease(t *testing.T) {
	for _, size := range []int64{100, ownSliceMax + 1, chunkSize} {
		p, data := newPool(t, roomy()), noise(size)
		b := filled(t, p, data, true)
		got, ok := b.Bytes()
		require.True(t, ok)
		b.Release()
		other := filled(t, p, make([]byte, 4*chunkSize), true)
		require.True(t, bytes.Equal(data, got), "foreign bytes in a slice of %d", size)
		other.Release()
	}
}

func TestAfterRelease(t *testing.T) {
	for _, size := range []int64{100, 200 * kib, 2 * mib} {
		p, data := newPool(t, roomy()), noise(size)
		b := filled(t, p, data, true)
		held := b.Open()
		b.Release()
		require.Equal(t, size, b.Size())
		r := b.Open()
		n, err := r.Read(make([]byte, 1))
		require.Zero(t, n)
		require.ErrorIs(t, err, ErrReleased)
		require.NoError(t, r.Close())
		_, ok := b.Bytes()
		require.False(t, ok)
		_, err = b.Sum256()
		require.ErrorIs(t, err, ErrReleased)
		_, err = b.Write([]byte("x"))
		require.ErrorIs(t, err, ErrFinished)
		require.NoError(t, held.Close())

		b = filled(t, p, data, true)
		_, err = b.Sum256()
		require.NoError(t, err)
		b.Release()
		sum, err := b.Sum256()
		require.NoError(t, err, "a hash that is known stays known")
		require.Equal(t, sha256.Sum256(data), sum)
	}
}

// The memory that a source is writing into must not go to somebody else.
func TestReleaseDuringAWrite(t *testing.T) {
	for _, size := range []int64{100, 2 * chunkSize, 2 * mib, -1} {
		p := newPool(t, roomy())
		synctest.Test(t, func(t *testing.T) {
			b := p.Body(size)
			src, w := io.Pipe()
			var err error
			go func() { _, err = b.ReadFrom(src) }()
			synctest.Wait()
			b.Release()
			require.Positive(t, p.memory.inUse())
			_, wErr := w.Write([]byte("late"))
			require.NoError(t, wErr)
			synctest.Wait()
			require.ErrorIs(t, err, ErrReleased)
			require.Zero(t, p.memory.inUse())
		})
	}
}

func TestReadersCloseAndReadAtOnce(t *testing.T) {
	for _, size := range []int64{300 * kib, 2 * mib} {
		p, data := newPool(t, roomy()), noise(size)
		p.canReopen = false
		b := filled(t, p, data, true)
		var wg sync.WaitGroup
		for range 8 {
			r := b.Open()
			wg.Go(func() {
				got, err := io.ReadAll(r) // cut off at a random place
				if !bytes.HasPrefix(data, got) || err == nil && len(got) != len(data) {
					t.Errorf("%d bytes and %v that are no part of the body", len(got), err)
				}
			})
			wg.Go(func() { _ = r.Close() })
		}
		wg.Go(b.Release)
		wg.Wait()
	}
}
