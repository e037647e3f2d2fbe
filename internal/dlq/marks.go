package dlq

import "path/filepath"

// marks is a set of places in a page. The zero value has none.
type marks []uint64

func newMarks(n int) marks { return make(marks, (n+63)/64) }

func (m marks) set(i int) { m[i/64] |= 1 << (i % 64) }

func (m marks) has(i int) bool { return m != nil && m[i/64]&(1<<(i%64)) != 0 }

// passOver marks the letters of a page of which the index says that the filter
// does not select them. Where there is no index, none are.
func (r *Reader) passOver(f Filter, ids []uid) (marks, error) {
	if !f.narrows() || len(ids) == 0 {
		return nil, nil
	}
	s, err := r.index(f)
	if err != nil {
		return nil, err
	}
	defer s.close()
	passed, places := newMarks(len(ids)), newPlaces(ids)
	err = s.each(func(_ uint32, rec *record) error {
		if rec.sized {
			return nil
		}
		place, ok := places.of(rec.id)
		if !ok {
			return nil
		}
		passed[place/64] &^= 1 << (place % 64)
		if !rec.gone && !f.selectsFacts(&rec.facts) {
			passed.set(int(place))
		}
		return nil
	})
	return passed, err
}

// index opens the log of the letters that the filter is about; it knows the open ones.
func (r *Reader) index(f Filter) (*segments, error) {
	if f.Status != "" && f.Status != StatusOpen {
		return &segments{}, nil
	}
	return openSegments(filepath.Join(r.dir, indexFolder))
}

// places finds the place of an id in a page. Most logs name the letters in the
// order of their ids, so the next one is looked for beside the last.
type places struct {
	ids  []uid
	byID numbers // Made when it is needed first.
	last int
}

func newPlaces(ids []uid) *places { return &places{ids: ids, last: len(ids)} }

func (p *places) of(id uid) (place uint32, ok bool) {
	if p.last > 0 && p.ids[p.last-1] == id {
		p.last--
		return uint32(p.last), true //nolint:gosec // A page is no longer than that.
	}
	hashOf := func(n uint32) uint64 { return p.ids[n].hash() }
	if p.byID.count == 0 && len(p.ids) > 0 {
		p.byID.reserve(len(p.ids))
		for i := range p.ids {
			p.byID.add(p.ids[i].hash(), uint32(i), hashOf)
		}
	}
	place, ok = p.byID.seek(id.hash(), func(n uint32) bool { return p.ids[n] == id })
	if ok {
		p.last = int(place)
	}
	return place, ok
}
