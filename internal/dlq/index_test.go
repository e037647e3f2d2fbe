package dlq

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// image is a store as a process that is killed now would leave it.
func image(t testing.TB, dir string) (copied string) {
	t.Helper()
	copied = t.TempDir()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		to := filepath.Join(copied, strings.TrimPrefix(path, dir))
		if d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, data, 0o600))
		info, err := d.Info()
		require.NoError(t, err)
		return os.Chtimes(to, info.ModTime(), info.ModTime())
	}))
	return copied
}

// segmentsOf are the files of the index, the oldest first.
func segmentsOf(t testing.TB, dir string) (all []string) {
	t.Helper()
	numbers, err := segmentNumbers(filepath.Join(dir, indexFolder))
	require.NoError(t, err)
	for _, n := range numbers {
		all = append(all, filepath.Join(dir, indexFolder, segmentName(n)))
	}
	return all
}

// requireTruth checks what the index says, to readers and to the store, against the letters' own files.
func requireTruth(t testing.TB, dir string, s *Store) {
	t.Helper()
	var want []string
	count := map[series]int{}
	groups := map[string]int{}
	all := listed(t, dir, Filter{})
	for _, l := range all {
		want = append(want, l.ID)
		count[seriesOf(l.Provider, l.Outcome)]++
		groups[l.Provider+l.Outcome+l.ErrorClass+l.ErrorCode] += l.Occurrences
	}
	if s != nil {
		have := openIDs(s)
		slices.Sort(have)
		slices.Sort(want)
		require.Equal(t, want, have)
		open, _ := s.index.counts()
		for series, n := range open {
			require.Equal(t, count[series], n, series)
		}
	}
	r, err := View(dir)
	require.NoError(t, err)
	found, err := r.Top(Filter{}, TopOptions{})
	require.NoError(t, err)
	have := map[string]int{}
	for _, g := range found {
		have[g.Provider+g.Outcome+g.Class+g.Code] += g.Occurrences
	}
	require.Equal(t, groups, have)
	for _, f := range []Filter{{Provider: "acct"}, {Outcome: "permanent"}, {Class: "transient", Code: "Busy"}, {Since: time.Now().Add(-time.Hour)}, {Document: "3"}} {
		var some, selected []string
		for _, l := range all {
			if f.selects(l.Envelope) {
				selected = append(selected, l.ID)
			}
		}
		for _, l := range listed(t, dir, f) {
			some = append(some, l.ID)
		}
		require.Equal(t, selected, some, f)
	}
}

// TestIndexIsTrueWhateverHappens moves letters about, by the store and by hand, with starts and crashes in between.
func TestIndexIsTrueWhateverHappens(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		s, err := Open(dir, keeping())
		require.NoError(t, err)
		settle(t, s)
		away := t.TempDir()
		aside := func(id string) (here, there string) {
			return filepath.Join(dir, StatusOpen, fileName(id)), filepath.Join(away, fileName(id))
		}
		var gone []string
		for range 100 {
			ids := openIDs(s)
			some := ""
			if len(ids) > 0 {
				some = ids[r.IntN(len(ids))]
			}
			switch n := r.IntN(20); {
			case n < 8:
				e := letter(strconv.Itoa(r.IntN(12)))
				if r.IntN(2) == 0 {
					e.Outcome, e.FailedAt = "permanent", time.Now().Add(-2*time.Hour)
				}
				put(t, s, e, "x")
			case some != "" && n < 11:
				if c, err := s.Claim(some); err == nil {
					if r.IntN(2) == 0 {
						require.NoError(t, c.Release(func(e *Envelope) { e.ErrorCode = "Released" }))
					} else {
						require.NoError(t, c.Discard(Resolution{}))
					}
				}
			case some != "" && n < 13:
				here, there := aside(some)
				if os.Rename(here, there) == nil {
					gone = append(gone, some)
				}
			case len(gone) > 0 && n < 15:
				here, there := aside(gone[0])
				require.NoError(t, os.Rename(there, here))
				gone = gone[1:]
			case n == 15:
				if err := s.index.compact(1, true); !errors.Is(err, errNothingToCompact) {
					require.NoError(t, err)
				}
			case n == 16:
				s.listAgain = time.Time{}
				s.reconcile()
			case n == 17:
				dir = image(t, dir)
				require.NoError(t, s.Close())
				if all := segmentsOf(t, dir); len(all) > 0 && r.IntN(2) == 0 { // The tail is torn off.
					last := all[len(all)-1]
					info, err := os.Stat(last)
					require.NoError(t, err)
					require.NoError(t, os.Truncate(last, r.Int64N(info.Size()+1)))
				}
				s, err = Open(dir, keeping())
				require.NoError(t, err)
			case n == 18:
				require.NoError(t, s.Close())
				s, err = Open(dir, keeping())
				require.NoError(t, err)
			case n == 19 && r.IntN(3) == 0:
				require.NoError(t, os.RemoveAll(filepath.Join(dir, indexFolder)))
			}
		}
		s.listAgain = time.Time{}
		past := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(dir, StatusOpen), past, past))
		s.reconcile()
		requireTruth(t, dir, s)
		require.NoError(t, s.Close())
		requireTruth(t, dir, nil)
		dir = image(t, dir)
		s, err = Open(dir, keeping())
		require.NoError(t, err)
		requireTruth(t, dir, s)
		require.NoError(t, s.Close())
	}
}

