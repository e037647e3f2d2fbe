package retry_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

func TestHint(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		header string // lines "K: V"
		want   time.Duration
	}{
		{"none", "", 0},
		{"seconds", "Retry-After: 2", 2 * time.Second},
		{"spaces", "Retry-After:  7 ", 7 * time.Second},
		{"decimals round up", "Retry-After: 2.1285", 2129 * time.Millisecond},
		{"a sign is no number", "Retry-After: +3", 0},
		{"negative", "Retry-After: -5", 0},
		{"zero", "Retry-After: 0", 0},
		{"exponent", "Retry-After: 1e3", 0},
		{"hexadecimal", "Retry-After: 0x10", 0},
		{"infinity", "Retry-After: inf", 0},
		{"two points", "Retry-After: 1.2.3", 0},
		{"beyond 64 bits", "Retry-After: 99999999999999999999", retry.MaxHint},
		{"beyond any float", "Retry-After: " + strings.Repeat("9", 400), retry.MaxHint},
		{"beyond a duration", "Retry-After: 9223372037", retry.MaxHint},
		{"words", "Retry-After: soon", 0},
		{"date", "Retry-After: Mon, 30 Nov 2026 12:00:03 GMT", 3 * time.Second},
		{"date of the second format", "Retry-After: Monday, 30-Nov-26 12:00:03 GMT", 3 * time.Second},
		{"date of the third format", "Retry-After: Mon Nov 30 12:00:03 2026", 3 * time.Second},
		{"date in the past", "Retry-After: Mon, 30 Nov 2026 11:00:00 GMT", 0},
		{"date against the answer's own clock", "Date: Mon, 30 Nov 2026 12:10:00 GMT|Retry-After: Mon, 30 Nov 2026 12:10:02 GMT", 2 * time.Second},
		{"unreadable Date", "Date: yesterday|Retry-After: Mon, 30 Nov 2026 12:00:02 GMT", 2 * time.Second},
		{"milliseconds", "retry-after-ms: 1500", 1500 * time.Millisecond},
		{"Azure milliseconds", "x-ms-retry-after-ms: 1500", 1500 * time.Millisecond},
		{"AWS milliseconds", "x-amz-retry-after: 1500", 1500 * time.Millisecond},
		{"milliseconds win", "retry-after-ms: 1200|Retry-After: 60", 1200 * time.Millisecond},
		{"unreadable milliseconds do not", "retry-after-ms: x|Retry-After: 60", time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for line := range strings.SplitSeq(c.header, "|") {
				if k, v, ok := strings.Cut(line, ":"); ok {
					h.Set(k, strings.TrimPrefix(v, " "))
				}
			}
			got, ok := retry.Hint(h, now)
			require.Equal(t, c.want > 0, ok)
			if ok {
				require.Equal(t, c.want, got)
			}
		})
	}
}

func TestProtoDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"2s": 2 * time.Second, "0.250s": 250 * time.Millisecond, "1.337906927s": 1338 * time.Millisecond,
		"7200s": 2 * time.Hour, "soon": 0, "-1s": 0, "0s": 0, "": 0, "2": 0, "s": 0, "1m": 0,
	} {
		got, ok := retry.ProtoDuration(text)
		require.Equal(t, want > 0, ok, text)
		require.Equal(t, want, got, text)
	}
}

func FuzzHint(f *testing.F) {
	for _, v := range []string{"2", "1.5", "-5", "Mon, 30 Nov 2026 12:00:03 GMT", "99999999999999999999", "+3", "1e9", "."} {
		f.Add(v, v, "Mon, 30 Nov 2026 12:00:00 GMT")
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, after, ms, date string) {
		h := http.Header{"Retry-After": {after}, "Retry-After-Ms": {ms}, "Date": {date}}
		d, ok := retry.Hint(h, now)
		require.Equal(t, ok, ok && d > 0 && d <= retry.MaxHint, "a hint is positive and bounded")
		if d, ok := retry.ProtoDuration(after); ok {
			require.True(t, d > 0 && d <= retry.MaxHint)
		}
	})
}

func BenchmarkHint(b *testing.B) {
	now := time.Now()
	h := http.Header{"Retry-After": {"Mon, 30 Nov 2026 12:00:03 GMT"}, "Date": {"Mon, 30 Nov 2026 12:00:00 GMT"}}
	for b.Loop() {
		retry.Hint(h, now)
	}
}
