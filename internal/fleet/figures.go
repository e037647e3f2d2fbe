package main

import (
	"math"
	"slices"
	"time"
)

// quantile is the nearest rank of sorted values, -1 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return -1
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// busiest is the most of the sorted moments in [from, to) that lie within one second.
func busiest(sorted []time.Duration, from, to time.Duration) int {
	first, _ := slices.BinarySearch(sorted, from)
	last, _ := slices.BinarySearch(sorted, to)
	most, tail := 0, first
	for head := first; head < last; head++ {
		for sorted[head]-sorted[tail] >= time.Second {
			tail++
		}
		most = max(most, head-tail+1)
	}
	return most
}

// within counts the sorted moments in [from, to).
func within(sorted []time.Duration, from, to time.Duration) int {
	first, _ := slices.BinarySearch(sorted, from)
	last, _ := slices.BinarySearch(sorted, to)
	return max(0, last-first)
}
