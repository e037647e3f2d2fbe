package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
)

// Size is a number of bytes, 0 or more. In YAML it is written 512MiB, 10MB or as plain bytes.
type Size int64

// String writes the size in the largest unit that divides it: 512MiB, 10MB or 1000001.
func (s Size) String() string {
	for _, unit := range []struct {
		name  string
		bytes Size
	}{{"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"kB", 1e3}} {
		if s != 0 && s%unit.bytes == 0 {
			return strconv.FormatInt(int64(s/unit.bytes), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

func parseSize(text string) (Size, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return 0, errors.New("must be a size such as 512MiB, 10MB or a number of bytes")
	}
	return Size(n), nil
}

// parseDuration is stricter than the standard library in one point: a bare 0 needs its unit too, so that no number
// without one is ever taken.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if _, bare := strconv.ParseFloat(text, 64); err != nil || bare == nil {
		return 0, fmt.Errorf("must be a duration with a unit, such as 90s, 5m or 250ms%s", given(text))
	}
	return d, nil
}

// maxGiven is the length up to which a mistaken value is repeated, in bytes. A key that was pasted into the wrong place is
// longer.
const maxGiven = 12

// given repeats a mistaken value where that can tell no secret.
func given(text string) string {
	if text == "" || len(text) > maxGiven || !printableASCII.MatchString(text) {
		return ""
	}
	return fmt.Sprintf("; it is %q", text)
}

// formatDuration prefers the spellings people use, 90s and 24h, to 1m30s and 24h0m0s.
func formatDuration(d time.Duration) string {
	switch {
	case d != 0 && d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Second == 0:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	default:
		return d.String()
	}
}