func TestStartReadsTheIndexAndNotTheLetters(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	settle(t, s)
	id := put(t, s, letter("1"), "x")
	require.NoError(t, s.Close())
	path := filepath.Join(dir, StatusOpen, fileName(id))
	info, err := os.Stat(path)
	require.NoError(t, err)
	write(t, strings.Repeat("!", int(info.Size())), path) // A reader would notice.
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))

	s = newStore(t, dir, keeping())
	require.Equal(t, []string{id}, openIDs(s))
	require.Empty(t, files(t, dir, "quarantine"))
	r, err := View(dir)
	require.NoError(t, err)
	groups, err := r.Top(Filter{}, TopOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, groups[0].Letters)
	for range r.List(Filter{Provider: "another"}) {
		t.Fatal("the index says that it is of acct")
	}
}

func TestALetterThatChangedWhileNobodyLookedIsReadAtStart(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	settle(t, s)
	id := put(t, s, letter("1"), "x")
	require.NoError(t, s.Close())
	path := filepath.Join(dir, StatusOpen, fileName(id))
	write(t, strings.Replace(read(t, path), "Busy", "Odd!", 1), path)
	requireTruthAfterStart := func() {
		s := newStore(t, dir, keeping())
		requireTruth(t, dir, s)
	}
	requireTruthAfterStart()
}

func TestIndexThatIsDamagedAnywhere(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	settle(t, s)
	for _, document := range []string{"1", "2", "1", "3"} {
		put(t, s, letter(document), "x")
	}
	c, err := s.Claim(openIDs(s)[0])
	require.NoError(t, err)
	require.NoError(t, c.Discard(Resolution{}))
	require.NoError(t, s.Close())
	pristine := dir
	require.Len(t, segmentsOf(t, pristine), 1)
	whole := read(t, segmentsOf(t, pristine)[0])
	for n := 0; n < len(whole); n += 29 {
		dir := image(t, pristine)
		spoiled := []byte(whole)
		spoiled[n] ^= 1
		write(t, string(spoiled), segmentsOf(t, dir)[0])
		requireTruth(t, dir, nil)
		s, err := Open(dir, keeping())
		require.NoError(t, err)
		settle(t, s)
		requireTruth(t, dir, s)
		require.Equal(t, id3(t, dir), put(t, s, letter("3"), "x"), "it is raised")
		require.NoError(t, s.Close())
		requireTruth(t, dir, nil)
	}
}

func id3(t *testing.T, dir string) string {
	t.Helper()
	return listed(t, dir, Filter{Document: "3"})[0].ID
}

