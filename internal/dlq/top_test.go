package dlq

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// topOf groups what is in dir, with times left out where they are not asked for.
func topOf(t *testing.T, dir string, f Filter, o TopOptions) []Group {
	t.Helper()
	r, err := View(dir)
	require.NoError(t, err)
	groups, err := r.Top(f, o)
	require.NoError(t, err)
	for i := range groups {
		groups[i].Oldest, groups[i].Newest = time.Time{}, time.Time{}
	}
	return groups
}

func TestTopByWhatIsAskedFor(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	hour := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for i, change := range []func(*Envelope){
		func(e *Envelope) { e.Tenant, e.ClassChanged, e.FailedAt = "a", true, hour },
		func(e *Envelope) { e.Tenant, e.Operation, e.FailedAt = "a", "batch", hour.Add(59*time.Minute) },
		func(e *Envelope) { e.Outcome, e.ErrorClass, e.FailedAt = "permanent", "auth", hour.Add(time.Hour) },
	} {
		e := letter(strconv.Itoa(i % 2)) // Two documents.
		change(e)
		e.RequestFingerprint = hexSum(strconv.Itoa(i))
		put(t, s, e, "12345")
	}
	old := letter("old")
	old.ErrorCode, old.FirstAttemptAt = "Old", time.Now().Add(-25*time.Hour)
	put(t, s, old, "12345")
	require.NoError(t, s.Close())

	busy := []string{"Busy"}
	exhausted, auth := Action("exhausted", "transient"), Action("permanent", "auth")
	for name, c := range map[string]struct {
		by     []Dimension
		filter Filter
		want   []Group
	}{
		"tenant": {[]Dimension{ByTenant}, Filter{}, []Group{
			{Letters: 2, Occurrences: 2, Documents: 2, BodyBytes: 10, NewCodes: busy, Action: severalReasons},
			{Tenant: "a", Letters: 2, Occurrences: 2, Documents: 2, ClassChanged: 1, BodyBytes: 10, NewCodes: busy, Action: exhausted},
		}},
		"operation of a tenant": {[]Dimension{ByOperation, ByProvider}, Filter{Tenant: "a"}, []Group{
			{Provider: "acct", Operation: "batch", Letters: 1, Occurrences: 1, Documents: 1, BodyBytes: 5, NewCodes: busy, Action: exhausted},
			{Provider: "acct", Operation: "ocr", Letters: 1, Occurrences: 1, Documents: 1, ClassChanged: 1, BodyBytes: 5, NewCodes: busy, Action: exhausted},
		}},
		"hour": {[]Dimension{ByHour}, Filter{Code: "Busy"}, []Group{
			{Hour: hour, Letters: 2, Occurrences: 2, Documents: 2, ClassChanged: 1, BodyBytes: 10, NewCodes: busy, Action: exhausted},
			{Hour: hour.Add(time.Hour), Letters: 1, Occurrences: 1, Documents: 1, BodyBytes: 5, NewCodes: busy, Action: auth},
		}},
		"one document": {[]Dimension{ByClass}, Filter{Document: "0"}, []Group{
			{Class: "auth", Letters: 1, Occurrences: 1, Documents: 1, BodyBytes: 5, NewCodes: busy, Action: auth},
			{Class: "transient", Letters: 1, Occurrences: 1, Documents: 1, ClassChanged: 1, BodyBytes: 5, NewCodes: busy, Action: exhausted},
		}},
		"until then": {[]Dimension{ByClass}, Filter{Until: hour.Add(time.Minute)}, []Group{
			{Class: "transient", Letters: 1, Occurrences: 1, Documents: 1, ClassChanged: 1, BodyBytes: 5, NewCodes: busy, Action: exhausted},
		}},
		"of an operation": {[]Dimension{ByClass}, Filter{Operation: "batch"}, []Group{
			{Class: "transient", Letters: 1, Occurrences: 1, Documents: 1, BodyBytes: 5, NewCodes: busy, Action: exhausted},
		}},
		"a code that is not new": {[]Dimension{ByCode}, Filter{Since: time.Now().Add(-time.Hour)}, []Group{
			{Code: "Old", Letters: 1, Occurrences: 1, Documents: 1, BodyBytes: 5, NewCodes: []string{}, Action: exhausted},
		}},
	} {
		require.Equal(t, c.want, topOf(t, dir, c.filter, TopOptions{By: c.by}), name)
	}
	old24 := topOf(t, dir, Filter{Code: "Old"}, TopOptions{NewWithin: 26 * time.Hour})
	require.Equal(t, []string{"Old"}, old24[0].NewCodes)

	// Without an index the same is read from the letters.
	with := topOf(t, dir, Filter{}, TopOptions{By: Dimensions()})
	require.Len(t, with, 4)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, indexFolder)))
	require.Equal(t, with, topOf(t, dir, Filter{}, TopOptions{By: Dimensions()}))

	r, err := View(dir)
	require.NoError(t, err)
	_, err = r.Top(Filter{}, TopOptions{By: []Dimension{"color"}})
	require.ErrorContains(t, err, "color")
	_, err = r.Top(Filter{Status: "lost"}, TopOptions{})
	require.ErrorContains(t, err, "lost")
	_, err = ParseDimensions([]string{"provider", "color"})
	require.ErrorContains(t, err, "provider, outcome, class, code, operation, tenant, hour")
}

