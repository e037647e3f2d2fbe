package dlq

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// ended puts a letter and brings it to its end at a time.
func ended(t testing.TB, s *Store, document, body, status string, at time.Time) string {
	t.Helper()
	e := letter(document)
	e.FailedAt = at.Add(-time.Hour)
	id := put(t, s, e, body)
	c, err := s.Claim(id)
	require.NoError(t, err)
	if status == StatusDiscarded {
		require.NoError(t, c.Discard(Resolution{At: at}))
	} else {
		require.NoError(t, c.Resolve(strings.NewReader("result of "+document), Resolution{At: at}))
	}
	return id
}

func prunedAll(t testing.TB, s *Store, o PruneOptions) PruneReport {
	t.Helper()
	report, err := s.Prune(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, report.Failed)
	return report
}

func TestPruneTakesOldLettersThatEndedAndWhatOnlyTheyNeed(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	now := time.Now()
	old, young := now.Add(-49*time.Hour), now.Add(-47*time.Hour)
	ended(t, s, "old resolved", "a", StatusResolved, old)
	ended(t, s, "old discarded", "b", StatusDiscarded, old)
	kept := ended(t, s, "young resolved", "c", StatusResolved, young)
	ended(t, s, "shares its payload with an open letter", "d", StatusDiscarded, old)
	open := letter("open")
	open.FailedAt = old.Add(-1000 * time.Hour)
	openID := put(t, s, open, "d")
	claimed := letter("claimed")
	claimed.FailedAt = old
	c, err := s.Claim(put(t, s, claimed, "e"))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Release(nil)) }()
	moved := letter("moved by hand: its age is that of its failure")
	moved.FailedAt = old
	movedID := put(t, s, moved, "f")
	require.NoError(t, os.Rename(filepath.Join(dir, StatusOpen, movedID+".json"), filepath.Join(dir, StatusDiscarded, movedID+".json")))

	before := folderBytes(dir)
	require.Equal(t, PruneReport{}, prunedAll(t, s, PruneOptions{}), "0 keeps them")
	dry := prunedAll(t, s, PruneOptions{OlderThan: 48 * time.Hour, DryRun: true})
	require.Equal(t, before, folderBytes(dir))
	require.Equal(t, PruneReport{DryRun: true, Letters: 4, Payloads: 3, Results: 1, Bytes: dry.Bytes}, dry)
	report := prunedAll(t, s, PruneOptions{OlderThan: 48 * time.Hour})
	dry.DryRun = false
	require.Equal(t, dry, report, "a dry run promises what then happens")
	require.Equal(t, before-report.Bytes, folderBytes(dir))
	require.InDelta(t, float64(folderBytes(dir)), metric(t, o, "bytes"), 0)

	require.Equal(t, []string{"resolved/" + kept + ".json"}, files(t, dir, StatusResolved))
	require.Empty(t, files(t, dir, StatusDiscarded))
	require.Equal(t, []string{"results/" + kept}, files(t, dir, "results"))
	require.Equal(t, []string{"open/" + openID + ".json"}, files(t, dir, StatusOpen))
	require.Len(t, files(t, dir, "payloads"), 3)
	verified, err := Verify(dir, nil)
	require.NoError(t, err)
	require.True(t, verified.OK(), verified)
	require.Empty(t, verified.Orphans)
	require.Equal(t, PruneReport{}, prunedAll(t, s, PruneOptions{OlderThan: 48 * time.Hour}))
}

func TestPruneMakesRoomInAFullStore(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	o.MaxBytes = 20_000
	s := newStore(t, dir, o)
	ended(t, s, "old", strings.Repeat("x", 12_000), StatusDiscarded, time.Now().Add(-time.Hour))
	_, err := s.Put(t.Context(), letter("new"), strings.NewReader(strings.Repeat("y", 12_000)))
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, "dlq prune")
	require.Len(t, files(t, dir, StatusDiscarded), 1, "nothing goes by itself")
	prunedAll(t, s, PruneOptions{OlderThan: time.Minute})
	put(t, s, letter("new"), strings.Repeat("y", 12_000))
}

