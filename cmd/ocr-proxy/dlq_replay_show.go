package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

// replayTally counts what became of the selected letters.
type replayTally struct {
	Selected int `json:"selected"`
	Resolved int `json:"resolved"`
	Failed   int `json:"failed"`
	Refused  int `json:"refused"`
	// Elsewhere were dealt with by somebody else meanwhile.
	Elsewhere int `json:"elsewhere"`
	// UnderWay were in the proxy's hands when the run was stopped; it goes on with them.
	UnderWay int `json:"under_way"`

	failures  []string
	sentences []*refusals
}

// refusals are letters that were refused for the same reason.
type refusals struct {
	sentence string
	id       string // of the first
	n        int
}

// maxFailures bounds the failures that are told one by one.
const maxFailures = 20

func (t *replayTally) fail(id, why string) {
	t.Failed++
	if len(t.failures) < maxFailures {
		t.failures = append(t.failures, id+"  "+short(why, 240))
	}
}

func (t *replayTally) refuse(id, sentence string) {
	t.Refused++
	for _, r := range t.sentences {
		if r.sentence == sentence {
			r.n++
			return
		}
	}
	if len(t.sentences) < maxFailures {
		t.sentences = append(t.sentences, &refusals{sentence, id, 1})
	}
}

// left are the letters that did not have their turn.
func (t *replayTally) left() int { return t.Selected - t.Resolved - t.Failed - t.Refused - t.Elsewhere }

// write writes the end of the story.
func (t *replayTally) write(cmd *cobra.Command, output string) error {
	if output == outputJSON {
		return printJSON(cmd.OutOrStdout(), t)
	}
	w := cmd.OutOrStdout()
	if t.Selected == 0 {
		_, err := io.WriteString(w, "nothing to replay\n")
		return err
	}
	for _, line := range t.failures {
		_, _ = fmt.Fprintf(w, "failed again  %s\n", line) // the last line's error is enough
	}
	if more := t.Failed - len(t.failures); more > 0 {
		_, _ = fmt.Fprintf(w, "failed again  %d more; see `ocr-proxy dlq top`\n", more)
	}
	t.writeRefused(w)
	_, err := fmt.Fprintf(w, "%d selected: %d resolved, %d failed again, %d refused, %d dealt with elsewhere, %d not done\n",
		t.Selected, t.Resolved, t.Failed, t.Refused, t.Elsewhere, t.left())
	return err
}

func (t *replayTally) writeRefused(w io.Writer) {
	for _, r := range t.sentences {
		which := r.id
		if r.n > 1 {
			which = fmt.Sprintf("%s and %d more", r.id, r.n-1)
		}
		_, _ = fmt.Fprintf(w, "refused  %s: %s\n", which, printable(r.sentence)) // the caller's last line tells of an error
	}
}

// replayDisplay shows how far a run is.
type replayDisplay interface {
	progress(t replayTally)
	// waits tells that something waits until then, and why.
	waits(what string, until time.Time, why string)
	// end leaves the cursor at the beginning of a line.
	end()
}

func newReplayDisplay(w io.Writer, letters int) replayDisplay {
	if letters > 0 && terminalWidth(w) > 0 {
		return &replayBar{room: max(terminalWidth(w)-barWidth, 16), bar: progressbar.NewOptions(letters,
			progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(24), progressbar.OptionUseANSICodes(true), progressbar.OptionShowCount(),
			progressbar.OptionShowDescriptionAtLineEnd(), progressbar.OptionSetTheme(progressbar.ThemeASCII), progressbar.OptionClearOnFinish())}
	}
	return &replayLines{w: w, told: time.Now()}
}

// replayBar is for a person at a terminal.
type replayBar struct {
	bar  *progressbar.ProgressBar
	room int // for what is said behind the bar
}

// barWidth is what percentage, bar, counts and times take of a line.
const barWidth = 58

func (b *replayBar) progress(t replayTally) {
	b.bar.Describe(fmt.Sprintf("%d resolved, %d failed, %d refused", t.Resolved, t.Failed, t.Refused))
	_ = b.bar.Set(t.Selected - t.left()) // a terminal that has gone is no reason to end
}

