package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
)

// holdings are what the proxy has in its hands while nobody wants anything of it.
type holdings struct {
	goroutines int
	files      int   // Open descriptors, sockets included.
	bodies     int   // Of them, files without a name in the folder for bodies.
	memory     int64 // Bytes of bodies in memory.
	spilled    int64 // Bytes of bodies in files.
	inFlight   int
	resident   int64 // Bytes.
}

// What may differ between two moments of quiet: a connection to the shared state more or less, a timer's goroutine that is about to end.
const (
	goroutinesMore = 8
	filesMore      = 8
)

// compare names everything that after holds more of than before.
func (before holdings) compare(after holdings) (grown []string) {
	more := func(what string, was, is, tolerance int64) {
		if is > was+tolerance {
			grown = append(grown, fmt.Sprintf("%s: %d after warming up, %d at the end", what, was, is))
		}
	}
	more("goroutines", int64(before.goroutines), int64(after.goroutines), goroutinesMore)
	more("descriptors", int64(before.files), int64(after.files), filesMore)
	more("temporary files", 0, int64(after.bodies), 0)
	more("bytes of bodies in files", 0, after.spilled, 0)
	more("requests in flight", 0, int64(after.inFlight), 0)
	return grown
}

// measure looks at the proxy once.
func measure(ctx context.Context, x *child.Process, admin, bodies string) (h holdings, err error) {
	m, err := child.Scrape(ctx, admin)
	if err != nil {
		return h, err
	}
	number := func(name string) int64 {
		v, ok := m.Sum(name)
		if !ok && err == nil {
			err = fmt.Errorf("the proxy has no metric %s", name)
		}
		return int64(v)
	}
	h.goroutines, h.inFlight = int(number("go_goroutines")), int(number("ocrproxy_in_flight"))
	h.memory, h.spilled = number("ocrproxy_body_memory_bytes"), number("ocrproxy_body_spilled_bytes")
	if err != nil {
		return h, err
	}
	files, err := x.OpenFiles()
	if err != nil {
		return h, err
	}
	h.files = len(files)
	for _, f := range files {
		if strings.HasPrefix(f, bodies) && strings.HasSuffix(f, "(deleted)") {
			h.bodies++
		}
	}
	h.resident, err = x.Resident()
	return h, err
}

// settle measures until good says that it is well, or the time is over; it gives the last measure.
func settle(ctx context.Context, most time.Duration, look func() (holdings, error), good func(holdings) bool) (holdings, error) {
	until := time.Now().Add(most)
	for {
		h, err := look()
		if err != nil || good(h) || time.Now().After(until) || ctx.Err() != nil {
			return h, err
		}
		pause(250 * time.Millisecond)
	}
}

// sample is the memory of the proxy at one moment.
type sample struct {
	at    time.Duration // Since its process was warm.
	bytes int64
}

// slope is by how many bytes an hour the memory grows, as the line of least squares has it; 0 for less than two samples.
func slope(samples []sample) float64 {
	if len(samples) < 2 {
		return 0
	}
	var n, x, y, xx, xy float64
	for _, s := range samples {
		h, b := s.at.Hours(), float64(s.bytes)
		n, x, y, xx, xy = n+1, x+h, y+b, xx+h*h, xy+h*b
	}
	if d := n*xx - x*x; d > 0 {
		return (n*xy - x*y) / d
	}
	return 0
}

// What the memory under load may have grown by between the second and the last quarter of a process's life: a share and a number of bytes, because
// the garbage collector lets the heap of a busy moment stand for some time.
const (
	memoryShare = 1.25
	memoryMore  = 24 << 20
)

// fewSamples is how many say nothing: those of two minutes.
const fewSamples = 240

// grewTo compares the median of the last quarter of the samples with that of the second. Few samples say nothing.
func grewTo(samples []sample) (second, last int64, flat bool) {
	n := len(samples)
	if n < fewSamples {
		return 0, 0, true
	}
	second, last = middle(samples[n/4:n/2]), middle(samples[n-n/4:])
	return second, last, float64(last) <= float64(second)*memoryShare+memoryMore
}

func middle(samples []sample) int64 {
	sorted := make([]int64, 0, len(samples))
	for _, s := range samples {
		sorted = append(sorted, s.bytes)
	}
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
