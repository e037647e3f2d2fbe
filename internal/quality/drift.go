package quality

import (
	"math"
	"time"
)

const (
	// fewestNow and fewestBefore are how many figures there must be for a drop to be marked.
	fewestNow, fewestBefore = 30, 100
	// leastDrop is how much the mean must have fallen.
	leastDrop = 0.02
	// sure is by how many standard errors it must have fallen: by chance alone less than one series in ten thousand does.
	sure = 4
)

// Comparison holds the last days of a series against those before.
type Comparison struct {
	Now    Figures // of the last days
	Before Figures
	// Drop is true when Now is so much lower than Before that it is neither chance nor a trifle.
	Drop bool
}

// Compare splits a series: the last days, today among them, are now.
func (t Trend) Compare(last int, now time.Time) (c Comparison) {
	from := day(now.AddDate(0, 0, 1-last))
	for _, d := range t.Days {
		if d.Day >= from {
			c.Now = c.Now.with(d.Figures)
		} else {
			c.Before = c.Before.with(d.Figures)
		}
	}
	c.Drop = dropped(c.Before, c.Now)
	return c
}

// dropped is Welch's test on two means, without its correction for few figures: those are not tested.
func dropped(before, now Figures) bool {
	if before.N < fewestBefore || now.N < fewestNow {
		return false
	}
	fell := before.Mean() - now.Mean()
	deviation := math.Sqrt(before.variance()/float64(before.N) + now.variance()/float64(now.N))
	return fell >= leastDrop && fell > sure*deviation
}
