package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// report is what a run has found.
type report struct {
	options     options
	took, quiet time.Duration
	tally       tally
	lives       []life
	done        map[string]int
	faults      map[string]int
	counts      map[string]int
	replays     int
	resolved    int
	disk        string
	redis       bool
	verified    string
}

// grown names what the proxy holds more of at the end of a process than when it was warm.
func (r *report) grown() (all []string) {
	for i, l := range r.lives {
		for _, g := range l.before.compare(l.after) {
			all = append(all, fmt.Sprintf("process %d: %s", i+1, g))
		}
		if second, last, flat := grewTo(l.samples); !flat {
			all = append(all, fmt.Sprintf("process %d: resident memory under load: %s in its second quarter, %s in its last", i+1, mb(second), mb(last)))
		}
	}
	return all
}

// hit names what the run did not meet, so that it would not have noticed anything.
func (r *report) missed() (all []string) {
	t := r.tally
	for what, n := range map[string]int{"answers": t.answered, "dead letters": t.lettered, "lost answers": t.lostAnswers, "job starts under a token": t.starts} {
		if n == 0 {
			all = append(all, "the run has seen no "+what+": give -for more time")
		}
	}
	return all
}

func (r *report) clean() bool { return r.tally.clean() && len(r.grown()) == 0 && len(r.missed()) == 0 }

// rows are the figures: what, how many, what is asked of them.
func (r *report) rows() [][3]string {
	t := r.tally
	n := strconv.Itoa
	last := r.lives[len(r.lives)-1]
	second, final, _ := grewTo(last.samples)
	rows := [][3]string{
		{"documents sent", n(t.documents), ""},
		{"answered with their own text", n(t.answered), ""},
		{"dead-lettered, letter and payload whole", n(t.lettered), ""},
		{"of these read later by `dlq replay`", n(t.replayed), ""},
		{"told that they were not taken, nothing kept or paid", n(t.refused), ""},
		{"told that they failed while the disk was full: no letter, or one without the document", n(t.unkept), "only then"},
		{"**lost**", n(len(t.lost)), "0"},
		{"**accounted for or paid for twice**", n(len(t.duplicated)), "0"},
		{"other disagreements", n(len(t.wrong)), "0"},
		{"readings by the providers", n(t.billed), ""},
		{"readings whose answer was lost on the way, as injected", n(t.lostAnswers), ""},
		{"readings repeated after a lost answer", n(t.repaid), "at most those"},
		{"documents under `retry.ambiguous: never`", n(t.strict), "any repeat counts as paid twice"},
		{"job starts under a token", n(t.starts), "a second token or job counts as paid twice"},
		{"readings repeated because the proxy ended over them", n(t.acrossEnd), ""},
		{"readings repeated for workers that hung up while their answer was on its way", n(t.hungUp), fmt.Sprintf("at most 1 in %d of those that hung up", hangUpShare)},
		{"jobs started anew by the replay of a failed job's letter", n(t.renewed), ""},
	}
	for i, l := range r.lives {
		rows = append(rows,
			[3]string{fmt.Sprintf("process %d (%s): goroutines, warm and at its end", i+1, l.length.Round(time.Second)), fmt.Sprintf("%d, %d", l.before.goroutines, l.after.goroutines), fmt.Sprintf("at most %d more", goroutinesMore)},
			[3]string{fmt.Sprintf("process %d: descriptors", i+1), fmt.Sprintf("%d, %d", l.before.files, l.after.files), fmt.Sprintf("at most %d more", filesMore)},
			[3]string{fmt.Sprintf("process %d: temporary files; requests in flight", i+1), fmt.Sprintf("%d; %d", l.after.bodies, l.after.inFlight), "0; 0"},
			[3]string{fmt.Sprintf("process %d: resident memory in quiet; its peak", i+1), fmt.Sprintf("%s, %s; %s", mb(l.before.resident), mb(l.after.resident), mb(l.peak)), ""},
		)
	}
	if second > 0 {
		rows = append(rows, [3]string{
			"last process: resident memory under load, median of its second and last quarter; slope", fmt.Sprintf("%s, %s; %+.1f MB an hour", mb(second), mb(final), slope(last.samples)/(1<<20)),
			fmt.Sprintf("at most ×%.2f + %s", memoryShare, mb(memoryMore)),
		})
	}
	return rows
}

// happened tells what was done.
func (r *report) happened() [][2]string {
	var rows [][2]string
	for _, name := range slices.Sorted(maps.Keys(r.done)) {
		rows = append(rows, [2]string{name, strconv.Itoa(r.done[name])})
	}
	rows = append(rows, [2]string{"restarts of the proxy under load", strconv.Itoa(len(r.lives) - 1)})
	rows = append(rows, [2]string{"runs of dlq replay; letters that they resolved", fmt.Sprintf("%d; %d", r.replays, r.resolved)})
	for _, counts := range []map[string]int{r.faults, r.counts} {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			rows = append(rows, [2]string{name, strconv.Itoa(counts[name])})
		}
	}
	return rows
}

const shown = 20 // Lines of each kind of fault.

// table is the report for a terminal.
func (r *report) table() string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range r.happened() {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
	}
	_, _ = fmt.Fprintf(w, "\nLEDGER\t\tASKED\n")
	for _, row := range r.rows() {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", strings.NewReplacer("*", "", "`", "").Replace(row[0]), row[1], row[2])
	}
	_ = w.Flush()
	fmt.Fprintf(&b, "dlq verify: %s\n%s under load and %s in quiet; full disk: %s\n", r.verified, (r.took - r.quiet).Round(time.Second), r.quiet.Round(time.Second), r.disk)
	if !r.redis {
		b.WriteString("!!! WITHOUT REDIS\n")
	}
	for _, f := range []struct {
		name  string
		lines []string
	}{{"LOST", r.tally.lost}, {"TWICE", r.tally.duplicated}, {"WRONG", r.tally.wrong}, {"GROWN", r.grown()}, {"MISSED", r.missed()}} {
		for i, line := range f.lines {
			if i == shown {
				fmt.Fprintf(&b, "%s: and %d more\n", f.name, len(f.lines)-shown)
				break
			}
			fmt.Fprintf(&b, "%s: %s\n", f.name, line)
		}
	}
	if r.clean() {
		b.WriteString("Every document was told of once and paid for once, and nothing has grown.\n")
	}
	return b.String()
}

// markdown is the report for docs/reliability.md.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s under load, %d workers, seed %d.\n\n| ledger | figure | asked |\n|---|---|---|\n", (r.took - r.quiet).Round(time.Second), r.options.workers, r.options.seed)
	for _, row := range r.rows() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row[0], row[1], row[2])
	}
	b.WriteString("\n| what happened | times |\n|---|---|\n")
	for _, row := range r.happened() {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	return b.String()
}

func mb(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/(1<<20)) }
