package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// table is what a scenario shows.
type table struct {
	head []string
	rows [][]string
}

// markdown writes the table, its columns as wide as their widest cell, so that it reads well as plain text, too.
func (t table) markdown() string {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 4)
		}
	}
	var b strings.Builder
	line := func(cells []string) {
		for i, cell := range cells {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("| " + cell + gap + " |")
			} else {
				b.WriteString(" " + gap + cell + " |")
			}
		}
		b.WriteByte('\n')
	}
	line(t.head)
	for i, width := range widths {
		if i == 0 {
			b.WriteString("|" + strings.Repeat("-", width+2) + "|")
		} else {
			b.WriteString(strings.Repeat("-", width+1) + ":|")
		}
	}
	b.WriteByte('\n')
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// bar is something that has to hold.
type bar struct {
	scenario, what string
	value, limit   float64
	atLeast        bool   // the limit is the least; else the most
	unit           string // behind both numbers
	missing        string // why there is no value
}

func (b bar) holds() bool {
	switch {
	case b.missing != "":
		return false
	case b.atLeast:
		return b.value >= b.limit
	default:
		return b.value <= b.limit // a value that is no number holds nothing
	}
}

func (b bar) String() string {
	name := fmt.Sprintf("bar %-9s %s", b.scenario, b.what)
	sign, verdict := "≤", "ok"
	if b.atLeast {
		sign = "≥"
	}
	if !b.holds() {
		verdict = "MISSED"
	}
	if b.missing != "" {
		return fmt.Sprintf("%-66s not measured (%s)  %s %s%s  MISSED", name, b.missing, sign, number(b.limit), b.unit)
	}
	return fmt.Sprintf("%-66s %s%s  %s %s%s  %s", name, number(b.value), b.unit, sign, number(b.limit), b.unit, verdict)
}

// number is a value with three decimals at most.
func number(v float64) string {
	text := fmt.Sprintf("%.3f", v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// The spellings of the reference tables.
func ratio(v float64) string    { return fmt.Sprintf("%.2f", v) }
func fraction(v float64) string { return fmt.Sprintf("%.3f", v) }
func percent(v float64) string  { return fmt.Sprintf("%.1f %%", 100*v) }
func lost(v float64) string     { return fmt.Sprintf("%.2f %%", 100*v) }

func seconds(d time.Duration) string {
	if d < 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", d.Seconds())
}
