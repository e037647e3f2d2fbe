// Package quality keeps, for some weeks, how sure the providers were of what they read: for each day, account and operation the figure of an answer's
// words, and for each type of document the scores of its fields. It is a small summary in one file, from which a drop can be seen that no single
// answer shows.
package quality

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// keptDays is how many days are kept.
	keptDays = 35
	// maxSeries bounds what is told apart on one day; what comes beyond is counted as Other.
	maxSeries = 256
	// bins is how many there are from 0 to 1.
	bins = 50
)

// Other stands for the operation of all that was too much to be told apart.
const Other = "(other)"

// Series is what figures are about.
type Series struct {
	Account   string `json:"account"`
	Operation string `json:"operation"`
	Type      string `json:"type,omitempty"`  // of a document, "*" for any; empty: of all words
	Field     string `json:"field,omitempty"` // empty: of all words
}

// compare orders series by account, operation, type and field.
func compare(a, b Series) int {
	return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Field, b.Field))
}

// Figures sum up many figures, each from 0 to 1. The zero value has none.
type Figures struct {
	N       int     `json:"n"`
	Sum     float64 `json:"sum"`
	Squares float64 `json:"squares"`
	// Bins counts figures by fiftieths; those of 1 are in the last.
	Bins [bins]int `json:"bins"`
}

// Add takes one more figure; what lies outside of 0 to 1 counts as the nearer end.
func (f *Figures) Add(figure float64) {
	figure = min(max(figure, 0), 1)
	f.N++
	f.Sum += figure
	f.Squares += figure * figure
	f.Bins[min(int(figure*bins), bins-1)]++
}

// with adds those of another day.
func (f Figures) with(other Figures) Figures {
	f.N += other.N
	f.Sum += other.Sum
	f.Squares += other.Squares
	for i, n := range other.Bins {
		f.Bins[i] += n
	}
	return f
}

// Mean is their mean; it means nothing when there is none.
func (f Figures) Mean() float64 { return f.Sum / float64(f.N) }

// P10 is the figure that a tenth of them do not exceed, right to a fiftieth; it means nothing when there is none.
func (f Figures) P10() float64 {
	rank := (f.N + 9) / 10
	for i, n := range f.Bins {
		if rank -= n; rank <= 0 {
			return float64(i) / bins
		}
	}
	return 1
}

// variance is that of a sample.
func (f Figures) variance() float64 {
	if f.N < 2 {
		return 0
	}
	n := float64(f.N)
	return max(0, (f.Squares-f.Sum*f.Sum/n)/(n-1))
}

// day names a day in UTC, as 2006-01-02.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Summary holds figures by day and series. It is safe for concurrent use.
type Summary struct {
	mu      sync.Mutex
	days    map[string]map[Series]*Figures
	changed bool
}

// Add takes a figure of now.
func (s *Summary) Add(of Series, figure float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	today := day(time.Now())
	series := s.days[today]
	if series == nil {
		series = map[Series]*Figures{}
		if s.days == nil {
			s.days = map[string]map[Series]*Figures{}
		}
		s.days[today] = series
		s.forget(time.Now())
	}
	f := series[of]
	if f == nil && len(series) >= maxSeries {
		of = Series{Account: of.Account, Operation: Other}
		f = series[of]
	}
	if f == nil {
		f = new(Figures)
		series[of] = f
	}
	f.Add(figure)
	s.changed = true
}

// forget drops what is too old; mu is held.
func (s *Summary) forget(now time.Time) {
	oldest := day(now.AddDate(0, 0, 1-keptDays))
	maps.DeleteFunc(s.days, func(d string, _ map[Series]*Figures) bool { return d < oldest })
}

// Day is what one series came to on one day.
type Day struct {
	Day string `json:"day"`
	Figures
}

// Trend is one series over the days.
type Trend struct {
	Series
	Days []Day `json:"days"` // that have figures, oldest first
}

// Trends lists what the summary knows of the last n days, today among them, by series.
func (s *Summary) Trends(n int, now time.Time) []Trend {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest, newest := day(now.AddDate(0, 0, 1-n)), day(now)
	all := map[Series]*Trend{}
	for _, d := range slices.Sorted(maps.Keys(s.days)) {
		if d < oldest || d > newest {
			continue
		}
		for of, f := range s.days[d] {
			if all[of] == nil {
				all[of] = &Trend{Series: of}
			}
			all[of].Days = append(all[of].Days, Day{d, *f})
		}
	}
	trends := make([]Trend, 0, len(all))
	for _, t := range all {
		trends = append(trends, *t)
	}
	slices.SortFunc(trends, func(a, b Trend) int { return compare(a.Series, b.Series) })
	return trends
}
