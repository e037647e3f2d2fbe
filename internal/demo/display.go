package demo

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// display shows how far the batch is. Its methods may be called concurrently.
type display interface {
	// say writes one line that stays.
	say(format string, args ...any)
	// progress tells how many documents are back and what the proxy is doing at present.
	progress(done int, status string)
	// end leaves the cursor at the beginning of a line.
	end()
}

func newDisplay(w io.Writer, terminal bool, documents int) display {
	if terminal {
		return newBar(w, documents)
	}
	return &lines{w: w, documents: documents, start: time.Now()}
}

// stamp is the time since the start of the batch.
func stamp(start time.Time) string { return fmt.Sprintf("%6.1fs  ", time.Since(start).Seconds()) }

// bar keeps a progress bar below the lines that stay.
type bar struct {
	mu    sync.Mutex
	w     io.Writer
	start time.Time
	bar   *progressbar.ProgressBar
}

func newBar(w io.Writer, documents int) *bar {
	return &bar{w: w, start: time.Now(), bar: progressbar.NewOptions(documents,
		progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(24), progressbar.OptionUseANSICodes(true), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetTheme(progressbar.ThemeASCII), progressbar.OptionClearOnFinish(),
	)}
}

func (b *bar) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.bar.Clear() // a terminal that has gone is no reason to end
	_, _ = fmt.Fprintf(b.w, stamp(b.start)+format+"\n", args...)
	_ = b.bar.RenderBlank()
}

func (b *bar) progress(done int, status string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bar.Describe(status)
	_ = b.bar.Set(done)
}

func (b *bar) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.bar.Clear()
}

// lines writes plain lines, for files and pipes: what is said, and the progress every few seconds.
type lines struct {
	mu        sync.Mutex
	w         io.Writer
	documents int
	start     time.Time
	told      time.Time
}

// tellEvery is the time between two lines of progress.
const tellEvery = 2 * time.Second

func (l *lines) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.w, stamp(l.start)+format+"\n", args...)
}

func (l *lines) progress(done int, status string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.told) < tellEvery {
		return
	}
	l.told = time.Now()
	_, _ = fmt.Fprintf(l.w, "%s%d/%d documents, %s\n", stamp(l.start), done, l.documents, status)
}

func (l *lines) end() {}
