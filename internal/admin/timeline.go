package admin

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// moment is one line in the life of a document.
type moment struct {
	At    time.Time
	Style string // attempt, wait, letter, replay, end
	Head  string
	Class string // of an attempt; "": it has none
	Text  []string
	// From and Length place the moment in the whole of the attempts, in per cent.
	From, Length float64
	Spans        bool // it has a length
}

// life tells what happened to a letter's document, in order of time.
func life(l dlq.Letter) []moment {
	var all []moment
	for _, a := range l.Attempts {
		if a.WaitedMS > 0 {
			all = append(all, moment{
				At: a.StartedAt.Add(-span(a.WaitedMS)), Style: "wait", Head: "waited " + length(a.WaitedMS), Text: some(waitWords(a.WaitSource)), Spans: true,
			})
		}
		all = append(all, moment{
			At: a.StartedAt, Style: "attempt", Head: "attempt " + strconv.Itoa(a.N) + ", " + status(a.HTTPStatus), Class: a.ErrorClass, Spans: true,
			Text: some(prefixed("at account ", a.Account), a.ErrorCode, "took "+length(a.DurationMS), prefixed("provider's id ", a.UpstreamRequestID)),
		})
	}
	place(all, l.Attempts)
	if len(l.Attempts) > 0 && l.FirstAttemptAt.Before(l.Attempts[0].StartedAt) && !l.FirstAttemptAt.IsZero() {
		all = append(all, moment{At: l.FirstAttemptAt, Style: "first", Head: "first tried", Text: some("of the attempts, those of the last failure are kept")})
	}
	if !failedInReplay(l) {
		said := "gave up, dead letter written"
		if l.Occurrences > 1 {
			said = "gave up; this request has failed " + strconv.Itoa(l.Occurrences) + " times"
		}
		all = append(all, moment{At: l.FailedAt, Style: "letter", Head: said})
	}
	for _, r := range l.Replays {
		all = append(all, moment{At: r.At, Style: "replay", Head: "replayed: " + r.Outcome, Class: r.ErrorClass, Text: some(status(r.HTTPStatus))})
	}
	if s := l.Resolution; s != nil {
		all = append(all, moment{At: s.At, Style: "end", Head: l.Status + " by " + cmp.Or(s.By, "somebody"), Text: some(s.Note, prefixed("label ", s.Label))})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	return all
}

// failedInReplay tells whether the last failure was that of a replay, which has a line of its own.
func failedInReplay(l dlq.Letter) bool {
	return slices.ContainsFunc(l.Replays, func(r dlq.Replay) bool { return r.At.Equal(l.FailedAt) })
}

// place sets where the moments lie in the time from the first wait to the last attempt's end.
func place(all []moment, attempts []dlq.Attempt) {
	if len(all) == 0 {
		return
	}
	begin, end := all[0].At, all[0].At
	for _, a := range attempts {
		if over := a.StartedAt.Add(span(a.DurationMS)); over.After(end) {
			end = over
		}
	}
	whole := end.Sub(begin)
	if whole <= 0 {
		return
	}
	i := 0
	set := func(d time.Duration) {
		all[i].From = 100 * float64(all[i].At.Sub(begin)) / float64(whole)
		all[i].Length = 100 * float64(d) / float64(whole)
		i++
	}
	for _, a := range attempts {
		if a.WaitedMS > 0 {
			set(span(a.WaitedMS))
		}
		set(span(a.DurationMS))
	}
}

func span(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func length(ms float64) string {
	d := span(ms)
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func waitWords(source string) string {
	switch source {
	case "hint":
		return "the provider asked for it"
	case "gate":
		return "the account was held after a throttle, or its circuit was open"
	case "queue":
		return "its turn in the account's queue"
	case "backoff":
		return "full jitter"
	}
	return ""
}

func status(code *int) string {
	if code == nil {
		return "no answer"
	}
	return "HTTP " + strconv.Itoa(*code)
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// some leaves out what is empty.
func some(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}
