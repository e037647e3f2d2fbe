package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// row is one line of a scenario's table.
type row struct {
	name  string // in a flag
	title string // in the table
	trial trial
}

// scenario is a table and the bars that it has to clear.
type scenario struct {
	name  string
	title string
	rows  []row
	aside bool                                      // the rows are measured all at once, beside the other scenarios
	head  []string                                  // of the columns after the first
	cells func(r *result) []string                  // of one row
	bars  func(f *fleet, of func(row string) found) // nil: none
}

// found is a row's result, if it was measured.
type found struct {
	result *result
	why    string // why it was not
}

// fleet runs scenarios.
type fleet struct {
	place place
	scale scale
	out   io.Writer
	only  []string // patterns of "scenario/row"; empty: all

	results map[string]found
	begun   map[string]chan found // what is measured aside
	bars    []bar
	text    []string // what has been said in tables
}

// wants reports whether a row was asked for.
func (f *fleet) wants(scenario, row string) bool {
	for _, pattern := range f.only {
		for _, name := range []string{scenario, scenario + "/" + row} {
			if ok, err := path.Match(pattern, name); err == nil && ok {
				return true
			}
		}
	}
	return len(f.only) == 0
}

func (f *fleet) say(format string, args ...any) { _, _ = fmt.Fprintf(f.out, format, args...) }

// play measures the rows of a scenario that were asked for, and shows them.
func (f *fleet) play(ctx context.Context, s scenario) error {
	t := table{head: slices.Concat([]string{"strategy"}, s.head, []string{"machine late p50, p99, max ms"})}
	var notes []string
	for _, row := range s.rows {
		if !f.wants(s.name, row.name) {
			continue
		}
		key := s.name + "/" + row.name
		var got found
		if begun := f.begun[key]; begun != nil {
			got = <-begun
		} else {
			got = f.measure(ctx, key, row.trial, func() {})
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.results[key] = got
		if got.why != "" {
			notes = append(notes, fmt.Sprintf("%s was not measured: %s", row.title, got.why))
			continue
		}
		t.rows = append(t.rows, slices.Concat([]string{row.title}, s.cells(got.result), []string{got.result.delays.cell()}))
		notes = append(notes, f.account(s.name, row, got.result)...)
	}
	if len(t.rows)+len(notes) == 0 {
		return nil
	}
	f.show(s.title, t, notes)
	if s.bars != nil {
		s.bars(f, func(row string) found { return f.results[s.name+"/"+row] })
	}
	return nil
}

// measure makes one trial and says how long it took.
func (f *fleet) measure(ctx context.Context, key string, t trial, ready func()) found {
	began := time.Now()
	r, err := f.run(ctx, t, ready)
	if err != nil {
		return found{why: err.Error()}
	}
	f.say("  %s: %s, machine late by %s ms\n", key, time.Since(began).Round(100*time.Millisecond), r.delays.cell())
	return found{result: r}
}

// begin starts the rows that are measured beside the others, and returns when all of them run.
func (f *fleet) begin(ctx context.Context, scenarios []scenario) {
	f.begun = map[string]chan found{}
	var started sync.WaitGroup
	defer started.Wait()
	for _, s := range scenarios {
		for _, row := range s.rows {
			if s.aside && f.wants(s.name, row.name) {
				begun := make(chan found, 1)
				f.begun[s.name+"/"+row.name] = begun
				started.Add(1)
				go func() { begun <- f.measure(ctx, s.name+"/"+row.name, row.trial, started.Done) }()
			}
		}
	}
}

// account says what became of documents that are not accounted for, and lays down that there must be none.
func (f *fleet) account(scenario string, row row, r *result) []string {
	notes := r.notes
	for i, fault := range r.faults {
		if i == 5 {
			notes = append(notes, fmt.Sprintf("… and %d more", len(r.faults)-i))
			break
		}
		notes = append(notes, "LOST: "+row.title+": "+fault)
	}
	if n := r.backlog.late + r.stream.late; n > 0 {
		notes = append(notes, fmt.Sprintf("%s: broken off after %s, when %d documents had no answer yet", row.title, r.makespan.Round(time.Second), n))
	}
	if n := r.backlog.paidTwice + r.stream.paidTwice; n > 0 {
		notes = append(notes, fmt.Sprintf("%s: %d documents were answered twice by the provider", row.title, n))
	}
	f.bars = append(f.bars, bar{scenario: scenario, what: row.name + ": documents neither answered nor dead-lettered", value: float64(len(r.faults))})
	return notes
}

// show prints a table and what there is to say about it.
func (f *fleet) show(title string, t table, notes []string) {
	var text strings.Builder
	text.WriteString("### " + title + "\n\n")
	if len(t.rows) > 0 {
		text.WriteString(t.markdown())
	}
	for _, note := range notes {
		text.WriteString("\n" + note + ".\n")
	}
	f.text = append(f.text, text.String())
	f.say("\n%s\n", &text)
}

// demand adds a bar on what a row has brought; a row that nobody asked for demands nothing.
func (f *fleet) demand(b bar, of found, value func(r *result) float64) {
	switch {
	case of.why != "":
		b.missing = of.why
	case of.result == nil:
		return
	default:
		b.value = value(of.result)
	}
	f.bars = append(f.bars, b)
}

var errMissed = errors.New("a bar was missed")