func TestACodeSeenBeforeIsNotNewForWhomeverItIsFilteredOut(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	before, now := letter("before"), letter("now")
	before.FirstAttemptAt, before.Tenant = time.Now().Add(-48*time.Hour), "another"
	put(t, s, before, "x")
	put(t, s, now, "x")
	require.Empty(t, topOf(t, dir, Filter{Document: "now"}, TopOptions{})[0].NewCodes)
}

func TestTooManyGroupsAreRefused(t *testing.T) {
	tally, err := newTally(Filter{}, TopOptions{By: []Dimension{ByTenant}})
	require.NoError(t, err)
	for i := range maxGroups {
		if err := tally.count(&facts{facets: &facets{tenant: strconv.Itoa(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	require.ErrorContains(t, tally.count(&facts{facets: &facets{tenant: "one more"}}), "group by less")
	require.LessOrEqual(t, len(tally.kin), maxFacets)
	require.Len(t, tally.groups(), maxGroups)
}

// withFiles makes open letters with ids in a row, the way nobody's store does it.
func withFiles(t testing.TB, n int) (dir string, ids []string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, StatusOpen), 0o700))
	for i := range n {
		e := letter(strconv.Itoa(i))
		e.Schema, e.ID, e.Tenant = Schema, fmt.Sprintf("0192d3c0-7a1b-7c3d-8e4f-%012x", i*7919%1_000_003), strconv.Itoa(i%10)
		data, err := e.encode()
		require.NoError(t, err)
		write(t, string(data), dir, StatusOpen, fileName(e.ID))
		ids = append(ids, e.ID)
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return dir, ids
}

func TestListGoesOnBehindALetter(t *testing.T) {
	dir, ids := withFiles(t, 2*firstPage+100)
	write(t, "{", dir, StatusOpen, "odd.json")
	var all []string
	odd := 0
	r, err := View(dir)
	require.NoError(t, err)
	for l, err := range r.List(Filter{}) {
		if err != nil {
			require.ErrorContains(t, err, "odd.json")
			odd++
			continue
		}
		all = append(all, l.ID)
	}
	require.Equal(t, ids, all)
	require.Equal(t, 1, odd)

	// In pages, with letters of which the last of a page is gone by then.
	var paged []string
	f := Filter{}
	for {
		n := 0
		for l, err := range r.List(f) {
			if err != nil {
				require.Empty(t, f.Before, "what is no letter is told of once")
				continue
			}
			paged = append(paged, l.ID)
			f.Before = l.ID
			if n++; n == 700 {
				require.NoError(t, os.Remove(filepath.Join(dir, StatusOpen, fileName(l.ID))))
				break
			}
		}
		if n < 700 {
			break
		}
	}
	require.Equal(t, ids, paged)
	require.Len(t, listed(t, dir, Filter{Before: ids[len(ids)-3]}), 2)
	require.Empty(t, listed(t, dir, Filter{Before: "00000000-0000-0000-0000-000000000000"}))
	for _, err := range r.List(Filter{Before: "yesterday"}) {
		require.ErrorIs(t, err, ErrInvalidID)
	}
}

func TestFilteredListsReadOnlyWhatTheIndexSelects(t *testing.T) {
	dir, ids := withFiles(t, 300)
	s := newStore(t, dir, keeping())
	put(t, s, letter("new"), "x")
	want := listed(t, dir, Filter{Tenant: "3"})
	require.Len(t, want, 30)
	for _, id := range ids { // A letter that is read would be noticed, and one that is changed by the store is.
		path := filepath.Join(dir, StatusOpen, fileName(id))
		if !slices.ContainsFunc(want, func(l Letter) bool { return l.ID == id }) {
			write(t, "{", path)
		}
	}
	require.Equal(t, want, listed(t, dir, Filter{Tenant: "3"}))
	require.Equal(t, want[10:], listed(t, dir, Filter{Tenant: "3", Before: want[9].ID}))
	require.Len(t, listed(t, dir, Filter{Document: "new"}), 1)
}

func TestDocumentsInTheIndex(t *testing.T) {
	hash := hexSum("x")
	for _, c := range []struct {
		document, key, filter string
		want                  bool
	}{
		{"name", "", "name", true},
		{"name", "", "nam", false},
		{"a-long-name-of-a-document", "", "a-long-name-of", false},
		{hash, "", hash, true},
		{hash, "", hash[:12], true},
		{hash, "", hash[:16], true},
		{hash, "", hash[:20], true},
		{hash, "", hash[:11], false},
		{hash, "", hexSum("y"), false},
		{hash, "", "0123456789ab", false},
		{"", hash, hash, false},
		{"", "", someID, false},
	} {
		e := letter("")
		e.ID, e.DocumentID, e.IdempotencyKey = someID, c.document, c.key
		f := factsOf(uid{}, e)
		require.Equal(t, c.want, Filter{Document: c.filter}.selectsFacts(&f), c)
		require.Equal(t, c.want, Filter{Document: c.filter}.selects(e), c)
	}
}

func TestActions(t *testing.T) {
	require.Contains(t, Action("permanent", "auth"), "credential")
	require.Contains(t, Action("exhausted", "throttle"), "lower rate")
	require.Contains(t, Action("permanent", "permanent"), "document")
	require.Contains(t, Action("circuit_open", "transient"), "circuit")
	require.Contains(t, Action("review", "soft"), "results")
	for _, a := range actions() {
		require.True(t, strings.HasSuffix(a.sentence, "."), a.sentence)
	}
}
