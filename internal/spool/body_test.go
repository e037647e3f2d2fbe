package spool

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// filled is a finished body.
func filled(tb testing.TB, p *Pool, data []byte, known bool) *Body {
	tb.Helper()
	b := p.Body(declared(data, known))
	n, err := b.ReadFrom(bytes.NewReader(data))
	require.NoError(tb, err)
	require.Equal(tb, int64(len(data)), n)
	return b
}

func declared(data []byte, known bool) int64 {
	if known {
		return int64(len(data))
	}
	return -1
}

func TestBodiesOfAllSizesAreReadBack(t *testing.T) {
	const small, chunk = ownSliceMax, chunkSize
	perBodies := []int64{1, small, chunk, 3*chunk + 5}
	for _, perBody := range perBodies {
		sizes := []int64{0, 1, small - 1, small, small + 1, chunk - 1, chunk, chunk + 1, 2 * chunk, perBody - 1, perBody, perBody + 1}
		for _, size := range sizes {
			for _, known := range []bool{true, false} {
				t.Run(fmt.Sprintf("memory %d size %d known %t", perBody, size, known), func(t *testing.T) {
					l := roomy()
					l.MemoryPerBody = perBody
					p, data := newPool(t, l), noise(size)

					b := p.Body(declared(data, known))
					defer b.Release()
					early := b.Open() // follows the writer
					var wg sync.WaitGroup
					var followed []byte
					var followErr error
					wg.Go(func() { followed, followErr = io.ReadAll(early) })
					n, err := b.ReadFrom(bytes.NewReader(data))
					require.NoError(t, err)
					require.Equal(t, size, n)
					require.Equal(t, size, b.Size())
					require.Equal(t, size > perBody, b.Spilled())
					wg.Wait()
					require.NoError(t, followErr)
					require.NoError(t, early.Close())
					require.True(t, bytes.Equal(data, followed), "the follower saw something else")

					for range 2 {
						require.True(t, bytes.Equal(data, drain(t, b)), "a reader after the end saw something else")
					}
					sum, err := b.Sum256()
					require.NoError(t, err)
					require.Equal(t, sha256.Sum256(data), sum)
					whole, ok := b.Bytes()
					require.Equal(t, size <= min(perBody, chunk), ok)
					if ok {
						require.True(t, bytes.Equal(data, whole))
					}
				})
			}
		}
	}
}

func TestSourcesThatReadOddly(t *testing.T) {
	data := noise(3*chunkSize + 1)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"half":          iotest.HalfReader,
		"EOF with data": iotest.DataErrReader,
		"empty reads":   func(r io.Reader) io.Reader { return &stutter{r: r} },
	} {
		for _, perBody := range []int64{kib, mib} {
			for _, known := range []bool{true, false} {
				l := roomy()
				l.MemoryPerBody = perBody
				b := newPool(t, l).Body(declared(data, known))
				_, err := b.ReadFrom(wrap(bytes.NewReader(data)))
				require.NoError(t, err, name)
				require.True(t, bytes.Equal(data, drain(t, b)), name)
				b.Release()
			}
		}
	}
}

// stutter returns nothing on every second read.
type stutter struct {
	r     io.Reader
	empty bool
}

func (s *stutter) Read(p []byte) (int, error) {
	if s.empty = !s.empty; s.empty {
		return 0, nil
	}
	return s.r.Read(p)
}

// net/http looks at the type of a request's body: it writes header and body at once
// for one, and uses sendfile for the other.
func TestFinishedReadersHaveTheTypesThatTheTransportKnows(t *testing.T) {
	p := newPool(t, roomy())
	inMemory := reflect.TypeOf(io.NopCloser(bytes.NewReader(nil)))
	for _, size := range []int64{0, 1, 2000, ownSliceMax} {
		for _, known := range []bool{true, false} {
			b := filled(t, p, noise(size), known)
			require.Equal(t, inMemory, reflect.TypeOf(b.Open()), "size %d known %t", size, known)
			b.Release()
		}
	}
	b := filled(t, p, noise(2*mib), true)
	defer b.Release()
	r := b.Open()
	if runtime.GOOS == "linux" {
		require.IsType(t, &os.File{}, r)
	}
	require.NoError(t, r.Close())
}

func TestSpilledBodyIsReadWithoutASecondDescriptor(t *testing.T) {
	p, data := newPool(t, roomy()), noise(2*mib)
	p.canReopen = false
	b := filled(t, p, data, true)
	require.IsType(t, &reader{}, b.Open()) // stays open beyond Release on purpose: nothing may go back yet
	r1, r2 := b.Open(), b.Open()
	for _, r := range []io.ReadCloser{r1, r2} {
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got))
		require.NoError(t, r.Close())
	}
	b.Release()
	require.Equal(t, int64(2*mib), p.spilled.Load())
	b.drop() // what Close of the first reader does
}

