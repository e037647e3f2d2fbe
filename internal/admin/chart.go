package admin

import (
	"fmt"
	"strings"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/watch"
)

// The measures of a chart, in its own units; the page stretches it to its place.
const (
	barWidth    = 10
	barGap      = 1
	chartHeight = 60
	chartWidth  = barWidth * watch.Kept
)

// chart is an account's last hour as stacked bars, one a minute, with the circuit's state below them.
type chart struct {
	Width, Height int
	Peak          int    // attempts in the busiest minute
	From, To      string // the first minute and the last
	Bars          []bar
}

type bar struct {
	X, Width int
	Parts    []part
	Circuit  string // "": closed
	Title    string
}

// part is a piece of a bar, named by the style that colours it.
type part struct {
	Name      string
	Y, Height float64
}

// stack is what a bar is made of, from the ground up.
func stack() []struct {
	name    string
	classes []classify.Class
} {
	return []struct {
		name    string
		classes []classify.Class
	}{
		{"good", []classify.Class{classify.Success, classify.Soft}},
		{"throttled", []classify.Class{classify.Throttle}},
		{"faltered", []classify.Class{classify.Transient}},
		{"refused", []classify.Class{classify.Permanent, classify.Auth, classify.Quota, classify.Unknown}},
	}
}

func newChart(minutes []watch.Minute) chart {
	c := chart{Width: chartWidth, Height: chartHeight}
	if len(minutes) > 0 {
		c.From, c.To = minuteName(minutes[0].Start), minuteName(minutes[len(minutes)-1].Start)
	}
	for _, m := range minutes {
		c.Peak = max(c.Peak, m.Answers())
	}
	for i, m := range minutes {
		b := bar{X: i * barWidth, Width: barWidth - barGap}
		said := []string{minuteName(m.Start)}
		ground := float64(chartHeight)
		for _, s := range stack() {
			n := m.Of(s.classes...)
			if n == 0 {
				continue
			}
			height := chartHeight * float64(n) / float64(c.Peak)
			ground -= height
			b.Parts = append(b.Parts, part{s.name, ground, height})
			said = append(said, fmt.Sprintf("%d %s", n, s.name))
		}
		if m.DeadLettered > 0 {
			said = append(said, fmt.Sprintf("%d dead-lettered", m.DeadLettered))
		}
		if b.Circuit = circuitName(m.Circuit); b.Circuit != "" {
			said = append(said, "circuit "+b.Circuit)
		}
		b.Title = strings.Join(said, ", ")
		c.Bars = append(c.Bars, b)
	}
	return c
}

func minuteName(t time.Time) string { return t.UTC().Format("15:04Z") }

// circuitName is the style of a circuit that is not closed.
func circuitName(c watch.Circuit) string {
	switch c {
	case watch.Open:
		return "open"
	case watch.HalfOpen:
		return "half-open"
	case watch.Closed:
	}
	return ""
}
