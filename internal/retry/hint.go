package retry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxHint bounds what is read from a hint; longer ones count as this. It is far beyond any budget and far from overflow.
const MaxHint = 10 * 365 * 24 * time.Hour

// Hint is the wait that an answer's headers ask for. Millisecond headers go before Retry-After (seconds or an HTTP date, which is measured
// against the answer's own Date). It reports false where there is none, and for one that is zero, in the past, negative or unreadable: those
// must not turn into a burst. Decimals are accepted and rounded up to the next millisecond; signs are not.
func Hint(h http.Header, now time.Time) (time.Duration, bool) {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Amz-Retry-After"} {
		if d, ok := Number(h.Get(name), time.Millisecond); ok {
			return d, true
		}
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0, false
	}
	if d, ok := Number(value, time.Second); ok {
		return d, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	d := at.Sub(now)
	return min(d, MaxHint), d > 0
}

// Number reads a plain decimal number of units, such as "1.5" seconds. It reports false for anything else and for zero.
func Number(text string, unit time.Duration) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return 0, false // neither signs nor exponents nor names such as "inf"
	}
	f, err := strconv.ParseFloat(text, 64)
	if math.IsInf(f, 1) {
		return MaxHint, true
	}
	if err != nil || f <= 0 {
		return 0, false
	}
	if f >= float64(MaxHint)/float64(unit) {
		return MaxHint, true
	}
	ms := math.Ceil(f * float64(unit) / float64(time.Millisecond))
	return time.Duration(ms) * time.Millisecond, true
}

// ProtoDuration reads a duration as protobuf writes it into JSON ("1.337906927s"), as google.rpc.RetryInfo carries it. Same rules as Hint.
func ProtoDuration(text string) (time.Duration, bool) {
	number, ok := strings.CutSuffix(strings.TrimSpace(text), "s")
	if !ok {
		return 0, false
	}
	return Number(number, time.Second)
}