func TestPiecewiseWriting(t *testing.T) {
	data := noise(5*chunkSize + 3)
	for _, perBody := range []int64{kib, 2*chunkSize - 1, mib} {
		for _, piece := range []int{4096, 100_000, chunkSize, len(data)} {
			l := roomy()
			l.MemoryPerBody = perBody
			b := newPool(t, l).Body(-1)
			r := b.Open()
			for rest := data; len(rest) > 0; {
				p := rest[:min(piece, len(rest))]
				n, err := b.Write(p)
				require.NoError(t, err)
				require.Len(t, p, n)
				seen := make([]byte, n)
				_, err = io.ReadFull(r, seen)
				require.NoError(t, err)
				require.True(t, bytes.Equal(p, seen), "a follower sees each piece at once")
				rest = rest[n:]
			}
			b.Finish(nil)
			n, err := r.Read(make([]byte, 1))
			require.Zero(t, n)
			require.Equal(t, io.EOF, err)
			require.NoError(t, r.Close())
			require.Equal(t, int64(len(data)) > perBody, b.Spilled())
			require.True(t, bytes.Equal(data, drain(t, b)))
			_, err = b.Write([]byte("x"))
			require.ErrorIs(t, err, ErrFinished)
			b.Release()
		}
	}
}

func TestLimits(t *testing.T) {
	l := roomy()
	l.MaxBytes, l.MemoryPerBody = 300*kib, 200*kib
	p := newPool(t, l)
	for _, own := range []int64{0, 1, 1000, 200 * kib, 250 * kib, 400 * kib} {
		limit := own
		if own == 0 {
			limit = l.MaxBytes
		}
		for _, over := range []int64{0, 1, 5000} {
			data := noise(limit + over)
			for _, how := range []string{"known", "unknown", "pieces"} {
				b := p.Body(declared(data, how == "known"))
				b.Limit(own)
				src := bytes.NewReader(data)
				var err error
				if how == "pieces" {
					_, err = b.Write(data)
				} else {
					_, err = b.ReadFrom(src)
				}
				if over == 0 {
					require.NoError(t, err)
				} else {
					size := declared(data, how == "known")
					var tooLarge *TooLargeError
					require.ErrorAs(t, err, &tooLarge)
					require.Equal(t, TooLargeError{Limit: limit, Size: size}, *tooLarge)
					require.ErrorContains(t, err, "bytes")
					switch how {
					case "known":
						require.Len(t, data, src.Len(), "nothing is read when the declared size is too large")
						require.Zero(t, b.Size())
					case "unknown":
						require.Equal(t, over-1, int64(src.Len()), "only the first byte over the limit is read")
						require.Equal(t, limit, b.Size())
					}
					require.Same(t, tooLarge, readError(t, b))
				}
				b.Release()
			}
		}
	}
}

// readError drains a body that ended early.
func readError(tb testing.TB, b *Body) error {
	tb.Helper()
	r := b.Open()
	got, err := io.ReadAll(r)
	require.Len(tb, got, int(b.Size()))
	require.NoError(tb, r.Close())
	_, ok := b.Bytes()
	require.False(tb, ok, "a broken body must not look whole")
	_, sumErr := b.Sum256()
	require.Equal(tb, err, sumErr)
	return err
}

func TestDeclaredSizeMustBeTrue(t *testing.T) {
	p := newPool(t, roomy())
	for _, size := range []int64{1, 2000, 200 * kib, 2 * mib} {
		b := p.Body(size)
		n, err := b.ReadFrom(bytes.NewReader(noise(size - 1)))
		require.Equal(t, size-1, n)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, err, readError(t, b))
		b.Release()

		b = p.Body(size)
		n, err = b.ReadFrom(bytes.NewReader(noise(size + 1)))
		require.Equal(t, size, n)
		require.ErrorIs(t, err, ErrLonger)
		require.ErrorIs(t, readError(t, b), ErrLonger)
		b.Release()

		b = p.Body(size)
		_, err = b.Write(noise(size - 1))
		require.NoError(t, err)
		b.Finish(nil)
		require.ErrorIs(t, readError(t, b), io.ErrUnexpectedEOF)
		b.Release()
	}
}

func TestSourceErrorReachesWriterAndReaders(t *testing.T) {
	broken := errors.New("connection reset")
	for _, known := range []bool{true, false} {
		for _, arrived := range []int64{0, 10, 100 * kib, 2 * mib} {
			data := noise(arrived)
			b := newPool(t, roomy()).Body(-1)
			if known {
				b = newPool(t, roomy()).Body(arrived + 5)
			}
			follower := b.Open()
			n, err := b.ReadFrom(io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)))
			require.Equal(t, arrived, n)
			require.ErrorIs(t, err, broken)
			var disk *WriteError
			require.NotErrorAs(t, err, &disk)
			for _, r := range []io.ReadCloser{follower, b.Open()} {
				got, err := io.ReadAll(r)
				require.ErrorIs(t, err, broken)
				require.True(t, bytes.Equal(data, got))
				require.NoError(t, r.Close())
			}
			b.Release()
		}
	}
	b := newPool(t, roomy()).Body(-1)
	defer b.Release()
	_, err := b.ReadFrom(&idle{})
	require.ErrorIs(t, err, io.ErrNoProgress)
}

// idle never returns anything.
type idle struct{}

func (*idle) Read([]byte) (int, error) { return 0, nil }

func TestQuestionsBeforeTheEnd(t *testing.T) {
	b := newPool(t, roomy()).Body(-1)
	defer b.Release()
	_, err := b.Write([]byte("abc"))
	require.NoError(t, err)
	require.Equal(t, int64(3), b.Size())
	_, ok := b.Bytes()
	require.False(t, ok)
	_, err = b.Sum256()
	require.ErrorIs(t, err, ErrUnfinished)
}
