package breaker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClosedPathAllocatesOnlyThePermit(t *testing.T) {
	for name, s := range map[string]Settings{"row": consecutive(5), "ratio": byRatio()} {
		t.Run(name, func(t *testing.T) {
			b := New(s, Observer{})
			var c Caller
			require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
				p, err := b.Acquire(&c, false)
				if err == nil {
					p.Done(Success)
				}
			}), 1.0)
		})
	}
}

func BenchmarkClosed(b *testing.B) {
	for name, s := range map[string]Settings{"row": consecutive(5), "ratio": byRatio()} {
		b.Run(name, func(b *testing.B) {
			g := NewGroup("acct", s, 256, Observer{})
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					var c Caller
					if p, err := g.For("").Acquire(&c, false); err == nil {
						p.Done(Success)
					}
				}
			})
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	s := consecutive(1)
	s.ResetTimeout = 1 << 62
	br := New(s, Observer{})
	p, _ := br.Acquire(nil, false)
	p.Done(Failure)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := br.Acquire(nil, false); err == nil {
				b.Error("passed")
			}
		}
	})
}

func BenchmarkCredentials(b *testing.B) {
	g := NewGroup("acct", consecutive(5), 256, Observer{})
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			g.For("key-" + string(rune('a'+i%26)))
		}
	})
}
