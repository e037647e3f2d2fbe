package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// OutageMode is how the provider is gone during an outage.
type OutageMode string

// The ways to be gone.
const (
	// OutageUnavailable answers 503 at once, in the provider's shape.
	OutageUnavailable OutageMode = "503"
	// OutageRefuse resets the connection before the request is read.
	OutageRefuse OutageMode = "refuse"
	// OutageHang reads the request and says nothing until the client gives up.
	OutageHang OutageMode = "hang"
)

// Window is a span of time since Start.
type Window struct {
	// From is when it begins; 0 is the start itself.
	From time.Duration
	// To is when it ends; 0 means never.
	To time.Duration
}

func (w Window) contains(since time.Duration) bool {
	return since >= w.From && (w.To == 0 || since < w.To)
}

// String returns the window as ParseWindows reads it.
func (w Window) String() string {
	if w.To == 0 {
		return w.From.String() + "-"
	}
	return w.From.String() + "-" + w.To.String()
}

// Faults is what goes wrong. The zero value is nothing. A request meets at most one fault: the script first while it lasts,
// then an outage, then throttling, then a random error, then a lost answer.
type Faults struct {
	// ErrorRate is the share of calls, 0 to 1, that fail with a server error (500 and 503 in equal parts) and do no work.
	ErrorRate float64
	// LoseRate is the share of calls, 0 to 1, whose work is done but whose answer is lost: the connection closes without one.
	LoseRate float64
	// ItemErrorRate is the share of the images of a Vision batch, 0 to 1, that fail for a moment inside an answer of 200.
	// Other kinds ignore it.
	ItemErrorRate float64
	// Throttle is how many calls per second are let through, for each operation apart; 0 means no limit.
	Throttle float64
	// Burst is how many calls may come at one moment; 0 means one second's worth, at least one.
	Burst int
	// RetryAfter is the hint that goes with a throttled answer, in seconds; 0 means no hint.
	RetryAfter int
	// Outages are the times at which the provider is gone.
	Outages []Window
	// Down is an outage that lasts until the faults change.
	Down bool
	// OutageMode is how the provider is gone; empty means OutageUnavailable.
	OutageMode OutageMode
	// Latency is how long an answer takes at least. Throttled calls and calls during an outage are answered at once.
	Latency time.Duration
	// LatencyJitter is the most that is added to Latency, at random.
	LatencyJitter time.Duration
	// JobTime is how long an asynchronous job runs; 0 means that its first poll finds it done.
	JobTime time.Duration
	// Script is played first, one step for each request, past every other fault. Steps come from ParseScript.
	Script []Step
}

// Validate reports every setting that is out of its range.
func (f Faults) Validate() error {
	var problems []error
	rates := []struct {
		name  string
		value float64
	}{{"error rate", f.ErrorRate}, {"lose rate", f.LoseRate}, {"item error rate", f.ItemErrorRate}}
	for _, r := range rates {
		if !(r.value >= 0 && r.value <= 1) { // Written so that NaN is refused too.
			problems = append(problems, fmt.Errorf("%s %v: must be from 0 to 1", r.name, r.value))
		}
	}
	if !(f.Throttle >= 0 && f.Throttle <= 1e6) {
		problems = append(problems, fmt.Errorf("throttle %v: must be from 0 (no limit) to 1000000 calls per second", f.Throttle))
	}
	for name, n := range map[string]int{"burst": f.Burst, "retry-after": f.RetryAfter} {
		if n < 0 {
			problems = append(problems, fmt.Errorf("%s %d: must not be negative", name, n))
		}
	}
	for name, d := range map[string]time.Duration{"latency": f.Latency, "latency jitter": f.LatencyJitter, "job time": f.JobTime} {
		if d < 0 {
			problems = append(problems, fmt.Errorf("%s %s: must not be negative", name, d))
		}
	}
	for _, w := range f.Outages {
		if w.From < 0 || w.To != 0 && w.To <= w.From {
			problems = append(problems, fmt.Errorf("outage %s: must end after it begins", w))
		}
	}
	switch f.OutageMode {
	case "", OutageUnavailable, OutageRefuse, OutageHang:
	default:
		problems = append(problems, fmt.Errorf("outage mode %q: must be refuse, 503 or hang", f.OutageMode))
	}
	for i, step := range f.Script {
		if err := step.validate(); err != nil {
			problems = append(problems, fmt.Errorf("script step %d: %w", i+1, err))
		}
	}
	return errors.Join(problems...)
}

func (f Faults) inOutage(since time.Duration) bool {
	if f.Down {
		return true
	}
	for _, w := range f.Outages {
		if w.contains(since) {
			return true
		}
	}
	return false
}

// String names the faults in one line for people; "none" if there are none.
func (f Faults) String() string {
	var parts []string
	say := func(on bool, format string, args ...any) {
		if on {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	percent := func(rate float64) string { return strconv.FormatFloat(rate*100, 'g', 4, 64) + " %" }
	say(len(f.Script) > 0, "script of %d steps first", len(f.Script))
	say(f.ErrorRate > 0, "errors %s", percent(f.ErrorRate))
	say(f.LoseRate > 0, "lost answers %s", percent(f.LoseRate))
	say(f.ItemErrorRate > 0, "failed items %s", percent(f.ItemErrorRate))
	say(f.Throttle > 0, "at most %v calls per second and operation, burst %d", f.Throttle, f.burst())
	say(f.Throttle > 0 && f.RetryAfter > 0, "Retry-After %d s", f.RetryAfter)
	if f.Down || len(f.Outages) > 0 {
		mode := f.OutageMode
		if mode == "" {
			mode = OutageUnavailable
		}
		windows := make([]string, 0, len(f.Outages))
		for _, w := range f.Outages {
			windows = append(windows, w.String())
		}
		say(f.Down, "outage now (%s)", mode)
		say(len(windows) > 0, "outage at %s (%s)", strings.Join(windows, ", "), mode)
	}
	say(f.Latency > 0 || f.LatencyJitter > 0, "latency %s plus up to %s", f.Latency, f.LatencyJitter)
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, "; ")
}

// burst is Burst with its default filled in.
func (f Faults) burst() int {
	if f.Burst > 0 {
		return f.Burst
	}
	return max(1, int(f.Throttle))
}

// ParseWindows reads outage windows such as "10s-20s,40s-45s"; "40s-" has no end. Empty text is no window.
func ParseWindows(text string) ([]Window, error) {
	var windows []Window
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			return nil, fmt.Errorf("outage %q: write FROM-TO, for example 10s-20s", part)
		}
		var w Window
		var err error
		if w.From, err = time.ParseDuration(strings.TrimSpace(from)); err != nil {
			return nil, fmt.Errorf("outage %q: %q is no duration such as 10s", part, from)
		}
		if to = strings.TrimSpace(to); to != "" {
			if w.To, err = time.ParseDuration(to); err != nil {
				return nil, fmt.Errorf("outage %q: %q is no duration such as 20s", part, to)
			}
			if w.To <= w.From {
				return nil, fmt.Errorf("outage %q: must end after it begins", part)
			}
		}
		windows = append(windows, w)
	}
	return windows, nil
}