func TestPruneCollectsWhatLettersLeftBehind(t *testing.T) {
	dir, o := t.TempDir(), keeping()
	s := newStore(t, dir, o)
	put(t, s, letter("stays"), "a")
	gone := ended(t, s, "removed by hand", "bb", StatusResolved, time.Now())
	require.NoError(t, os.Remove(filepath.Join(dir, StatusResolved, gone+".json")))
	for _, strange := range []string{"payloads/notes.txt", "results/notes.txt", "payloads/" + hexSum("a")[:2] + "/notes"} {
		write(t, "somebody's own", dir, filepath.FromSlash(strange))
	}
	e := letter("a job that failed")
	e.Job = &Job{ID: "j", Start: &Request{BodySHA256: hexSum("start")}}
	put(t, s, e, "c")
	payload := filepath.Join(dir, filepath.FromSlash(payloadRef(hexSum("start"))))
	require.NoError(t, os.MkdirAll(filepath.Dir(payload), 0o700))
	write(t, "start", payload)

	report := prunedAll(t, s, PruneOptions{})
	require.Equal(t, PruneReport{Payloads: 1, Results: 1, Bytes: int64(len("bb") + len("result of removed by hand"))}, report)
	require.FileExists(t, payload, "the start of a job is needed too")
	require.Len(t, files(t, dir, "payloads"), 5)
	require.Equal(t, []string{"results/notes.txt"}, files(t, dir, "results"))
}

func TestPruneLeavesQuarantineAndWhatItMayNeed(t *testing.T) {
	for name, c := range map[string]struct {
		folder, file, text string
		unclear            int
		payloads           int
	}{
		"a letter that says which payload is its own": {"quarantine", someID + ".json", `{"raw_payload_ref":"` + payloadRef(hexSum("x")) + `","id`, 0, 1},
		"a letter that says it has none":              {"quarantine", someID + ".json.1", `{"raw_payload_ref": "", "id`, 0, 0},
		"a letter that says nothing":                  {"quarantine", someID + ".json", `{"schema":`, 1, 2},
		"an empty file":                               {"quarantine", someID + ".json", ``, 1, 2},
		"the record of a job":                         {"quarantine", hexSum("job") + ".json", `{"schema":`, 0, 0},
		"an unreadable letter in its own folder":      {"open", someID + ".json", `{"schema":`, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := newStore(t, dir, keeping())
			for _, body := range []string{"x", "y"} { // two orphans
				id := put(t, s, letter(body), body)
				require.NoError(t, os.Remove(filepath.Join(dir, "open", id+".json")))
			}
			write(t, c.text, dir, c.folder, c.file)
			write(t, "paid for", dir, "results", someID)
			report := prunedAll(t, s, PruneOptions{OlderThan: time.Nanosecond})
			require.Equal(t, c.unclear, report.Unclear)
			require.Len(t, files(t, dir, "payloads"), c.payloads)
			require.Equal(t, c.text, read(t, dir, c.folder, c.file))
			require.Equal(t, c.file == hexSum("job")+".json", len(files(t, dir, "results")) == 0, "the result of a letter that may be mended stays")
		})
	}
}

// A letter is written while a prune has read all letters and removed nothing yet. Its payload was an orphan until then.
func TestPruneSparesThePayloadThatANewLetterTakesUp(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	ended(t, s, "old", "the body", StatusDiscarded, time.Now().Add(-time.Hour))
	wrote := false
	s.folders.sync = func(folder string) error {
		if filepath.Base(folder) == StatusResolved && !wrote {
			wrote = true
			put(t, s, letter("new"), "the body")
		}
		return syncFolder(folder)
	}
	require.Equal(t, 1, prunedAll(t, s, PruneOptions{OlderThan: time.Minute}).Letters)
	require.True(t, wrote)
	require.Len(t, files(t, dir, "payloads"), 1)
	require.Zero(t, prunedAll(t, s, PruneOptions{}).Payloads)
}

// A letter that was being written when the prune began has its payload in place, and noted nowhere.
func TestPruneWaitsForWhatWasBeingWritten(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, dir, keeping())
		placed := make(chan struct{})
		s.folders.sync = func(folder string) error {
			if strings.Contains(folder, hexSum("the body")[:2]) {
				<-placed
			}
			return syncFolder(folder)
		}
		var wg sync.WaitGroup
		wg.Go(func() { put(t, s, letter("1"), "the body") })
		synctest.Wait()
		require.Len(t, files(t, dir, "payloads"), 1)
		require.Empty(t, files(t, dir, "open"))
		var report PruneReport
		wg.Go(func() { report, _ = s.Prune(t.Context(), PruneOptions{}) })
		synctest.Wait()
		close(placed)
		wg.Wait()
		require.Equal(t, PruneReport{}, report)
		require.Len(t, files(t, dir, "payloads"), 1)
	})
}

