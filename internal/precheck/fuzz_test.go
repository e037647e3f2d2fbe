package precheck_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
)

// FuzzCheck feeds whatever comes to every parser: there is an answer, soon, and it is the same for the same bytes.
func FuzzCheck(f *testing.F) {
	for _, data := range valid(f) {
		if len(data) < 64<<10 {
			f.Add(data, uint16(1))
			f.Add(data[:len(data)/2], uint16(3))
		}
	}
	f.Add(encrypt(f, pdfOf(1, textContent), "secret", true, 256), uint16(0))
	f.Add(compact(f, pdfOf(2, "")), uint16(0))
	f.Add(pdfAround(asJPEG(f, paper(100, 100, 0)), 100, 100), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, limit uint16) {
		limits := precheck.Limits{Pages: int(limit), MostSide: int(limit), LeastSide: 1, Pixels: int64(limit) * 1000}
		began := time.Now()
		first, hopeless := precheck.Inspect(t.Context(), bytes.NewReader(data), int64(len(data)), limits, nil)
		if time.Since(began) > 10*time.Second {
			t.Fatal("it took too long")
		}
		if hopeless {
			require.NotEmpty(t, first.Message)
		}
		again, _ := precheck.Inspect(t.Context(), bytes.NewReader(data), int64(len(data)), limits, nil)
		if time.Since(began) < time.Second { // a slow one may have been given up
			require.Equal(t, first, again)
		}
		_, hopeless = precheck.Inspect(t.Context(), bytes.NewReader(data), int64(len(data)), limits, precheck.Checks())
		require.False(t, hopeless)
	})
}
