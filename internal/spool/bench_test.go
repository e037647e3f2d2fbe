package spool

import (
	"bytes"
	"io"
	"testing"
)

func BenchmarkBody(b *testing.B) {
	for _, c := range []struct {
		name          string
		size, perBody int64
		known         bool
	}{
		{"2KB", 2000, mib, true},
		{"2KB unknown size", 2000, mib, false},
		{"200KB", 200_000, mib, true},
		{"5MB in memory", 5_000_000, 8 * mib, true},
		{"5MB spilled", 5_000_000, mib, true},
		{"5MB spilled on the way", 5_000_000, mib, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := roomy()
			l.MemoryPerBody = c.perBody
			p, data := newPool(b, l), noise(c.size)
			src := bytes.NewReader(data)
			var plain io.Reader = struct{ io.Reader }{src} // no WriterTo, as a request's body
			sink := make([]byte, chunkSize)
			b.SetBytes(c.size)
			b.ReportAllocs()
			for b.Loop() {
				src.Reset(data)
				body := p.Body(declared(data, c.known))
				_, err := body.ReadFrom(plain)
				if err != nil {
					b.Fatal(err)
				}
				r := body.Open()
				n := int64(0)
				for err == nil {
					var m int
					m, err = r.Read(sink)
					n += int64(m)
				}
				if n != c.size {
					b.Fatalf("%d bytes", n)
				}
				_ = r.Close()
				body.Release()
			}
		})
	}
}
