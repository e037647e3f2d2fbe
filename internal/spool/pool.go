// Package spool keeps request and answer bodies so that they can be read more
// than once: in memory while they are small and memory lasts, otherwise in a
// temporary file without a name.
//
// A Body has one writer and any number of readers. Readers may follow the writer
// while it is still writing, and each starts at the first byte. All bodies of a
// Pool share one memory budget that is touched once and then reused, because
// fresh memory costs more than forwarding the bytes that go into it.
package spool

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits says how much a Pool may hold, in bytes, and where. All numbers must be
// greater than zero.
type Limits struct {
	MaxBytes      int64  // largest body that is accepted
	MemoryPerBody int64  // largest body that is kept in memory
	MemoryTotal   int64  // memory of all bodies together; see Pool
	Dir           string // folder of the files, created if missing; "" is the system's temporary folder
}

// Pool makes bodies that share one memory budget. It is safe for concurrent use.
//
// MemoryTotal bounds what the bodies hold, what waits for reuse and the buffers
// that copy to files. When it is used up, every body goes to a file, small ones
// too. One thing can exceed it: an upload to a file that finds no memory for its
// copy buffer gets one of 8 KiB all the same, which is the order of what a
// connection costs anyway and keeps uploads from waiting for each other. It is
// counted, so that bodies make room for it.
type Pool struct {
	limits    Limits
	maxBytes  atomic.Int64 // of limits, unless it was changed since
	memory    *memory
	spilled   atomic.Int64
	files     files
	canReopen bool
}

// New returns a pool after it has proved that files can be made in l.Dir, and
// registers the gauges ocrproxy_body_memory_bytes, ocrproxy_body_memory_limit_bytes
// and ocrproxy_body_spilled_bytes with reg. It fails when a limit is not positive, when the folder cannot be
// created or written, or when the gauges are registered already.
func New(l Limits, reg prometheus.Registerer) (*Pool, error) {
	if l.MaxBytes <= 0 || l.MemoryPerBody <= 0 || l.MemoryTotal <= 0 {
		return nil, fmt.Errorf("body limits must be greater than zero: largest body %d, memory for each %d, memory in total %d bytes",
			l.MaxBytes, l.MemoryPerBody, l.MemoryTotal)
	}
	if l.Dir == "" {
		l.Dir = os.TempDir()
	}
	p := &Pool{limits: l, memory: newMemory(l.MemoryTotal), files: files{dir: l.Dir, create: createSpillFile}}
	p.maxBytes.Store(l.MaxBytes)
	if err := p.proveDir(); err != nil {
		return nil, fmt.Errorf("body folder %s cannot be used, make it writable or choose another one: %w", l.Dir, err)
	}
	gauges := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ocrproxy_body_memory_bytes",
			Help: "Memory that request and answer bodies hold now, with the buffers that copy them to files.",
		}, func() float64 { return float64(p.memory.inUse()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ocrproxy_body_memory_limit_bytes",
			Help: "Memory that request and answer bodies may hold.",
		}, func() float64 { return float64(l.MemoryTotal) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ocrproxy_body_spilled_bytes",
			Help: "Bytes of request and answer bodies that are held in temporary files now.",
		}, func() float64 { return float64(p.spilled.Load()) }),
	}
	for _, g := range gauges {
		if err := reg.Register(g); err != nil {
			return nil, fmt.Errorf("register body gauges: %w", err)
		}
	}
	return p, nil
}

// proveDir writes one file and finds out on the way whether a second descriptor
// of it can be had.
func (p *Pool) proveDir() error {
	f, err := p.files.create(p.limits.Dir)
	if err != nil {
		return err
	}
	const proof = "ocr-proxy"
	_, err = f.WriteString(proof)
	if err == nil {
		p.canReopen = readsBack(f.File, proof)
	}
	return errors.Join(err, f.discard())
}

// SetMaxBytes changes the largest size, in bytes and more than 0, of the bodies that are begun from now on.
func (p *Pool) SetMaxBytes(n int64) { p.maxBytes.Store(n) }

// Body returns an empty body. Size is the declared length in bytes, or negative
// when it is not known. Every body must be released.
func (p *Pool) Body(size int64) *Body {
	b := &Body{pool: p, declared: max(size, -1), limit: p.maxBytes.Load(), refs: 1}
	b.more.L = &b.mu
	return b
}
