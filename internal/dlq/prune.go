package dlq

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"
)

// ErrPruning says that a prune is under way already.
var ErrPruning = errors.New("the store is being pruned already: wait for the end of that")

// PruneOptions say what goes.
type PruneOptions struct {
	// OlderThan is the age from which resolved and discarded letters go, by their resolution or, where people moved them
	// by hand, their last failure; 0 keeps them all.
	OlderThan time.Duration
	// DryRun counts and removes nothing.
	DryRun bool
}

// PruneReport says what went, or would go.
type PruneReport struct {
	// DryRun is true when nothing was removed.
	DryRun bool `json:"dry_run"`
	// Letters counts the resolved and discarded letters.
	Letters int `json:"letters"`
	// Payloads counts the request bodies that no letter needs any more.
	Payloads int `json:"payloads"`
	// Results counts what replays brought back for letters that are gone.
	Results int `json:"results"`
	// Bytes is the size of all of them.
	Bytes int64 `json:"bytes"`
	// Unclear counts the letters, in quarantine or elsewhere, of which nobody can tell which payload is theirs. While there is one, every
	// payload stays.
	Unclear int `json:"unclear"`
	// Failed counts the files that could not be removed; the log names them.
	Failed int `json:"failed"`
}

// Prune removes resolved and discarded letters that are old enough, and
// payloads and results that no letter leads to. Letters may be written, and
// claimed and settled, meanwhile: nothing that one of them leads to goes. Open
// and claimed letters and whatever lies in quarantine are never touched.
//
// The error is [ErrPruning], [fs.ErrClosed] after Close, the context's cause
// when it ended first, or what the disk said; the report says what was done
// until then.
func (s *Store) Prune(ctx context.Context, o PruneOptions) (PruneReport, error) {
	report := PruneReport{DryRun: o.DryRun}
	if !s.pruning.begin() {
		return report, ErrPruning
	}
	defer s.pruning.end()
	done, err := s.begin(ctx) // Close waits for it.
	if err != nil {
		return report, err
	}
	defer done()
	p := prune{store: s, options: o, report: &report, before: time.Now().Add(-o.OlderThan), unclear: map[string]struct{}{}, quarantined: map[string]struct{}{}}
	err = p.run(ctx)
	report.Unclear = len(p.unclear)
	if !o.DryRun {
		s.log.Info("dead letters pruned", zap.Int("letters", report.Letters), zap.Int("payloads", report.Payloads), zap.Int("results", report.Results),
			zap.Int64("bytes", report.Bytes), zap.Int("unclear", report.Unclear), zap.Int("failed", report.Failed), zap.Error(err))
	}
	if err != nil {
		return report, fmt.Errorf("prune dead letters: %w", err)
	}
	return report, nil
}

// prune is the state of one Prune. Its memory is two numbers a letter.
type prune struct {
	store   *Store
	options PruneOptions
	report  *PruneReport
	before  time.Time // Letters from before then are old.

	seen        []uint64            // Beginnings of the keys of letters that were read, see idMark.
	wanted      []uint64            // Beginnings of the hashes that the letters which stay lead to. Two that begin alike are kept both.
	unclear     map[string]struct{} // Paths.
	quarantined map[string]struct{} // Ids of letters in quarantine, readable or not.
}

func (p *prune) run(ctx context.Context) error {
	// A letter that moves on is met in one of the folders to come, since letters move in this order. Those that are claimed may also go back
	// to open, hence the first look; who is claimed after it has been noted.
	for _, status := range append([]string{StatusClaimed}, statuses()...) {
		if err := p.look(ctx, status, nil); err != nil {
			return err
		}
	}
	if err := p.lookAgain(ctx); err != nil {
		return err
	}
	if err := p.lookIntoQuarantine(ctx); err != nil {
		return err
	}
	if !p.options.DryRun && p.report.Letters > 0 {
		// A letter that a crash brings back must find its payload.
		for _, status := range []string{StatusResolved, StatusDiscarded} {
			if err := p.store.folders.commit(p.store.path(status)); err != nil {
				return err
			}
		}
	}
	slices.Sort(p.wanted)
	if err := p.removeResults(ctx); err != nil {
		return err
	}
	return p.removePayloads(ctx)
}

// lookAgain finds, by their names, the letters that people moved by hand meanwhile.
func (p *prune) lookAgain(ctx context.Context) error {
	slices.Sort(p.seen)
	read := slices.Clip(p.seen)
	for _, status := range statuses() {
		if err := p.look(ctx, status, read); err != nil {
			return err
		}
	}
	return nil
}

// look reads the letters of a folder but for those that have been read.
func (p *prune) look(ctx context.Context, status string, read []uint64) error {
	return eachFile(ctx, p.store.path(status), func(f fs.DirEntry) error {
		id, ok := letterID(f.Name())
		if !ok {
			return nil
		}
		if _, known := slices.BinarySearch(read, idMark(id)); known {
			return nil
		}
		e, size, err := readEnvelope(p.store.path(status, f.Name()))
		switch {
		case err == nil:
			p.seen = append(p.seen, idMark(id))
			p.judge(status, e, size)
		case !folderMissing(err): // Else it has moved on.
			p.readMentions(p.store.path(status, f.Name()))
		}
		return nil
	})
}

// judge removes a letter, or keeps what it leads to.
func (p *prune) judge(status string, e *Envelope, size int64) {
	if p.goes(status, e) && p.removeLetter(status, e, size) {
		return
	}
	for _, sum := range sumsOf(e) {
		p.wanted = append(p.wanted, sumMark(sum))
	}
}

// goes tells whether a letter is old enough.
func (p *prune) goes(status string, e *Envelope) bool {
	if p.options.OlderThan <= 0 || status != StatusResolved && status != StatusDiscarded {
		return false
	}
	at := e.FailedAt
	if e.Resolution != nil && e.Resolution.At.After(at) {
		at = e.Resolution.At
	}
	return at.Before(p.before)
}

// removeLetter removes a letter and what its replay brought back. It is false when the letter is still there.
func (p *prune) removeLetter(status string, e *Envelope, size int64) bool {
	if !p.remove(p.store.path(status, fileName(e.ID)), size, &p.report.Letters) {
		return false
	}
	result := p.store.path(resultsFolder, e.ID)
	if info, err := os.Lstat(result); err == nil {
		p.remove(result, info.Size(), &p.report.Results)
	}
	return true
}

// remove removes a file of the store and counts it.
func (p *prune) remove(path string, size int64, count *int) bool {
	if !p.options.DryRun {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false // Somebody was faster: removed it, or moved it to where it still needs its payload.
		}
		if err != nil {
			p.store.log.Warn("a file of the dead-letter store cannot be removed", zap.String("file", path), zap.Error(err))
			p.report.Failed++
			return false
		}
		p.store.usage.grow(-size)
	}
	*count++
	p.report.Bytes += size
	return true
}

// removeResults removes results without a letter: people removed it, or a crash came in between.
func (p *prune) removeResults(ctx context.Context) error {
	return eachFile(ctx, p.store.path(resultsFolder), func(f fs.DirEntry) error {
		id := f.Name()
		if _, kept := p.quarantined[id]; kept || !validID(id) {
			return nil
		}
		for range 2 { // As in Reader.Get.
			if p.store.exists(fileName(id), statuses()...) {
				return nil
			}
		}
		if info, err := f.Info(); err == nil {
			p.remove(p.store.path(resultsFolder, id), info.Size(), &p.report.Results)
		}
		return nil
	})
}
