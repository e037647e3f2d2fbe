package quality

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var words = Series{Account: "a", Operation: "o"}

// of is figures around a mean.
func of(r *rand.Rand, n int, mean, deviation float64) (f Figures) {
	for range n {
		f.Add(mean + deviation*r.NormFloat64())
	}
	return f
}

func TestFigures(t *testing.T) {
	var f Figures
	for _, v := range []float64{0.5, 0.9, 0.91, 0.95, 1, 1, 1, 1, 1, 1, 7, -1} {
		f.Add(v)
	}
	require.Equal(t, 12, f.N)
	require.InDelta(t, (0.5+0.9+0.91+0.95+7)/12, f.Mean(), 1e-9, "what lies outside counts as the nearer end")
	require.InDelta(t, 0.5, f.P10(), 0.02)
	require.Equal(t, 7, f.Bins[bins-1])
	require.Zero(t, Figures{N: 1, Sum: 1, Squares: 1}.variance())
}

func TestDropsAreMarked(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		before, now Figures
		drop        bool
	}{
		"a clear drop":             {of(r, 1000, 0.95, 0.05), of(r, 100, 0.88, 0.05), true},
		"a rise":                   {of(r, 1000, 0.88, 0.05), of(r, 100, 0.95, 0.05), false},
		"sure, but a trifle":       {of(r, 100_000, 0.95, 0.02), of(r, 100_000, 0.94, 0.02), false},
		"too few now":              {of(r, 1000, 0.95, 0.01), of(r, 29, 0.5, 0.01), false},
		"just enough now":          {of(r, 1000, 0.95, 0.01), of(r, 30, 0.5, 0.01), true},
		"too few before":           {of(r, 99, 0.95, 0.01), of(r, 100, 0.5, 0.01), false},
		"wide, so it may be noise": {of(r, 100, 0.7, 0.2), of(r, 30, 0.62, 0.2), false},
		"nothing":                  {Figures{}, Figures{}, false},
		"always the same":          {of(r, 1000, 0.95, 0), of(r, 30, 0.9, 0), true},
	} {
		require.Equal(t, c.drop, dropped(c.before, c.now), name)
	}
}

// Of series that do not change next to none is marked, and of those that fall by 0.05 nearly all are.
func TestMarksAreNeitherNoiseNorLate(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	false1, true1 := 0, 0
	for range 1000 {
		if dropped(of(r, 300, 0.9, 0.08), of(r, 100, 0.9, 0.08)) {
			false1++
		}
		if dropped(of(r, 300, 0.9, 0.08), of(r, 100, 0.85, 0.08)) {
			true1++
		}
	}
	require.Less(t, false1, 10)
	require.Greater(t, true1, 750)
}

func TestDaysAreThoseOfUTC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight
		var s Summary
		s.Add(words, 0.9)
		time.Sleep(24*time.Hour - time.Nanosecond)
		s.Add(words, 0.8)
		time.Sleep(time.Nanosecond)
		s.Add(words, 0.7)
		trends := s.Trends(2, time.Now())
		require.Len(t, trends, 1)
		require.Equal(t, []int{2, 1}, []int{trends[0].Days[0].N, trends[0].Days[1].N})
		c := trends[0].Compare(1, time.Now())
		require.Equal(t, []int{1, 2}, []int{c.Now.N, c.Before.N})
		require.Empty(t, s.Trends(2, time.Now().AddDate(0, 0, 2)))
		for range keptDays + 5 {
			time.Sleep(24 * time.Hour)
			s.Add(words, 0.7)
		}
		require.Len(t, s.days, keptDays)
	})
}

func TestSeriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Summary
		for d := range keptDays + 1 {
			for n := range 1000 {
				s.Add(Series{Account: "a", Operation: "an operation", Type: "a type of document", Field: fmt.Sprintf("a field of a long name %d %d", d, n)}, float64(n%100)/100)
			}
			time.Sleep(24 * time.Hour)
		}
		dir := t.TempDir()
		require.NoError(t, s.Save(dir))
		info, err := os.Stat(filepath.Join(dir, FileName))
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(maxFile/2))
		var other int
		for _, trend := range s.Trends(keptDays, time.Now().AddDate(0, 0, -1)) {
			if trend.Operation == Other {
				other = trend.Days[0].N
			}
		}
		require.Equal(t, 1000-maxSeries, other, "nothing is left out")
	})
}

func TestTheSummarySurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, err := Open(dir)
		require.NoError(t, err, "there is none yet")
		require.NoError(t, s.Save(dir))
		require.NoFileExists(t, filepath.Join(dir, FileName), "nothing is written for nothing")

		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Keep(ctx, dir, func(err error) { t.Error(err) })
		}()
		s.Add(words, 0.91)
		time.Sleep(every)
		synctest.Wait()
		again, err := Load(dir)
		require.NoError(t, err)
		require.Equal(t, s.Trends(1, time.Now()), again.Trends(1, time.Now()))
		s.Add(Series{Account: "a", Operation: "o", Type: "invoice", Field: "total"}, 1)
		stop()
		<-done
		again, err = Open(dir)
		require.NoError(t, err)
		require.Equal(t, s.Trends(1, time.Now()), again.Trends(1, time.Now()), "the end is kept, too")
		again.Add(words, 0.5)
		require.Equal(t, 2, again.Trends(1, time.Now())[0].Days[0].N, "it goes on from there")
	})
}

func TestAWriteThatWasCutOffHarmsNothing(t *testing.T) {
	dir := t.TempDir()
	var s Summary
	s.Add(words, 0.9)
	require.NoError(t, s.Save(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, FileName+".tmp"), []byte(`{"ver`), 0o600))
	again, err := Open(dir)
	require.NoError(t, err)
	require.Len(t, again.Trends(1, time.Now()), 1)
	again.Add(words, 0.9)
	require.NoError(t, again.Save(dir))
	require.NoFileExists(t, filepath.Join(dir, FileName+".tmp"))
	info, err := os.Stat(filepath.Join(dir, FileName))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// folderWith is a folder whose summary has that text.
func folderWith(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600))
	return dir
}

func TestAFileThatIsNotOursIsPutAside(t *testing.T) {
	figures := func(text string) string { return `{"version":1,"days":{"2026-01-02":[` + text + `]}}` }
	_, err := Load(folderWith(t, figures(`{"account":"a","operation":"o","n":3,"sum":2,"squares":1.5,"bins":[[25,2],[49,1]]}`)))
	require.NoError(t, err, "so it would look")
	for _, text := range []string{
		"", "no json", `{"version":2}`, `{"version":1,"days":[]}`, figures("null"), figures(`{"n":0}`), figures(`{"n":-1,"bins":[[0,-1]]}`),
		figures(`{"n":3,"sum":2,"squares":1.5}`), figures(`{"n":3,"sum":2,"squares":1.5,"bins":[[25,2],[50,1]]}`), figures(`{"n":3,"sum":2,"squares":1.5,"bins":[[25,2],[-1,1]]}`),
		figures(`{"n":3,"sum":1e308,"squares":1.5,"bins":[[25,3]]}`), figures(`{"n":3,"sum":2,"squares":2.5,"bins":[[25,3]]}`), figures(`{"n":3,"sum":2,"squares":-1,"bins":[[25,3]]}`),
		figures(`{"n":3,"sum":2,"squares":1.5,"bins":[[25,3],[26,1],[27,-1]]}`),
	} {
		dir := folderWith(t, text)
		path := filepath.Join(dir, FileName)
		s, err := Open(dir)
		require.Error(t, err, text)
		require.Empty(t, s.Trends(keptDays, time.Now()), text)
		s.Add(words, 0.9)
		require.NoError(t, s.Save(dir))
		kept, err := os.ReadFile(path + ".unread")
		require.NoError(t, err)
		require.Equal(t, text, string(kept))
	}
}

func TestAFullDiskIsToldOnceAndForgiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "gone")
		var s Summary
		told := 0
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Keep(ctx, dir, func(error) { told++ })
		}()
		s.Add(words, 0.9)
		time.Sleep(3 * every)
		synctest.Wait()
		require.Equal(t, 1, told)
		require.NoError(t, os.Mkdir(dir, 0o700))
		time.Sleep(every)
		synctest.Wait()
		again, err := Load(dir)
		require.NoError(t, err)
		require.Len(t, again.Trends(1, time.Now()), 1)
		stop()
		<-done
	})
}

func FuzzLoad(f *testing.F) {
	var s Summary
	s.Add(words, 0.9)
	text, _, err := s.text()
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"version":1,"days":{"2026-01-01":[{"n":-1,"bins":[[-1,2],[99,3],[0]]}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), text, 0o600); err != nil {
			t.Skip()
		}
		s, err := Load(dir)
		if err != nil {
			return
		}
		for _, trend := range s.Trends(keptDays, time.Now()) {
			_ = trend.Compare(3, time.Now())
		}
		s.Add(words, 0.5)
		out, _, err := s.text()
		require.NoError(t, err)
		require.True(t, json.Valid(out))
	})
}
