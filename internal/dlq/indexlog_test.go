package dlq

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	settle(t, s)
	for i := range 40 {
		put(t, s, letter(strconv.Itoa(i%8)), "x")
		if i%10 == 0 {
			c, err := s.Claim(openIDs(s)[0])
			require.NoError(t, err)
			require.NoError(t, c.Discard(Resolution{}))
			s.index.log.mu.Lock()
			s.index.log.rotate()
			s.index.log.mu.Unlock()
		}
	}
	before := image(t, dir)
	require.Greater(t, len(segmentsOf(t, dir)), 3)
	require.NoError(t, s.index.compact(77, true))
	require.Len(t, segmentsOf(t, dir), 1)
	require.Equal(t, len(openIDs(s)), s.index.log.records)
	put(t, s, letter("after"), "x")
	require.Len(t, segmentsOf(t, dir), 2)
	requireTruth(t, dir, s)

	// A crash between the rename and the last removal: the compacted one lies beside those that it replaces.
	compacted := segmentsOf(t, dir)[0]
	write(t, read(t, compacted), before, indexFolder, filepath.Base(compacted))
	write(t, "half", before, indexFolder, compactName)
	b := newStore(t, before, keeping())
	requireTruth(t, before, b)
	require.NoFileExists(t, filepath.Join(before, indexFolder, compactName))

	require.NoError(t, s.Close())
	for range manySegments + 2 {
		s, err := Open(dir, keeping())
		require.NoError(t, err)
		settle(t, s)
		put(t, s, letter("again"), "x")
		require.NoError(t, s.Close())
	}
	require.LessOrEqual(t, len(segmentsOf(t, dir)), manySegments+1, "starts alone do not make them more and more")
	requireTruth(t, dir, nil)
}

func TestWhatIsWrittenDuringACompactionIsKept(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	put(t, s, letter("1"), "x")
	n, of := s.index.places()
	id := ""
	require.NoError(t, s.index.log.compact(n, func(u uid) (uint32, bool) {
		if id == "" {
			id = put(t, s, letter("2"), "x")
		}
		return of(u)
	}, 1))
	all, err := openSegments(filepath.Join(dir, indexFolder))
	require.NoError(t, err)
	defer all.close()
	known := map[string]bool{}
	require.NoError(t, all.each(func(_ uint32, r *record) error { known[r.id.String()] = true; return nil }))
	require.True(t, known[id], "readers need not read its file")
	require.Len(t, all.files, 2)
	require.False(t, s.index.log.lost())
}

func TestTheLogIsCompactedWhenMostOfItIsDead(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	put(t, s, letter("1"), "x")
	s.index.log.mu.Lock()
	s.index.log.records += fewRecords + 2
	s.index.log.mu.Unlock()
	s.reconcile()
	require.Equal(t, 1, s.index.log.records)
	requireTruth(t, dir, s)
}

func TestAWriteThatFailsIsMadeUpFor(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	put(t, s, letter("1"), "x")
	require.NoError(t, s.index.log.file.Close()) // Every write of it fails now.
	put(t, s, letter("1"), "x")
	put(t, s, letter("2"), "x")
	require.Len(t, segmentsOf(t, dir), 2, "the one that may be torn is left")
	s.reconcile()
	requireTruth(t, dir, s)
}

func TestLettersAreKeptWhereTheIndexCannotBe(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	first := put(t, s, letter("1"), "x")
	put(t, s, letter("0"), "x") // Nothing happens to it any more.
	require.NoError(t, os.RemoveAll(filepath.Join(dir, indexFolder)))
	write(t, "", dir, indexFolder)
	s.index.log.mu.Lock()
	s.index.log.rotate()
	s.index.log.mu.Unlock()
	put(t, s, letter("2"), "x")
	require.Equal(t, first, put(t, s, letter("1"), "x"))
	require.InDelta(t, 3, metric(t, o, "open"), 0)
	require.InDelta(t, 0, metric(t, o, "write_errors_total"), 0)

	require.NoError(t, os.Remove(filepath.Join(dir, indexFolder)))
	require.InDelta(t, 3, metric(t, o, "open"), 0)
	require.InDelta(t, 3, metric(t, o, "open"), 0)
	require.NotEmpty(t, segmentsOf(t, dir), "it is made anew as soon as it can be")
	requireTruth(t, dir, s)
	all, err := openSegments(filepath.Join(dir, indexFolder))
	require.NoError(t, err)
	defer all.close()
	known := map[uid]bool{}
	require.NoError(t, all.each(func(_ uint32, r *record) error { known[r.id] = true; return nil }))
	require.Len(t, known, 3)
}
