package breaker

import "time"

// buckets is the resolution of a window: a result is forgotten at an age
// between 15/16 of the window and the whole.
const buckets = 16

// tally counts the results of some span of time.
type tally struct {
	successes, permanent, failures int
}

func (t tally) results() int { return t.successes + t.permanent + t.failures }

// window counts results over a sliding time. Buckets know the span they belong
// to, so nothing needs to be rotated and reading changes nothing.
type window struct {
	began   time.Time
	width   time.Duration
	buckets [buckets]bucket
}

type bucket struct {
	tally
	span int64 // how many widths after began; the zero bucket is empty in any case
}

func newWindow(length time.Duration) window {
	return window{began: time.Now(), width: max(1, length/buckets)}
}

func (w *window) span(now time.Time) int64 { return int64(now.Sub(w.began) / w.width) }

func (w *window) add(now time.Time, r Result) {
	span := w.span(now)
	b := &w.buckets[span%buckets]
	if b.span != span {
		*b = bucket{span: span}
	}
	switch r {
	case Success:
		b.successes++
	case Permanent:
		b.permanent++
	case Failure:
		b.failures++
	case Neutral, Refused:
	}
}

func (w *window) sum(now time.Time) tally {
	span := w.span(now)
	var total tally
	for i := range w.buckets {
		if b := &w.buckets[i]; span-b.span < buckets {
			total.successes += b.successes
			total.permanent += b.permanent
			total.failures += b.failures
		}
	}
	return total
}
