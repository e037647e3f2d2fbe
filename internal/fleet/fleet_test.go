package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
)

func spans(ms ...int) []time.Duration {
	d := make([]time.Duration, len(ms))
	for i, m := range ms {
		d[i] = time.Duration(m) * time.Millisecond
	}
	return d
}

func TestQuantileIsTheNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		of   []time.Duration
		q    float64
		want time.Duration
	}{
		{nil, 0.5, -1},
		{spans(7), 0, 7 * time.Millisecond},
		{spans(7), 1, 7 * time.Millisecond},
		{spans(1, 2, 3, 4), 0.5, 2 * time.Millisecond},
		{spans(1, 2, 3), 0.5, 2 * time.Millisecond},
		{hundred, 0.99, 99},
		{hundred, 0.991, 100},
		{hundred, 1, 100},
	} {
		require.Equal(t, c.want, quantile(c.of, c.q), "%v of %v", c.q, c.of)
	}
}

func TestCallsOfASecond(t *testing.T) {
	calls := spans(0, 900, 1000, 1100, 1899, 2100, 5000)
	require.Equal(t, 4, busiest(calls, 0, 10*time.Second), "900 to 1899")
	require.Equal(t, 3, busiest(calls, time.Second, 10*time.Second), "1000 to 1899")
	require.Equal(t, 1, busiest(calls, 3*time.Second, 10*time.Second))
	require.Zero(t, busiest(calls, 6*time.Second, 10*time.Second))
	require.Equal(t, 1, busiest(spans(0, 1000, 2000), 0, 10*time.Second), "a second later is the next second")
	require.Equal(t, 3, within(calls, time.Second, 2*time.Second), "the first moment counts, the last one does not")
	require.Zero(t, within(calls, 2*time.Second, time.Second))
}

func TestIdeal(t *testing.T) {
	for name, c := range map[string]struct {
		account            account
		documents, workers int
		want               time.Duration
	}{
		"the quota's":             {account{quota: 10}, 100, 1000, 10 * time.Second},
		"the workers' own":        {account{quota: 10}, 100, 10, 15 * time.Second},
		"with an outage":          {account{quota: 10, outages: []window{{time.Second, 3 * time.Second}}}, 100, 1000, 12 * time.Second},
		"an outage after the end": {account{quota: 10, outages: []window{{60 * time.Second, 90 * time.Second}}}, 100, 1000, 10 * time.Second},
		"halved and doubled": {
			account{quota: 10, steps: []step{{4 * time.Second, 5}, {8 * time.Second, 10}}}, 100, 1000, 12 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.InDelta(t, c.want.Seconds(), c.account.ideal(c.documents, c.workers).Seconds(), 0.002)
		})
	}
}

func TestOverloadIsThreefold(t *testing.T) {
	a := overload()
	require.InDelta(t, 22.22, a.quota, 0.01)
	require.InDelta(t, 22, a.burst, 0)
	require.Equal(t, 6666, a.documents(backlog))
	require.InDelta(t, 300, a.ideal(a.documents(backlog), 100).Seconds(), 0.05)
	unlimited := account{quota: 1e6}
	require.InDelta(t, 100, unlimited.ideal(a.documents(backlog), 100).Seconds(), 0.05, "the workers alone take a third of the time")
}

func TestQuotaAndOutagesByTime(t *testing.T) {
	a := account{quota: 10, steps: []step{{4 * time.Second, 5}}, outages: []window{{2 * time.Second, 3 * time.Second}}}
	require.InDelta(t, 10, a.quotaAt(4*time.Second-1), 0)
	require.InDelta(t, 5, a.quotaAt(4*time.Second), 0)
	out, next := a.gone(time.Second)
	require.False(t, out)
	require.Equal(t, 2*time.Second, next)
	out, _ = a.gone(2 * time.Second)
	require.True(t, out)
	out, next = a.gone(3 * time.Second)
	require.False(t, out)
	require.Greater(t, next, 24*time.Hour)
}

func TestBucketIsStrict(t *testing.T) {
	b := newBucket(2)
	taken := func(at time.Duration) bool { return b.take(at, 10) }
	require.True(t, taken(time.Hour), "no more than the burst, however long nobody came")
	require.True(t, taken(time.Hour))
	require.False(t, taken(time.Hour))
	require.False(t, taken(time.Hour+99*time.Millisecond), "a refusal takes nothing, but the time has not come")
	require.True(t, taken(time.Hour+100*time.Millisecond))
	require.False(t, taken(time.Hour+199*time.Millisecond))
	require.True(t, taken(time.Hour+200*time.Millisecond))
}

