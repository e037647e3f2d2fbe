package spool

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestBodiesBeyondTheTotalGoToFiles(t *testing.T) {
	for _, total := range []int64{1, 1000, chunkSize, 5*chunkSize + 100, mib} {
		for _, size := range []int64{1, 10 * kib, ownSliceMax, 150 * kib} {
			for _, known := range []bool{true, false} {
				t.Run(fmt.Sprintf("total %d size %d known %t", total, size, known), func(t *testing.T) {
					l := roomy()
					l.MemoryTotal = total
					p, data := newPool(t, l), noise(size)
					var bodies []*Body
					for range 12 {
						b := filled(t, p, data, known)
						bodies = append(bodies, b)
						require.LessOrEqual(t, p.memory.inUse(), total)
						require.LessOrEqual(t, p.memory.inUse()+p.memory.waiting(), total)
					}
					for i, b := range bodies {
						require.True(t, bytes.Equal(data, drain(t, b)), "body %d", i)
						b.Release()
					}
				})
			}
		}
	}
}

// Many uploads are in the middle at once: what they hold is bounded all the same.
func TestMemoryIsBoundedWhileUploadsHang(t *testing.T) {
	const uploads, total = 400, 4 * mib
	l := roomy()
	l.MemoryTotal, l.MemoryPerBody = total, mib
	p := newPool(t, l)
	data := noise(9000)
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		var writers []*io.PipeWriter
		for range uploads {
			src, w := io.Pipe()
			writers = append(writers, w)
			wg.Go(func() {
				b := p.Body(mib)
				defer b.Release()
				if _, err := b.ReadFrom(src); err == nil {
					t.Error("a broken upload looks complete")
				}
			})
			_, err := w.Write(data)
			require.NoError(t, err)
		}
		synctest.Wait()
		require.LessOrEqual(t, p.memory.inUse(), int64(total+uploads*spareBuffer))
		require.Equal(t, int64(total/chunkSize), (p.memory.inUse()-(p.spilled.Load()/9000-int64(p.memory.buffers))*spareBuffer)/chunkSize,
			"all but the hanging uploads' small buffers is the budget")
		small := p.Body(100)
		_, err := small.ReadFrom(bytes.NewReader(data[:100]))
		require.NoError(t, err)
		require.True(t, small.Spilled())
		small.Release()
		for _, w := range writers {
			require.NoError(t, w.Close())
		}
		wg.Wait()
	})
}

func TestSlowUploadsToFilesLeaveMemoryForSmallBodies(t *testing.T) {
	l := roomy()
	l.MemoryTotal = 8 * chunkSize
	p := newPool(t, l)
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		var writers []*io.PipeWriter
		for range 20 {
			src, w := io.Pipe()
			writers = append(writers, w)
			wg.Go(func() {
				b := p.Body(10 * mib)
				defer b.Release()
				_, _ = b.ReadFrom(src) // cut off below
			})
		}
		synctest.Wait()
		b := filled(t, p, noise(2000), true)
		require.False(t, b.Spilled())
		b.Release()
		for _, w := range writers {
			require.NoError(t, w.Close())
		}
		wg.Wait()
	})
}

func TestChunksThatWaitMakeRoomForSlices(t *testing.T) {
	l := roomy()
	l.MemoryTotal = 4 * chunkSize
	p := newPool(t, l)
	filled(t, p, noise(4*chunkSize), true).Release()
	require.Len(t, p.memory.chunks, 4)
	b := filled(t, p, noise(100), true)
	require.False(t, b.Spilled())
	require.Len(t, p.memory.chunks, 3)
	b.Release()
}