func TestWhatTheFolderSaidIsNotHeldAgainstWhatIsWrittenMeanwhile(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := put(t, s, letter("1"), "x")
	u, _ := parseUID(id)
	old := factsOf(u, listed(t, dir, Filter{})[0].Envelope)
	stamp, known := s.index.see(u)
	require.True(t, known)
	put(t, s, letter("1"), "x") // It is raised while its file is being read.
	require.False(t, s.index.correct(&old, stamp, known))
	requireTruth(t, dir, s)
	c, err := s.Claim(id)
	require.NoError(t, err)
	require.False(t, s.index.correct(&old, stamp, known), "nor is it open again")
	require.Empty(t, openIDs(s))
	require.NoError(t, c.Discard(Resolution{}))
}

func TestALetterThatIsPutBackByHandIsRead(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	settle(t, s)
	id := put(t, s, letter("1"), "x")
	c, err := s.Claim(id)
	require.NoError(t, err)
	require.NoError(t, c.Discard(Resolution{}))
	require.NoError(t, s.Close())
	write(t, strings.Replace(read(t, dir, StatusDiscarded, fileName(id)), "Busy", "Odd!", 1), dir, StatusOpen, fileName(id))
	require.NoError(t, os.Remove(filepath.Join(dir, StatusDiscarded, fileName(id))))
	requireTruth(t, dir, nil)
}

func TestLoadKnowsLessThanWhatHappensMeanwhile(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	settle(t, s)
	e := letter("1")
	put(t, s, e, "x")
	require.NoError(t, s.Close())
	x := newIndex(dir, newWaitingCalls())
	e.Outcome = "permanent"
	x.add(e) // Raised before the log was read.
	_, _, _, err = x.load(t.Context())
	require.NoError(t, err)
	open, _ := x.counts()
	require.Equal(t, 1, open[series{"acct", "permanent"}])
	x.log.close(0, false)
}

func TestStampsTellFilesOfTheSameMomentApart(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	stamps := map[uint32]bool{}
	for _, name := range []string{"a", "b"} {
		write(t, "1", dir, name)
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), now, now))
		stamps[stampAt(filepath.Join(dir, name))] = true
	}
	require.NoError(t, os.Chtimes(filepath.Join(dir, "a"), now, now.Add(time.Second)))
	stamps[stampAt(filepath.Join(dir, "a"))] = true
	write(t, "12", dir, "a")
	require.NoError(t, os.Chtimes(filepath.Join(dir, "a"), now, now))
	stamps[stampAt(filepath.Join(dir, "a"))] = true
	require.Len(t, stamps, 4)
	require.Zero(t, stampAt(filepath.Join(dir, "none")))
}

func TestRequestsWhoseKeysBeginAlikeAreNotMixedUp(t *testing.T) {
	s := newStore(t, t.TempDir(), keeping())
	one := letter("1")
	id := put(t, s, one, "x")
	u, _ := parseUID(id)
	f := factsOf(u, one)
	f.key = short(keyOf(letter("2")))
	s.index.mu.Lock()
	s.index.table.put(&f, s.index.round)
	s.index.mu.Unlock()
	require.NotEqual(t, id, put(t, s, letter("2"), "x"), "a document would be lost")
}

func BenchmarkTopOfTwentyThousand(b *testing.B) {
	dir := b.TempDir()
	require.NoError(b, os.MkdirAll(filepath.Join(dir, StatusOpen), 0o700))
	for i := range 20_000 {
		e := letter(strconv.Itoa(i))
		e.Schema, e.ID = Schema, fmt.Sprintf("0192d3c0-7a1b-7c3d-8e4f-%012x", i)
		data, err := e.encode()
		require.NoError(b, err)
		write(b, string(data), dir, StatusOpen, fileName(e.ID))
	}
	s, err := Open(dir, Options{})
	require.NoError(b, err)
	settle(b, s)
	require.NoError(b, s.Close())
	r, err := View(dir)
	require.NoError(b, err)
	for b.Loop() {
		groups, err := r.Top(Filter{}, TopOptions{})
		require.NoError(b, err)
		require.Equal(b, 20_000, groups[0].Letters)
	}
}
