package dlq

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// maxGroups bounds what a grouping by something that has many values needs of memory.
	maxGroups = 100_000
	// maxNewCodes bounds the codes that a group lists.
	maxNewCodes = 10
)

// likeness is what the letters of a group have in common.
type likeness struct {
	facets
	hour int64 // Hours since 1970.
}

// code is one provider's error code.
type code struct{ provider, code string }

// tally counts letters by group.
type tally struct {
	filter Filter
	by     map[Dimension]bool
	recent time.Time // A code that was first seen since is new.

	kin       map[*facets]*kin    // Bounded; a memory of the maps below.
	places    map[likeness]uint32 // In all.
	all       []Group
	several   []bool // The letters of that group failed for several reasons.
	documents []groupDocument
	codes     map[code]*time.Time // When it was first seen, in letters that are not selected too.
	inGroup   map[groupCode]struct{}
}

// kin is what is the same for all letters with the same facets.
type kin struct {
	selected bool       // As far as facets go.
	seen     *time.Time // In codes; nil without a code.
	group    uint32     // One of them where grouped: by hour there are several.
	grouped  bool
}

type groupDocument struct {
	group    uint32
	document uint64
}

type groupCode struct {
	group uint32
	code
}

func newTally(f Filter, o TopOptions) (*tally, error) {
	if len(o.By) == 0 {
		o.By = defaultDimensions()
	}
	t := &tally{
		filter: f, by: map[Dimension]bool{}, recent: time.Now().Add(-cmp.Or(o.NewWithin, NewWithin)),
		kin: map[*facets]*kin{}, places: map[likeness]uint32{}, all: []Group{}, codes: map[code]*time.Time{}, inGroup: map[groupCode]struct{}{},
	}
	for _, d := range o.By {
		if !slices.Contains(Dimensions(), d) {
			return nil, fmt.Errorf("%q is nothing to group by", d)
		}
		t.by[d] = true
	}
	return t, nil
}

// expect makes room for so many letters more, so that counting leaves nothing behind.
func (t *tally) expect(letters int) { t.documents = slices.Grow(t.documents, letters) }

// like gives what the letter has in common with its group.
func (t *tally) like(f *facts) (l likeness) {
	for _, d := range []struct {
		by   Dimension
		to   *string
		from string
	}{
		{ByProvider, &l.provider, f.provider},
		{ByOutcome, &l.outcome, f.outcome},
		{ByClass, &l.class, f.class},
		{ByCode, &l.code, f.code},
		{ByOperation, &l.operation, f.operation},
		{ByTenant, &l.tenant, f.tenant},
	} {
		if t.by[d.by] {
			*d.to = d.from
		}
	}
	if t.by[ByHour] {
		l.hour = f.failed.Unix() / int64(time.Hour/time.Second)
	}
	return l
}

// count adds a letter. It fails when there are too many groups.
func (t *tally) count(f *facts) error {
	k := t.kinOf(f)
	if k.seen != nil && f.first.Before(*k.seen) {
		*k.seen = f.first
	}
	if !k.selected || !t.filter.selectsNumber(f) || !t.filter.selectsTime(f.failed) {
		return nil
	}
	n := k.group
	if !k.grouped {
		var err error
		if n, err = t.group(f); err != nil {
			return err
		}
		k.group, k.grouped = n, !t.by[ByHour]
	}
	g := &t.all[n]
	g.Letters++
	g.Occurrences += f.occurrences
	g.BodyBytes += f.bodyBytes
	if f.classChanged {
		g.ClassChanged++
	}
	if f.first.Before(g.Oldest) {
		g.Oldest = f.first
	}
	if f.failed.After(g.Newest) {
		g.Newest = f.failed
	}
	t.documents = append(t.documents, groupDocument{n, f.document})
	return nil
}

// kinOf looks up what the letter's facets say.
func (t *tally) kinOf(f *facts) *kin {
	if k := t.kin[f.facets]; k != nil {
		return k
	}
	if len(t.kin) == maxFacets {
		clear(t.kin)
	}
	k := &kin{selected: t.filter.selectsFacets(f.facets)}
	t.kin[f.facets] = k
	if f.code == "" {
		return k
	}
	c := code{f.provider, f.code}
	if k.seen = t.codes[c]; k.seen == nil && len(t.codes) < maxGroups {
		first := f.first
		k.seen = &first
		t.codes[c] = k.seen
	}
	return k
}

// group finds the letter's group, or makes it.
func (t *tally) group(f *facts) (uint32, error) {
	l := t.like(f)
	n, known := t.places[l]
	if known {
		t.join(n, f)
		return n, nil
	}
	if len(t.all) == maxGroups {
		return 0, fmt.Errorf("there are more than %d groups: group by less, or filter", maxGroups)
	}
	n = uint32(len(t.all)) //nolint:gosec // Bounded just now.
	t.places[l] = n
	g := Group{
		Provider: l.provider, Outcome: l.outcome, Class: l.class, Code: l.code, Operation: l.operation, Tenant: l.tenant,
		NewCodes: []string{}, Oldest: f.first, Newest: f.failed, Action: Action(f.outcome, f.class),
	}
	if t.by[ByHour] {
		g.Hour = time.Unix(l.hour*int64(time.Hour/time.Second), 0).UTC()
	}
	t.all, t.several = append(t.all, g), append(t.several, false)
	t.join(n, f)
	return n, nil
}

// join notes what a letter's facets mean for its group.
func (t *tally) join(n uint32, f *facts) {
	if t.all[n].Action != Action(f.outcome, f.class) {
		t.several[n] = true
	}
	if f.code != "" && len(t.inGroup) < maxGroups {
		t.inGroup[groupCode{n, code{f.provider, f.code}}] = struct{}{}
	}
}

// groups gives what was counted, the biggest group first.
func (t *tally) groups() []Group {
	slices.SortFunc(t.documents, func(a, b groupDocument) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.document, b.document))
	})
	for i, d := range t.documents {
		if i == 0 || d != t.documents[i-1] {
			t.all[d.group].Documents++
		}
	}
	for c := range t.inGroup {
		if seen := t.codes[c.code]; seen != nil && seen.After(t.recent) {
			g := &t.all[c.group]
			g.NewCodes = append(g.NewCodes, c.code.code)
		}
	}
	for i := range t.all {
		g := &t.all[i]
		slices.Sort(g.NewCodes)
		g.NewCodes = slices.Compact(g.NewCodes)
		g.NewCodes = g.NewCodes[:min(len(g.NewCodes), maxNewCodes)]
		if t.several[i] {
			g.Action = severalReasons
		}
	}
	slices.SortStableFunc(t.all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Letters, a.Letters), cmp.Compare(b.Occurrences, a.Occurrences), cmp.Compare(a.Provider, b.Provider),
			cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Tenant, b.Tenant), a.Hour.Compare(b.Hour))
	})
	return t.all
}