func (b *replayBar) waits(what string, until time.Time, why string) {
	b.bar.Describe(short("waits until "+until.UTC().Format("15:04:05Z")+": "+what+": "+why, b.room)) // a second line would stay on the screen
	_ = b.bar.RenderBlank()
}

func (b *replayBar) end() { _ = b.bar.Clear() }

// replayLines is for files and pipes.
type replayLines struct {
	w      io.Writer
	told   time.Time
	waited string // what was last told to wait
}

// replayTellEvery is the time between two lines of progress.
const replayTellEvery = 5 * time.Second

func (l *replayLines) progress(t replayTally) {
	if time.Since(l.told) < replayTellEvery {
		return
	}
	l.told, l.waited = time.Now(), ""
	_, _ = fmt.Fprintf(l.w, "%d of %d: %d resolved, %d failed again, %d refused\n", t.Selected-t.left(), t.Selected, t.Resolved, t.Failed, t.Refused)
}

func (l *replayLines) waits(what string, until time.Time, why string) {
	if l.waited == what && time.Since(l.told) < replayTellEvery {
		return
	}
	l.told, l.waited = time.Now(), what
	_, _ = fmt.Fprintln(l.w, waitLine(what, until, why))
}

func (*replayLines) end() {}

func waitLine(what string, until time.Time, why string) string {
	return fmt.Sprintf("%s waits until %s: %s", printable(what), when(until), printable(why))
}

// replayCost is what a run would cost.
type replayCost struct {
	Letters int `json:"letters"`
	Calls   int `json:"calls"`
	// Pages are those of the letters whose requests tell; Unknown are the other letters.
	Pages     int `json:"pages"`
	Unknown   int `json:"letters_with_unknown_pages"`
	Ambiguous int `json:"ambiguous"`
	Refused   int `json:"refused"`
}

// estimate asks the proxy what a run would cost, and says it.
func (f *replayFlags) estimate(cmd *cobra.Command, client *replayClient, letters []selectedLetter) error {
	cost, told := replayCost{Letters: len(letters)}, replayTally{}
	for _, l := range letters {
		reply, err := f.ask(cmd.Context(), client, l)
		switch {
		case err != nil:
			return err
		case reply.status == http.StatusUnprocessableEntity:
			cost.Refused++
			told.refuse(l.id, reply.sentence)
			continue
		case reply.status != http.StatusOK:
			continue // no longer open
		}
		e := reply.estimate
		cost.Calls += e.Calls
		if e.Ambiguous {
			cost.Ambiguous++
		}
		if e.Pages == nil {
			cost.Unknown++
		} else {
			cost.Pages += *e.Pages
		}
	}
	if f.output == outputJSON {
		return printJSON(cmd.OutOrStdout(), cost)
	}
	told.writeRefused(cmd.OutOrStdout())
	_, err := io.WriteString(cmd.OutOrStdout(), cost.String())
	return err
}

func (c replayCost) String() string {
	line := fmt.Sprintf("%s would cost %d calls, if none has to be repeated; ", lettersOf(c.Letters), c.Calls)
	switch {
	case c.Unknown == 0:
		line += fmt.Sprintf("%d pages", c.Pages)
	case c.Pages == 0:
		line += "how many pages is not known"
	default:
		line += fmt.Sprintf("%d pages, and those of %s that do not say how many", c.Pages, lettersOf(c.Unknown))
	}
	if c.Ambiguous > 0 {
		line += fmt.Sprintf("; %d may have been done already", c.Ambiguous)
	}
	if c.Refused > 0 {
		line += fmt.Sprintf("; %d cannot be sent", c.Refused)
	}
	return line + "\n"
}

func (*replayFlags) ask(ctx context.Context, client *replayClient, l selectedLetter) (replayReply, error) {
	reply, err := client.estimate(ctx, l.id)
	if err != nil && !denied(err) {
		return reply, fmt.Errorf("no proxy answers at %s: start it first, it is the proxy that replays: %w", client.Base(), err)
	}
	return reply, err
}
