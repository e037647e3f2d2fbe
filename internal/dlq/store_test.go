package dlq

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestOpenAfterACrash(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	whole := put(t, s, letter("whole"), "x")
	claimed := put(t, s, letter("claimed"), "y")
	_, err = s.Claim(claimed)
	require.NoError(t, err)
	half := put(t, s, letter("half"), "z")
	text := read(t, dir, "open", half+".json")
	write(t, text[:len(text)/2], dir, "open", half+".json")
	renamed := "00000000-0000-7000-8000-000000000000.json"
	write(t, read(t, dir, "open", whole+".json"), dir, "open", renamed)
	write(t, "", dir, "open", "notes.json")
	write(t, "half a payload", dir, "tmp", "put-1")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tmp", "folder"), 0o700))
	write(t, text, dir, "quarantine", half+".json") // From an earlier crash.
	require.NoError(t, s.Close())

	core, logs := observer.New(zap.InfoLevel)
	o := keeping()
	o.Logger = zap.New(core)
	s = newStore(t, dir, o)
	require.ElementsMatch(t, []string{"open/" + whole + ".json", "open/" + claimed + ".json"}, files(t, dir, "open"))
	require.Empty(t, files(t, dir, "claimed"))
	require.Empty(t, files(t, dir, "tmp"))
	require.ElementsMatch(t, []string{"quarantine/" + half + ".json", "quarantine/" + half + ".json.1", "quarantine/" + renamed, "quarantine/notes.json"}, files(t, dir, "quarantine"))
	require.Equal(t, text, read(t, dir, "quarantine", half+".json"), "what was in quarantine stays as it was")
	require.Equal(t, 3, logs.FilterMessage("unreadable dead letter moved to quarantine").Len())
	require.Equal(t, 1, logs.FilterMessageSnippet("open again").Len())
	require.InDelta(t, 2, metric(t, o, "open"), 0)
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)
	require.Equal(t, claimed, put(t, s, letter("claimed"), "y"))
}

func TestOpenNeverOverwritesWithAClaimedLetter(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, keeping())
	require.NoError(t, err)
	id := put(t, s, letter("1"), "x")
	text := read(t, dir, "open", id+".json")
	require.NoError(t, os.Rename(filepath.Join(dir, "open", id+".json"), filepath.Join(dir, "resolved", id+".json")))
	write(t, text, dir, "claimed", id+".json")
	require.NoError(t, s.Close())

	newStore(t, dir, keeping())
	require.Empty(t, files(t, dir, "open"), "a resolved letter must not be paid for again")
	require.Equal(t, []string{"quarantine/" + id + ".json"}, files(t, dir, "quarantine"))
	require.Equal(t, []string{"resolved/" + id + ".json"}, files(t, dir, "resolved"))
}

func TestOnlyOneProcessOpensAFolder(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	require.NoError(t, err)
	_, err = Open(dir, Options{})
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "another process")
	require.NoError(t, s.Close())
	newStore(t, dir, Options{})
}

func TestOpenFailsWithASentence(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	write(t, "", dir)
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, dir)

	registry := prometheus.NewRegistry()
	newStore(t, t.TempDir(), Options{Registerer: registry})
	other := t.TempDir()
	_, err = Open(other, Options{Registerer: registry})
	require.ErrorContains(t, err, "metrics")
	newStore(t, other, Options{}) // The lock was given back.
}

func TestMetricsFromTheStart(t *testing.T) {
	o := keeping()
	s, err := Open(t.TempDir(), o)
	require.NoError(t, err)
	for _, name := range []string{"bytes", "oldest_open_seconds", "write_errors_total", "dropped_total"} {
		require.InDelta(t, 0, metric(t, o, name), 0, name)
	}
	put(t, s, letter("1"), "x")
	require.InDelta(t, 60, metric(t, o, "oldest_open_seconds"), 5)
	require.NoError(t, s.Close())
	require.InDelta(t, -1, metric(t, o, "bytes"), 0, "a closed store reports nothing")
}

func TestGaugesFollowTheFolder(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	first, second := put(t, s, letter("1"), "x"), put(t, s, letter("2"), "y")
	require.InDelta(t, 2, metric(t, o, "open"), 0)

	away := filepath.Join(t.TempDir(), "away.json")
	require.NoError(t, os.Rename(filepath.Join(dir, "open", first+".json"), away))
	s.usage.next = time.Time{}
	require.InDelta(t, 1, metric(t, o, "open"), 0)
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)

	require.NoError(t, os.Rename(away, filepath.Join(dir, "open", first+".json")))
	write(t, "{", dir, "open", someID+".json")
	s.usage.next = time.Time{}
	require.InDelta(t, 2, metric(t, o, "open"), 0)
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)
	require.Equal(t, first, put(t, s, letter("1"), "x"), "a letter that was put back is known again")
	require.Equal(t, second, put(t, s, letter("2"), "y"))
}

func TestUnchangedFolderIsNotListedAgain(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	put(t, s, letter("1"), "x")
	past := time.Now().Add(-time.Minute)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "open"), past, past))
	s.reconcile()
	ghost := letter("ghost")
	ghost.ID = someID
	s.index.add(ghost) // Only a listing can tell that it does not exist.
	s.reconcile()
	open, _ := s.index.counts()
	require.Equal(t, 2, open[series{"acct", "exhausted"}])

	put(t, s, letter("2"), "x")
	s.reconcile()
	open, _ = s.index.counts()
	require.Equal(t, 2, open[series{"acct", "exhausted"}])
}

func TestHostileLabelsDoNotPanic(t *testing.T) {
	o := keeping()
	s := newStore(t, t.TempDir(), o)
	e := letter("1")
	e.Provider, e.Outcome, e.ErrorClass = "a\xff", "b\xff", "c\xff"
	put(t, s, e, "x")
	require.InDelta(t, 1, metric(t, o, "open"), 0)
	require.InDelta(t, 1, metric(t, o, "written_total"), 0)
}

func checkModes(t *testing.T, dir string) {
	t.Helper()
	n := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		require.Equal(t, want, info.Mode().Perm(), strings.TrimPrefix(path, dir))
		n++
		return nil
	}))
	require.Greater(t, n, len(layout()))
}
