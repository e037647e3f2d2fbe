package spool

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// FuzzBody runs a sequence of operations on one body, with a second one that takes
// and gives memory in between, and compares all that is read with a plain slice.
func FuzzBody(f *testing.F) {
	f.Add(byte(0), byte(0), []byte("\x00\xff\x01\x00\x02\x40\x00\xff\x04\x00\x01\x00\x02\xff\x03\x00\x05\x00"))
	f.Add(byte(3), byte(8), bytes.Repeat([]byte{0, 200, 1, 0, 2, 90, 6, 50}, 20))
	f.Add(byte(40), byte(1), []byte{0, 10, 1, 1, 4, 0, 1, 1, 5, 0, 2, 255, 2, 255, 3, 0, 6, 255})
	limits := Limits{MaxBytes: 2 * mib, Dir: f.TempDir()}
	f.Fuzz(func(t *testing.T, perBody, total byte, ops []byte) {
		l := limits
		l.MemoryPerBody, l.MemoryTotal = 1+int64(perBody)*8191, 1+int64(total)*50_001
		p, err := New(l, prometheus.NewRegistry())
		require.NoError(t, err)
		p.canReopen = len(ops)%2 == 0
		runOps(t, p, ops[:min(len(ops), 200)])
		require.Zero(t, p.memory.inUse())
		require.Zero(t, p.spilled.Load())
	})
}

type modelReader struct {
	io.ReadCloser
	off   int
	ended bool // opened after the end: it needs nothing of the body
}

func runOps(t *testing.T, p *Pool, ops []byte) {
	t.Helper()
	b, other := p.Body(-1), p.Body(-1)
	pattern := noise(255 * 1021)
	var model []byte
	var readers []*modelReader
	finished, released, failed := false, false, false
	for ; len(ops) >= 2; ops = ops[2:] {
		n := int(ops[1]) * 1021
		switch ops[0] % 7 {
		case 0:
			kept, err := b.Write(pattern[:n])
			switch {
			case finished, released, failed:
				require.Error(t, err)
				require.Zero(t, kept)
			case len(model)+n > 2*mib:
				var tooLarge *TooLargeError
				require.ErrorAs(t, err, &tooLarge)
				failed = true
			default:
				require.NoError(t, err)
				require.Equal(t, n, kept)
			}
			model = append(model, pattern[:kept]...)
		case 1:
			r := &modelReader{ReadCloser: b.Open(), ended: finished && !failed}
			if released {
				_, err := r.Read(make([]byte, 1))
				require.ErrorIs(t, err, ErrReleased)
				require.NoError(t, r.Close())
				continue
			}
			readers = append(readers, r)
		case 2:
			for _, r := range readers {
				if r.off == len(model) && !finished && !released && !failed {
					continue // it would wait
				}
				buf := make([]byte, n+1)
				m, err := r.Read(buf)
				require.True(t, bytes.Equal(model[r.off:r.off+m], buf[:m]), "foreign bytes at %d", r.off)
				r.off += m
				if r.off < len(model) {
					require.NoError(t, err)
					require.Positive(t, m)
				} else if m == 0 {
					require.Equal(t, finished && !failed, errors.Is(err, io.EOF), "%v", err)
				}
			}
		case 3:
			if len(readers) > 0 {
				require.NoError(t, readers[0].Close())
				readers = readers[1:]
			}
		case 4:
			b.Finish(nil)
			finished = finished || !failed && !released
		case 5:
			b.Release()
			released = true
		case 6:
			if _, err := other.Write(pattern[:n]); err != nil {
				other.Release()
				other = p.Body(-1)
			}
		}
		require.Equal(t, int64(len(model)), b.Size())
	}
	for _, r := range readers {
		require.NoError(t, r.Close())
	}
	b.Release()
	other.Release()
}
