package admin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Queue is how the calls of one operation of an account wait for their turn.
type Queue struct {
	Waiting           Waiting `json:"waiting"`
	InFlight          int     `json:"in_flight"`           // calls that have had their turn and are not done
	Rate              float64 `json:"rate,omitempty"`      // calls, or pages, per second; 0: nothing limits it
	Learned           bool    `json:"learned"`             // the rate was found from throttles; else it is configured, or that of a restart after an outage
	PausedSeconds     float64 `json:"paused_seconds"`      // that are left of a pause
	Held              bool    `json:"held"`                // by an open circuit
	OldestWaitSeconds float64 `json:"oldest_wait_seconds"` // of those that wait now
}

// Waiting counts those that wait, by priority.
type Waiting struct {
	High   int `json:"high"`
	Normal int `json:"normal"`
	Low    int `json:"low"`
}

// All is how many wait.
func (w Waiting) All() int { return w.High + w.Normal + w.Low }

// Jobs are those that an account has open at its provider.
type Jobs struct {
	Open  int `json:"open"`
	Limit int `json:"limit,omitempty"` // 0: none is known
}

// queueLine is what the page says of one operation's queue.
type queueLine struct {
	Operation string
	Waiting   string   // how many; "" when nobody does
	Urgent    string   // how many of them not in the ordinary way
	More      []string // for how long, for what, why
}

// queueLines is what is worth reading of an account's queues, by operation: who waits and for what, and what was learned. A rate that was
// configured and that nobody waits for is no news, and neither are calls that merely run.
func queueLines(queues map[string]Queue) []queueLine {
	var lines []queueLine
	for _, operation := range slices.Sorted(maps.Keys(queues)) {
		q := queues[operation]
		n := q.Waiting.All()
		line := queueLine{Operation: operation}
		if n > 0 {
			line.Waiting, line.Urgent = humanize.Comma(int64(n))+" waiting", urgency(q.Waiting)
		}
		if n > 0 && q.OldestWaitSeconds >= 1 {
			line.More = append(line.More, "oldest "+seconds(q.OldestWaitSeconds))
		}
		if q.Rate > 0 && (q.Learned || n > 0) {
			line.More = append(line.More, rateText(q))
		}
		if q.Held && n > 0 {
			line.More = append(line.More, "held: circuit open")
		}
		if n > 0 || len(line.More) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// urgency counts those that are not of normal priority.
func urgency(w Waiting) string {
	var said []string
	if w.High > 0 {
		said = append(said, humanize.Comma(int64(w.High))+" high")
	}
	if w.Low > 0 {
		said = append(said, humanize.Comma(int64(w.Low))+" low")
	}
	return strings.Join(said, ", ")
}

// rateText gives a rate with the digits that matter.
func rateText(q Queue) string {
	digits := strconv.FormatFloat(q.Rate, 'g', 3, 64)
	if q.Rate >= 100 {
		digits = humanize.Comma(int64(q.Rate + 0.5))
	}
	if q.Learned {
		return digits + "/s learned"
	}
	return digits + "/s"
}

// jobsText tells how many jobs are open; "" when there is none.
func jobsText(j Jobs) string {
	switch {
	case j.Open == 0:
		return ""
	case j.Limit > 0:
		return fmt.Sprintf("%d of %d jobs open", j.Open, j.Limit)
	case j.Open == 1:
		return "1 job open"
	default:
		return fmt.Sprintf("%d jobs open", j.Open)
	}
}
