package provider

import (
	"math"
	"slices"
)

const (
	// exactScores is how many scores are kept one by one; beyond it they are counted in bins.
	exactScores = 10_000
	// scoreBins is how many bins there are, so that a percentile of many scores is right to 0.0001.
	scoreBins = 10_000
)

// Scores are the confidences of the words of one answer, each from 0 to 1, in bounded memory: at most some 300 KB while the last of 10,000
// comes in, and 40 KB beyond them. The zero value has none.
type Scores struct {
	n     int
	sum   float64
	least float64
	each  []float64 // as they came; nil once there are bins
	bins  []uint32
}

// Add takes one more score. What lies outside of 0 to 1 counts as the nearer end.
func (s *Scores) Add(score float64) {
	score = min(max(score, 0), 1)
	if s.n == 0 || score < s.least {
		s.least = score
	}
	s.n++
	s.sum += score
	switch {
	case s.bins != nil:
		s.bins[bin(score)]++
	case len(s.each) < exactScores:
		s.each = append(s.each, score)
	default:
		s.bins = make([]uint32, scoreBins+1)
		for _, v := range s.each {
			s.bins[bin(v)]++
		}
		s.each = nil
		s.bins[bin(score)]++
	}
}

func bin(score float64) int { return int(math.Round(score * scoreBins)) }

// Count is how many there are. The other figures mean nothing when it is 0.
func (s *Scores) Count() int { return s.n }

// Mean is their sum by their number.
func (s *Scores) Mean() float64 { return s.sum / float64(s.n) }

// Min is the least of them.
func (s *Scores) Min() float64 { return s.least }

// P10 is the 10th percentile by nearest rank: the least score that at least a tenth of all do not exceed. It is exact up to 10,000 scores and
// right to 0.0001 beyond.
func (s *Scores) P10() float64 {
	rank := (s.n + 9) / 10
	if s.bins == nil {
		sorted := slices.Sorted(slices.Values(s.each))
		return sorted[rank-1]
	}
	for i, count := range s.bins {
		if rank -= int(count); rank <= 0 {
			return max(float64(i)/scoreBins, s.least)
		}
	}
	return 1
}
