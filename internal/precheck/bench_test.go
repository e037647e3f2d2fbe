package precheck_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/image/tiff"

	"github.com/ocr-proxy/ocr-proxy/internal/precheck"
)

// BenchmarkInspect measures all checks on documents as they come, and what sending their bytes over a local connection takes.
func BenchmarkInspect(b *testing.B) {
	limits := precheck.Limits{
		Types: []precheck.Type{precheck.PDF, precheck.PNG, precheck.JPEG, precheck.TIFF, precheck.BMP},
		Bytes: 500 << 20, Pages: 2000, LeastSide: 50, MostSide: 10_000, Pixels: 40_000_000,
	}
	page := written(paper(2480, 3508, 12)) // A4 with 300 dots an inch
	documents := fixtures(b)
	documents["A4 scan.png"] = asPNG(b, page)
	documents["A4 scan.jpg"] = asJPEG(b, page)
	documents["A4 scan.tif"] = asTIFF(b, page, &tiff.Options{Compression: tiff.Deflate})
	documents["A4 blank.png"] = asPNG(b, paper(2480, 3508, 0))
	documents["A4 blank.jpg"] = asJPEG(b, paper(2480, 3508, 0))
	documents["2000 pages.pdf"] = pdfOf(2000, textContent)
	documents["50 MB.pdf"] = pdfAround(make([]byte, 50<<20), 100, 100)
	documents["locked.pdf"] = encrypt(b, pdfOf(1, textContent), "secret", true, 256)
	for name, data := range documents {
		b.Run(name+"/inspect", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				precheck.Inspect(b.Context(), bytes.NewReader(data), int64(len(data)), limits, nil)
			}
		})
		b.Run(name+"/send", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			send := loopback(b)
			for b.Loop() {
				send(data)
			}
		})
	}
}

// loopback sends bytes over a connection and waits for the word that all have come.
func loopback(b *testing.B) func(data []byte) {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	out, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(b, err)
	in, err := listener.Accept()
	require.NoError(b, err)
	b.Cleanup(func() { _, _, _ = out.Close(), in.Close(), listener.Close() })
	sizes := make(chan int)
	b.Cleanup(func() { close(sizes) })
	go func() {
		for n := range sizes {
			_, _ = io.CopyN(io.Discard, in, int64(n))
			_, _ = in.Write([]byte{1})
		}
	}()
	return func(data []byte) {
		sizes <- len(data)
		_, err := out.Write(data)
		require.NoError(b, err)
		_, err = io.ReadFull(out, make([]byte, 1))
		require.NoError(b, err)
	}
}
