package dlq

import (
	"math"
	"strings"
	"time"
)

// entry is what the store remembers of an open letter. It holds no pointer, so
// that a million of them cost the collector nothing.
type entry struct {
	id     uid
	key    uint64
	call   uint32 // See waitingCalls.
	since  uint32 // The first attempt, in seconds since 1970.
	stamp  uint32
	series uint16 // Place in table.series.
	round  uint8  // Of the comparison with the folder that saw it last; 0: it is only in the log so far.
	used   bool
}

// series is one line of the gauge of open letters.
type series struct{ provider, outcome string }

func seriesOf(provider, outcome string) series {
	return series{strings.ToValidUTF8(provider, "\uFFFD"), strings.ToValidUTF8(outcome, "\uFFFD")}
}

// maxSeries bounds the series; letters beyond count for the last one.
const maxSeries = math.MaxUint16

const (
	chunkBits = 12
	chunkSize = 1 << chunkBits // Entries that are made at a time, and never move.
)

// table holds the open letters, found by id and by key.
type table struct {
	chunks [][]entry
	made   uint32   // Places ever taken.
	free   []uint32 // Those of them that are free again.
	byID   numbers
	byKey  numbers // Usually one letter for a key; more after a claimed one came back to a newer one.

	series []series          // None vanishes: its gauge is 0 instead.
	places map[series]uint16 // In series.
	counts []int             // Open letters of each.

	waiting *waitingCalls // Told of every letter that has a key.

	oldest uint32 // The earliest since, where that is known.
	known  bool
}

func (t *table) at(n uint32) *entry { return &t.chunks[n>>chunkBits][n&(chunkSize-1)] }

func (t *table) hashID(n uint32) uint64  { return t.at(n).id.hash() }
func (t *table) hashKey(n uint32) uint64 { return spread(t.at(n).key) }

// len is the number of open letters.
func (t *table) len() int { return t.byID.count }

// place gives the number of a letter, which it keeps as long as it is open.
func (t *table) place(id uid) (n uint32, ok bool) {
	return t.byID.seek(id.hash(), func(n uint32) bool { return t.at(n).id == id })
}

// get gives a letter's entry, nil when there is none.
func (t *table) get(id uid) *entry {
	n, ok := t.place(id)
	if !ok {
		return nil
	}
	return t.at(n)
}

// put puts a letter in, or in the place of what was known of it.
func (t *table) put(f *facts, round uint8) {
	t.drop(f.id)
	n := t.made
	if last := len(t.free) - 1; last >= 0 {
		n, t.free = t.free[last], t.free[:last]
	} else {
		if n>>chunkBits == uint32(len(t.chunks)) { //nolint:gosec // There are fewer chunks than places.
			t.chunks = append(t.chunks, make([]entry, chunkSize))
		}
		t.made++
	}
	e := entry{id: f.id, key: f.key, call: t.waiting.number(f.operation, f.size()), since: secondsOf(f.first), stamp: f.stamp, series: t.seriesPlace(seriesOf(f.provider, f.outcome)), round: round, used: true}
	*t.at(n) = e
	t.byID.add(e.id.hash(), n, t.hashID)
	if e.key != 0 {
		t.byKey.add(spread(e.key), n, t.hashKey)
		t.waiting.add(t.series[e.series].provider, e.call, 1)
	}
	t.counts[e.series]++
	if t.len() == 1 || t.known && e.since < t.oldest {
		t.oldest, t.known = e.since, true
	}
}

func (t *table) seriesPlace(s series) uint16 {
	if place, ok := t.places[s]; ok {
		return place
	}
	if len(t.series) == maxSeries {
		return maxSeries - 1
	}
	if t.places == nil {
		t.places = map[series]uint16{}
	}
	place := uint16(len(t.series)) //nolint:gosec // Checked above.
	t.places[s] = place
	t.series, t.counts = append(t.series, s), append(t.counts, 0)
	return place
}

func (t *table) drop(id uid) {
	n, ok := t.place(id)
	if !ok {
		return
	}
	e := t.at(n)
	t.byID.remove(e.id.hash(), n, t.hashID)
	if e.key != 0 {
		t.byKey.remove(spread(e.key), n, t.hashKey)
		t.waiting.add(t.series[e.series].provider, e.call, -1)
	}
	t.counts[e.series]--
	if e.since == t.oldest {
		t.known = false
	}
	*e = entry{}
	t.free = append(t.free, n)
}

// find gives the letters with that key.
func (t *table) find(key uint64) (ids []uid) {
	t.byKey.seek(spread(key), func(n uint32) bool {
		if e := t.at(n); e.key == key {
			ids = append(ids, e.id)
		}
		return false // Go on to the end.
	})
	return ids
}

// each calls do for every letter.
func (t *table) each(do func(e *entry)) {
	for _, chunk := range t.chunks {
		for i := range chunk {
			if chunk[i].used {
				do(&chunk[i])
			}
		}
	}
}

// since is the earliest first attempt, zero when nothing is open.
func (t *table) since() time.Time {
	if t.len() == 0 {
		return time.Time{}
	}
	if !t.known {
		t.oldest, t.known = math.MaxUint32, true
		t.each(func(e *entry) { t.oldest = min(t.oldest, e.since) })
	}
	return time.Unix(int64(t.oldest), 0)
}

// secondsOf is good until 2106.
func secondsOf(t time.Time) uint32 { return uint32(min(max(t.Unix(), 0), math.MaxUint32)) }
