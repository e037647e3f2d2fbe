package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever reads drives the source, in whatever way it reads; all see the same bytes, each exactly once.
func TestReadersShareASource(t *testing.T) {
	for _, size := range []int64{1, ownSliceMax, ownSliceMax + 1, 300 * kib, 3 * mib} {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("size %d known %t", size, known), func(t *testing.T) {
				p, data := newPool(t, roomy()), noise(size)
				b := p.Body(declared(data, known))
				random := rand.New(rand.NewPCG(1, uint64(size)))
				require.NoError(t, b.Intake(&inPieces{bytes.NewReader(data), random}))
				require.Equal(t, b.Expected(), declared(data, known))
				require.ErrorIs(t, b.Intake(bytes.NewReader(nil)), errSecondWriter)
				var wg sync.WaitGroup
				for i := range 8 {
					r := b.Open()
					wg.Go(func() {
						var got bytes.Buffer
						var err error
						switch i % 4 {
						case 0:
							_, err = io.Copy(&got, r) // WriteTo
						case 1:
							_, err = io.Copy(&got, struct{ io.Reader }{r})
						case 2:
							_, err = io.Copy(&got, iotest.HalfReader(r))
						case 3:
							_, err = b.Arrive()
							if err == nil {
								_, err = got.ReadFrom(r)
							}
						}
						if err != nil || !bytes.Equal(data, got.Bytes()) {
							t.Errorf("reader %d: %d bytes, %v", i, got.Len(), err)
						}
						if err := r.Close(); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				require.Equal(t, b.Expected(), size)
				b.Release()
			})
		}
	}
}

// inPieces reads pieces of random sizes.
type inPieces struct {
	io.Reader
	random *rand.Rand
}

func (r *inPieces) Read(p []byte) (int, error) {
	return r.Reader.Read(p[:min(len(p), 1+r.random.IntN(200_000))])
}

// What arrives is sent from where it was read to: nothing is read back, and each piece is written once.
func TestWhatArrivesIsPassedOn(t *testing.T) {
	p := newPool(t, roomy())
	synctest.Test(t, func(t *testing.T) {
		data := noise(2 * mib)
		b := p.Body(2 * mib)
		src, w := io.Pipe()
		require.NoError(t, b.Intake(src))
		r, ok := b.Open().(*reader)
		require.True(t, ok)
		left, known := r.Len()
		require.True(t, known)
		require.Equal(t, int64(2*mib), left)
		var got pieces
		done := make(chan error)
		go func() {
			_, err := r.WriteTo(&got)
			done <- err
		}()
		for off := 0; off < len(data); off += 256 * kib {
			_, err := w.Write(data[off : off+256*kib])
			require.NoError(t, err)
			synctest.Wait()
			require.Equal(t, off+256*kib, got.size, "it is on its way before more comes")
		}
		require.NoError(t, w.Close())
		require.NoError(t, <-done)
		require.True(t, bytes.Equal(data, got.all))
		require.NoError(t, r.Close())
		require.True(t, bytes.Equal(data, drain(t, b)), "and kept")
		b.Release()
	})
}

type pieces struct {
	all  []byte
	size int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.all = append(p.all, b...)
	p.size += len(b)
	return len(b), nil
}

// A reader that is held up by whom it writes to keeps nobody else from the source.
func TestAStuckReaderHoldsUpNobody(t *testing.T) {
	p := newPool(t, roomy())
	synctest.Test(t, func(t *testing.T) {
		data := noise(2 * mib)
		b := p.Body(2 * mib)
		require.NoError(t, b.Intake(bytes.NewReader(data)))
		r := b.Open()
		stuck, w := io.Pipe()
		done := make(chan error)
		go func() {
			_, err := io.Copy(w, r)
			done <- err
		}()
		synctest.Wait()
		n, err := b.Arrive()
		require.NoError(t, err)
		require.Equal(t, int64(2*mib), n)
		require.NoError(t, stuck.Close())
		require.ErrorIs(t, <-done, io.ErrClosedPipe)
		require.NoError(t, r.Close())
		b.Release()
	})
}

func TestHowASourceEnds(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		src  io.Reader
		size int64
		want error
	}{
		{"too early", bytes.NewReader(noise(mib)), 2 * mib, io.ErrUnexpectedEOF},
		{"too late", bytes.NewReader(noise(2 * mib)), mib, ErrLonger},
		{"in an error", io.MultiReader(bytes.NewReader(noise(mib)), iotest.ErrReader(broken)), 2 * mib, broken},
		{"in nothing", io.MultiReader(bytes.NewReader(noise(mib)), &idle{}), 2 * mib, io.ErrNoProgress},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPool(t, roomy())
			b := p.Body(c.size)
			require.NoError(t, b.Intake(c.src))
			r := b.Open()
			sent, err := io.Copy(io.Discard, struct{ io.Reader }{r})
			require.ErrorIs(t, err, c.want)
			n, err := b.Arrive()
			require.ErrorIs(t, err, c.want)
			require.Equal(t, n, sent, "what came before")
			require.NoError(t, r.Close())
			b.Release()
			_, err = b.Arrive()
			require.ErrorIs(t, err, c.want)
		})
	}
	p := newPool(t, roomy())
	b := p.Body(p.limits.MaxBytes + 1)
	var tooLarge *TooLargeError
	require.ErrorAs(t, b.Intake(iotest.ErrReader(broken)), &tooLarge)
	_, err := b.Arrive()
	require.ErrorAs(t, err, &tooLarge, "nothing is read")
	b.Release()
}

func TestReleaseWhileTheSourceIsWaitedFor(t *testing.T) {
	p := newPool(t, roomy())
	synctest.Test(t, func(t *testing.T) {
		b := p.Body(2 * mib)
		src, w := io.Pipe()
		require.NoError(t, b.Intake(src))
		var err error
		go func() { _, err = b.Arrive() }()
		synctest.Wait()
		b.Release()
		require.Empty(t, p.memory.chunks)
		require.NoError(t, w.CloseWithError(io.EOF)) // only now is the storage free
		synctest.Wait()
		require.ErrorIs(t, err, ErrReleased)
	})
}

func TestAwaitedIsTheTimeOfTheSource(t *testing.T) {
	p := newPool(t, roomy())
	synctest.Test(t, func(t *testing.T) {
		b := p.Body(20)
		src, w := io.Pipe()
		require.NoError(t, b.Intake(src))
		r := b.Open()
		read := func() {
			_, err := r.Read(make([]byte, 10))
			require.NoError(t, err)
		}
		time.Sleep(time.Hour) // nobody asked
		require.Zero(t, b.Awaited())
		go func() {
			time.Sleep(3 * time.Second)
			_, _ = w.Write(make([]byte, 10))
			time.Sleep(time.Minute)
			_, _ = w.Write(make([]byte, 10))
		}()
		go func() {
			time.Sleep(time.Second)
			if b.Awaited() != time.Second {
				t.Error("what is being waited for counts")
			}
		}()
		read()
		require.Equal(t, 3*time.Second, b.Awaited())
		time.Sleep(50 * time.Second) // this reader has something else to do
		read()
		require.Equal(t, 13*time.Second, b.Awaited())
		require.NoError(t, w.Close())
		require.NoError(t, r.Close())
		b.Release()
	})
}