func TestADocumentIsReadOnlyWhole(t *testing.T) {
	for _, n := range []int{0, 7, 66666} {
		got, err := documentOf(document(n))
		require.NoError(t, err)
		require.Equal(t, n, got)
	}
	_, err := documentOf(document(7)[:documentBytes-1])
	require.ErrorIs(t, err, errNoDocument)
	_, err = documentOf(nil)
	require.ErrorIs(t, err, errNoDocument)
}

func TestLedgerAccountsForEveryDocument(t *testing.T) {
	answered := fate{replied: true, reply: reply{status: http.StatusOK}, took: 3}
	buried := func(letter string) fate {
		return fate{replied: true, reply: reply{status: http.StatusServiceUnavailable, letter: letter, outcome: "exhausted"}}
	}
	second := answered
	second.target, second.took = 1, 1
	whole := ledger{answered, second, buried("a"), buried("b")}
	times := map[int]int{0: 1, 1: 2}
	letters := map[string]bool{"a": true, "b": true}

	got := whole.settle(0, len(whole), times, letters, 2)
	require.Equal(t, tally{answered: []time.Duration{1, 3}, perTarget: []int{1, 1}, dead: 2, paidTwice: 1}, got)
	require.Empty(t, whole.strangers(letters))
	part := whole.settle(2, 4, times, letters, 2)
	require.Equal(t, tally{perTarget: []int{0, 0}, dead: 2}, part)

	for name, c := range map[string]struct {
		fate    fate
		times   map[int]int
		letters map[string]bool
		fault   string
	}{
		"no answer":            {fate{err: io.ErrUnexpectedEOF}, map[int]int{0: 1}, nil, "document 0 has no answer: unexpected EOF"},
		"answered by nobody":   {answered, nil, nil, "document 0 was answered, but not by the provider"},
		"refused":              {buried(""), nil, nil, "document 0 got a 503 (exhausted) without a dead letter"},
		"a letter that is not": {buried("c"), nil, letters, "document 0 has dead letter c, which is not in the folder"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ledger{c.fate}.settle(0, 1, c.times, c.letters, 1)
			require.Equal(t, []string{c.fault}, got.faults)
			require.Empty(t, got.answered)
			require.Zero(t, got.dead)
		})
	}
	broken := ledger{{}, {err: fmt.Errorf("read: %w", os.ErrDeadlineExceeded)}}.settle(0, 2, nil, nil, 1)
	require.Equal(t, tally{perTarget: []int{0}, late: 2}, broken, "broken off, not lost")
	require.Equal(t, []string{"dead letter b was named to nobody"}, ledger{buried("a")}.strangers(letters))
	require.Equal(t, []string{"dead letter a was named to 2 documents"}, ledger{buried("a"), buried("a")}.strangers(map[string]bool{"a": true}))
}

func TestOpenLetters(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "open"), 0o700))
	for _, name := range []string{"a.json", "b.json", "b.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "open", name), nil, 0o600))
	}
	ids, err := openLetters(dir, filepath.Join(dir, "absent"))
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"a": true, "b": true}, ids)
}

func TestFiguresOfAResult(t *testing.T) {
	a := account{quota: 10, outages: []window{{10 * time.Second, 20 * time.Second}}}
	r := &result{
		trial: trial{account: a, documents: 200}, scale: 10, ideal: 40 * time.Second, makespan: 50 * time.Second,
		backlog: tally{answered: spans(100, 200), perTarget: []int{1, 4}, dead: 50},
		stream:  tally{answered: spans(30), dead: 1, faults: []string{"x"}},
		counts: counts{
			calls: spans(9000, 20100, 20200, 23000, 23100, 23200, 23900, 31000), accepted: spans(9000, 23100, 31000), answers: spans(9500, 23800), throttled: 2, failed: 3,
		},
	}
	require.InDelta(t, 1.25, r.late(), 1e-9)
	require.InDelta(t, 2./200/1.25, r.goodput(), 1e-9)
	require.InDelta(t, 8./203, r.callsPerDocument(), 1e-9)
	require.InDelta(t, 0.25, r.throttled(), 1e-9)
	require.InDelta(t, 0.375, r.failed(), 1e-9)
	require.InDelta(t, 0.25, r.dead(), 1e-9)
	require.Equal(t, time.Second, r.latency(0.5))
	require.Equal(t, 300*time.Millisecond, r.streamLatency(0.5))
	require.InDelta(t, 0.25, r.luck(), 1e-9)
	end, accepted, answered := r.recovery()
	require.Equal(t, 20*time.Second, end)
	require.Equal(t, 23100*time.Millisecond, accepted)
	require.Equal(t, 23800*time.Millisecond, answered)
	require.InDelta(t, 0.3, r.rush(), 1e-9, "three from the first accepted one on, two from the end of the outage on")
	require.InDelta(t, 0.4, r.peak(), 1e-9)
	require.Equal(t, "–", seconds(r.told(quantile(nil, 0.5))))
}

