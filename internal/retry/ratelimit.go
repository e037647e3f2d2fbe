package retry

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// leastRate and mostRate bound the rates that are believed, in calls per second.
	leastRate, mostRate = 1e-3, 1e5
	// maxWindow bounds the windows that are believed.
	maxWindow = 24 * time.Hour
	// sinceEpoch is the least number that is a time rather than a number of seconds from now.
	sinceEpoch = 1_000_000_000
)

// Rate is how many calls per second an answer's rate-limit headers say that the caller may make; false where they do not. The headers of a
// throttled answer say what was too much, others rarely more than that there is something left.
//
// What names its window goes first: RateLimit-Policy and the older RateLimit-Limit with w, and limits per minute. Then what refills at a rate,
// x-ratelimit-limit-requests with remaining and the time until it is full again. Last what only says when its window ends: that window is
// taken to be a second, a minute, an hour or a day.
func Rate(h http.Header, now time.Time) (perSecond float64, ok bool) {
	for _, rate := range [...]float64{
		policyRate(h.Values("Ratelimit-Policy"), "q"),
		policyRate(h.Values("Ratelimit-Limit"), ""),
		whole(h.Get("X-Ratelimit-Limit-Req-Minute")) / time.Minute.Seconds(),
		refillRate(h),
		remainingRate(h.Values("Ratelimit")),
		windowRate(h, "Ratelimit-", now),
		windowRate(h, "X-Ratelimit-", now),
	} {
		if rate >= leastRate && rate <= mostRate {
			return rate, true
		}
	}
	return 0, false
}

// policyRate is the least of the rates that a list of quotas with their windows (w, in seconds) tells; 0: none. Quotas of anything but
// requests do not count. They stand in the parameter of that name, or are the items themselves.
func policyRate(values []string, quota string) float64 {
	least := 0.0
	for item := range items(values) {
		name, parameters := parts(item)
		if quota != "" {
			name = parameters[quota]
		}
		if unit := parameters["qu"]; unit != "" && unit != "requests" {
			continue
		}
		window := whole(parameters["w"])
		if rate := whole(name) / window; window > 0 && window <= maxWindow.Seconds() && rate > 0 && (least == 0 || rate < least) {
			least = rate
		}
	}
	return least
}

// remainingRate spreads what is left (r) over the time that it has to last (t, in seconds); 0: nothing is left, or nothing is said.
func remainingRate(values []string) float64 {
	least := 0.0
	for item := range items(values) {
		_, parameters := parts(item)
		left, lasts := whole(parameters["r"]), whole(parameters["t"])
		if rate := left / lasts; left > 0 && lasts > 0 && (least == 0 || rate < least) {
			least = rate
		}
	}
	return least
}

// refillRate is how fast what was used comes back: limits of requests whose reset is the time until everything is there again.
func refillRate(h http.Header) float64 {
	limit, remaining := whole(h.Get("X-Ratelimit-Limit-Requests")), h.Get("X-Ratelimit-Remaining-Requests")
	reset, err := time.ParseDuration(strings.TrimSpace(h.Get("X-Ratelimit-Reset-Requests")))
	if err != nil || reset <= 0 || reset > maxWindow || remaining == "" {
		return 0
	}
	return max(0, limit-whole(remaining)) / reset.Seconds()
}

// windowRate is a limit over its window, of which only the rest is known.
func windowRate(h http.Header, prefix string, now time.Time) float64 {
	limit, rest := whole(h.Get(prefix+"Limit")), strings.TrimSpace(h.Get(prefix+"Reset"))
	reset := whole(rest)
	if d, err := time.ParseDuration(rest); err == nil {
		reset = d.Seconds()
	}
	if reset >= 1000*sinceEpoch {
		reset /= 1000
	}
	if reset >= sinceEpoch {
		reset -= float64(now.UnixMilli()) / 1000
	}
	if limit <= 0 || reset <= 0 {
		return 0
	}
	for _, window := range [...]time.Duration{time.Second, time.Minute, time.Hour, maxWindow} {
		if reset <= window.Seconds() {
			return limit / window.Seconds()
		}
	}
	return 0
}

// whole reads a number of digits alone, 0 for anything else.
func whole(text string) float64 {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 63)
	if err != nil {
		return 0
	}
	return float64(n)
}

// items yields the members of lists that are separated by commas, quoted text aside.
func items(values []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, value := range values {
			for value != "" {
				var item string
				if item, value = cut(value, ','); !yield(item) {
					return
				}
			}
		}
	}
}

// parts takes a member of a list apart: the value before its parameters and the parameters, without the quotation marks of either.
func parts(item string) (value string, parameters map[string]string) {
	value, rest := cut(item, ';')
	parameters = map[string]string{}
	for rest != "" {
		var parameter string
		parameter, rest = cut(rest, ';')
		name, text, _ := strings.Cut(parameter, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		parameters[name] = cmp.Or(parameters[name], strings.Trim(strings.TrimSpace(text), `"`)) // the first counts
	}
	return strings.Trim(strings.TrimSpace(value), `"`), parameters
}

// cut cuts at the first separator outside quotation marks.
func cut(text string, separator byte) (before, after string) {
	quoted := false
	for i := range len(text) {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == separator && !quoted:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}