// beginning is a prune whose looks a test takes one by one.
func beginning(t *testing.T, s *Store) *prune {
	t.Helper()
	require.True(t, s.pruning.begin())
	t.Cleanup(s.pruning.end)
	return &prune{store: s, report: &PruneReport{}, unclear: map[string]struct{}{}, quarantined: map[string]struct{}{}}
}

func TestPruneKnowsALetterThatGoesBackToAFolderItHasRead(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := put(t, s, letter("1"), "x")
	p := beginning(t, s)
	require.NoError(t, p.look(t.Context(), StatusClaimed, nil))
	c, err := s.Claim(id)
	require.NoError(t, err)
	require.NoError(t, p.look(t.Context(), StatusOpen, nil))
	require.NoError(t, c.Release(nil))
	require.NoError(t, p.look(t.Context(), StatusClaimed, nil))
	require.NoError(t, p.removePayloads(t.Context()))
	require.Len(t, files(t, dir, "payloads"), 1)
}

func TestPruneFindsALetterThatPeopleMovedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := ended(t, s, "1", "x", StatusResolved, time.Now())
	p := beginning(t, s)
	require.NoError(t, p.look(t.Context(), StatusOpen, nil))
	require.NoError(t, os.Rename(filepath.Join(dir, StatusResolved, id+".json"), filepath.Join(dir, StatusOpen, id+".json")))
	require.NoError(t, p.look(t.Context(), StatusResolved, nil))
	require.NoError(t, p.lookAgain(t.Context()))
	require.NoError(t, p.removePayloads(t.Context()))
	require.Len(t, files(t, dir, "payloads"), 1)
}

func TestPruneUnderManyHands(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	ctx, stop := context.WithCancel(t.Context())
	var hands sync.WaitGroup
	for n := range 4 {
		hands.Go(func() {
			for i := range 60 {
				body := string(rune('a' + (i+n)%5)) // few contents, so that letters take up each other's
				id, err := s.Put(t.Context(), letter(body+string(rune('0'+n))), strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				c, err := s.Claim(id)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err == nil {
					if i%3 == 0 {
						err = c.Discard(Resolution{At: time.Now().Add(-time.Hour)})
					} else {
						err = c.Release(func(e *Envelope) { e.TraceID = "t" })
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	var pruner sync.WaitGroup
	pruner.Go(func() {
		for ctx.Err() == nil {
			if _, err := s.Prune(t.Context(), PruneOptions{OlderThan: time.Nanosecond}); err != nil {
				t.Error(err)
			}
		}
	})
	hands.Wait()
	stop()
	pruner.Wait()
	report, err := Verify(dir, nil)
	require.NoError(t, err)
	require.Empty(t, report.Broken, "no letter has lost its payload")
	require.Positive(t, report.Letters[StatusOpen])
}

func TestPruneThatCannotRun(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := ended(t, s, "old", "x", StatusDiscarded, time.Now().Add(-time.Hour))
	require.True(t, s.pruning.begin())
	_, err := s.Prune(t.Context(), PruneOptions{})
	require.ErrorIs(t, err, ErrPruning)
	s.pruning.end()

	gone, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the caller has gone")
	cancel(cause)
	_, err = s.Prune(gone, PruneOptions{OlderThan: time.Nanosecond})
	require.ErrorIs(t, err, cause)
	require.Equal(t, []string{"discarded/" + id + ".json"}, files(t, dir, StatusDiscarded))

	require.NoError(t, s.Close())
	_, err = s.Prune(t.Context(), PruneOptions{OlderThan: time.Nanosecond})
	require.ErrorIs(t, err, fs.ErrClosed)
	require.Len(t, files(t, dir, StatusDiscarded), 1)
}

func TestPruneKeepsThePayloadOfALetterThatIsOpenedAgainUnderItsHands(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir, keeping())
	id := ended(t, s, "1", "a", StatusDiscarded, time.Now().Add(-48*time.Hour))
	e, size, err := readEnvelope(s.path(StatusDiscarded, fileName(id)))
	require.NoError(t, err)
	// Between the look at it and its end.
	require.NoError(t, os.Rename(s.path(StatusDiscarded, fileName(id)), s.path(StatusOpen, fileName(id))))
	p := prune{store: s, options: PruneOptions{OlderThan: time.Hour}, report: &PruneReport{}, before: time.Now().Add(-time.Hour)}
	p.judge(StatusDiscarded, e, size)
	require.NoError(t, p.removePayloads(t.Context()))
	require.True(t, s.hasPayload(e))
	require.Zero(t, p.report.Letters)
}
