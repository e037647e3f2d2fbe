package spool

import (
	"bytes"
	"io"
	"io/fs"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestManyReadersFollowASlowWriter(t *testing.T) {
	for _, perBody := range []int64{10 * kib, 200 * kib, mib} { // a file at once, on the way, never
		l := roomy()
		l.MemoryPerBody = perBody
		p, data := newPool(t, l), noise(700*kib)
		synctest.Test(t, func(t *testing.T) {
			b := p.Body(-1)
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					r := b.Open()
					got, err := io.ReadAll(iotest.OneByteReader(io.LimitReader(r, int64(i))))
					if err == nil {
						var rest []byte
						rest, err = io.ReadAll(r)
						got = append(got, rest...)
					}
					if err != nil || !bytes.Equal(data, got) {
						t.Errorf("reader %d: %d bytes, %v", i, len(got), err)
					}
					if err := r.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			for i, rest := 0, data; len(rest) > 0; i++ {
				n := min(1+i*997, len(rest))
				if i%3 == 0 {
					synctest.Wait() // every reader has caught up and waits
				}
				_, err := b.Write(rest[:n])
				require.NoError(t, err)
				rest = rest[n:]
			}
			b.Finish(nil)
			b.Release() // while readers are still at it
			wg.Wait()
		})
	}
}

func TestCloseWakesAReaderThatWaits(t *testing.T) {
	p := newPool(t, roomy())
	synctest.Test(t, func(t *testing.T) {
		b := p.Body(-1)
		defer b.Release()
		r := b.Open()
		var err error
		done := false
		go func() {
			_, err = r.Read(make([]byte, 1))
			done = true
		}()
		synctest.Wait()
		require.False(t, done, "the reader must wait for the writer")
		require.NoError(t, r.Close())
		synctest.Wait()
		require.True(t, done, "the reader still waits")
		require.ErrorIs(t, err, fs.ErrClosed)
		require.NoError(t, r.Close(), "a second Close")
		_, err = r.Read(make([]byte, 1))
		require.ErrorIs(t, err, fs.ErrClosed)
	})
}

func TestReleaseWakesAReaderThatWaits(t *testing.T) {
	p := newPool(t, roomy())
	synctest.Test(t, func(t *testing.T) {
		b := p.Body(10)
		_, err := b.Write([]byte("abc"))
		require.NoError(t, err)
		r := b.Open()
		var got []byte
		go func() { got, err = io.ReadAll(r) }()
		synctest.Wait()
		b.Release()
		synctest.Wait()
		require.ErrorIs(t, err, ErrReleased)
		require.Equal(t, "abc", string(got))
		require.NoError(t, r.Close())
	})
}

func TestFinishDuringAWriteNeverLooksComplete(t *testing.T) {
	p := newPool(t, roomy())
	synctest.Test(t, func(t *testing.T) {
		b := p.Body(-1)
		defer b.Release()
		src, w := io.Pipe()
		var err error
		go func() { _, err = b.ReadFrom(src) }()
		synctest.Wait()
		_, second := b.Write([]byte("x"))
		require.ErrorIs(t, second, errSecondWriter)
		b.Finish(nil)
		_, wErr := w.Write([]byte("late"))
		require.NoError(t, wErr)
		synctest.Wait()
		require.ErrorIs(t, err, ErrUnfinished)
		require.Zero(t, b.Size())
		require.ErrorIs(t, readError(t, b), ErrUnfinished)
	})
}