func TestBars(t *testing.T) {
	for _, c := range []struct {
		bar  bar
		text string
	}{
		{bar{scenario: "s", what: "w", value: 1.05, limit: 1.05}, "1.05  ≤ 1.05  ok"},
		{bar{scenario: "s", what: "w", value: 1.051, limit: 1.05}, "1.051  ≤ 1.05  MISSED"},
		{bar{scenario: "s", what: "w", value: 0.93, limit: 0.92, atLeast: true}, "0.93  ≥ 0.92  ok"},
		{bar{scenario: "s", what: "w", value: 0.91, limit: 0.92, atLeast: true}, "0.91  ≥ 0.92  MISSED"},
		{bar{scenario: "s", what: "w", unit: " %", limit: 3, missing: child.ErrNoRedis.Error()}, "not measured (redis-server is not on PATH)  ≤ 3 %  MISSED"},
		{bar{scenario: "s", what: "w", value: nan(), limit: 3}, "NaN  ≤ 3  MISSED"},
	} {
		require.Equal(t, c.text, strings.TrimSpace(strings.TrimPrefix(c.bar.String(), "bar s         w")))
	}
}

func nan() float64 { z := 0.; return z / z }

func TestARowThatFailedIsMissedAndOneThatNobodyAskedForIsNot(t *testing.T) {
	f := &fleet{}
	f.demand(bar{limit: 1}, found{}, (*result).late)
	require.Empty(t, f.bars)
	f.demand(bar{limit: 1}, found{why: "x"}, (*result).late)
	require.Len(t, f.bars, 1)
	require.False(t, f.bars[0].holds())
}

func TestOnly(t *testing.T) {
	f := &fleet{only: []string{"outage", "sidecars/r*"}}
	require.True(t, f.wants("outage", "paced"))
	require.True(t, f.wants("sidecars", "redis"))
	require.False(t, f.wants("sidecars", "own"))
	require.False(t, f.wants("overload", "paced"))
	require.True(t, (&fleet{}).wants("overload", "paced"))
	require.NoError(t, f.known([]scenario{outage(), sidecars()}))
	require.EqualError(t, f.known([]scenario{sidecars()}), `-only "outage" names no scenario`)
}

func TestMarkdown(t *testing.T) {
	text := table{head: []string{"strategy", "p50 s"}, rows: [][]string{{"a", "–"}, {"much longer", "12.5"}}}.markdown()
	require.Equal(t, `| strategy    | p50 s |
|-------------|------:|
| a           |     – |
| much longer |  12.5 |
`, text)
}

func TestTheResultDocumentKeepsWhatIsAboveItsMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.md")
	require.NoError(t, os.WriteFile(path, []byte("# Fleet\n\n"+mark+"\nyesterday's\n"), 0o600))
	f := &fleet{scale: 10, text: []string{"table\n"}}
	require.NoError(t, f.write(path, "then, there", "bar\n", "1 of 1 bars hold"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), "# Fleet\n\n"+mark+"\n\nMeasured then, there; "), string(text))
	require.Contains(t, string(text), "table\n")
	require.NotContains(t, string(text), "yesterday's")

	require.NoError(t, os.WriteFile(path, []byte("# Fleet\n"), 0o600))
	require.ErrorContains(t, f.write(path, "", "", ""), "has no line")
}

func TestSettingsAreScaled(t *testing.T) {
	text := settings{paced: true, hold: true, state: "redis://127.0.0.1:1"}.text(10)
	require.Equal(t, `retry: {total_budget: 9s, base_delay: 100ms, cap_delay: 3s, attempt_timeout: 6s}
breaker: {on_open: wait, reset_timeout: 200ms, window: 6s}
pacing: {adaptive: true, start_rate: 20, recovery: 1s}
state: {url: "redis://127.0.0.1:1"}
`, text)
	require.Contains(t, settings{budget: 600 * time.Second}.text(10), "total_budget: 1m0s")
	require.Contains(t, settings{}.text(10), "pacing: {adaptive: false}")
}
