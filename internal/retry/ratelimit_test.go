package retry_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

func TestRate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, header string // lines "K: V", separated by |
		want         float64
	}{
		{"nothing", "", 0},
		{"a policy", `RateLimit-Policy: "permin";q=120;w=60`, 2},
		{"the tightest of several policies", `RateLimit-Policy: "burst";q=10;w=1, "day";q=86400;w=86400`, 1},
		{"policies in two lines", `RateLimit-Policy: "burst";q=10;w=1|RateLimit-Policy: "min";q=30;w=60`, 0.5},
		{"a separator in a name", `RateLimit-Policy: "a,b;q=1;w=1";q=120;w=60`, 2},
		{"a policy without a window", `RateLimit-Policy: "conc";q=5`, 0},
		{"a policy for something else", `RateLimit-Policy: "bytes";q=5000;qu="content-bytes";w=1`, 0},
		{"a policy goes before what is left", `RateLimit-Policy: "permin";q=120;w=60|RateLimit: "permin";r=1;t=30`, 2},
		{"what is left for how long", `RateLimit: "x";r=15;t=30`, 0.5},
		{"nothing is left", `RateLimit: "x";r=0;t=30`, 0},
		{"left without a time", `RateLimit: "x";r=15`, 0},
		{"the older draft with a window", `RateLimit-Limit: 100, 100;w=50|RateLimit-Remaining: 0|RateLimit-Reset: 7`, 2},
		{"the older draft without", `RateLimit-Limit: 120|RateLimit-Remaining: 0|RateLimit-Reset: 37`, 2},
		{"a limit per minute", `X-RateLimit-Limit-Req-Minute: 30`, 0.5},
		{"a refill", `X-RateLimit-Limit-Requests: 60|X-RateLimit-Remaining-Requests: 59|X-RateLimit-Reset-Requests: 1s`, 1},
		{"a refill of minutes", `X-RateLimit-Limit-Requests: 180|X-RateLimit-Remaining-Requests: 0|X-RateLimit-Reset-Requests: 6m0s`, 0.5},
		{"a refill of milliseconds", `X-RateLimit-Limit-Requests: 10|X-RateLimit-Remaining-Requests: 9|X-RateLimit-Reset-Requests: 120ms`, 1 / 0.12},
		{"a refill that is not told", `X-RateLimit-Limit-Requests: 10|X-RateLimit-Reset-Requests: 120ms`, 0},
		{"a full bucket", `X-RateLimit-Limit-Requests: 10|X-RateLimit-Remaining-Requests: 10|X-RateLimit-Reset-Requests: 1s`, 0},
		{"the rest of a second", `X-RateLimit-Limit: 5|X-RateLimit-Remaining: 0|X-RateLimit-Reset: 1`, 5},
		{"the rest of a minute", `X-RateLimit-Limit: 30|X-RateLimit-Remaining: 0|X-RateLimit-Reset: 59`, 0.5},
		{"the rest as a duration", `X-RateLimit-Limit: 30|X-RateLimit-Reset: 12.5s`, 0.5},
		{"the rest of an hour, as a time", `X-RateLimit-Limit: 3600|X-RateLimit-Reset: 1796041200`, 1},
		{"in milliseconds", `X-RateLimit-Limit: 3600|X-RateLimit-Reset: 1796041200000`, 1},
		{"a time that is over", `X-RateLimit-Limit: 3600|X-RateLimit-Reset: 1796030000`, 0},
		{"more than a day", `X-RateLimit-Limit: 3600|X-RateLimit-Reset: 90000`, 0},
		{"signs and fractions", `RateLimit-Policy: "x";q=-5;w=1, "y";q=1.5;w=1, "z";q=5;w=-1`, 0},
		{"no number", `RateLimit-Policy: "x";q=many;w=1|X-RateLimit-Limit: NaN|X-RateLimit-Reset: Inf`, 0},
		{"beyond belief", `RateLimit-Policy: "x";q=9000000000000000000;w=1`, 0},
		{"too slow to be meant", `RateLimit-Policy: "x";q=1;w=86400`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for line := range strings.SplitSeq(c.header, "|") {
				if k, v, ok := strings.Cut(line, ": "); ok {
					h.Add(k, v)
				}
			}
			rate, ok := retry.Rate(h, now)
			require.Equal(t, c.want > 0, ok)
			require.InDelta(t, c.want, rate, 1e-9)
		})
	}
}

func FuzzRate(f *testing.F) {
	for _, v := range []string{`"x";r=0;t=30`, `"x";q=5;w=1, "y`, "100, 100;w=60", "1s", "6m0s", "1796041200", ";;=,", `"\"`} {
		f.Add(v, v, v, v)
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, field, limit, remaining, reset string) {
		for _, h := range []http.Header{
			{"Ratelimit": {field}},
			{"Ratelimit-Policy": {field, limit}},
			{"Ratelimit-Limit": {limit}, "Ratelimit-Remaining": {remaining}, "Ratelimit-Reset": {reset}},
			{"X-Ratelimit-Limit": {limit}, "X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset}},
			{"X-Ratelimit-Limit-Requests": {limit}, "X-Ratelimit-Remaining-Requests": {remaining}, "X-Ratelimit-Reset-Requests": {reset}},
		} {
			rate, ok := retry.Rate(h, now)
			require.Equal(t, ok, rate >= 1e-3 && rate <= 1e5, "a rate is positive and bounded")
		}
	})
}
