package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is the figures of a run in which the proxy does as well as a bare one, on a machine that is slower in the second round.
func run(change func(cells []cell)) []cell {
	did := func(name string, rps, p50 float64) result {
		return result{Name: name, Requests: 300, Status: map[string]int{"200": 300}, PeakRSS: 60, Rounds: []round{
			{RPS: rps, P50: p50, CPU: 1 / rps}, {RPS: rps / 3, P50: 3 * p50, CPU: 3 / rps}, {RPS: rps, P50: p50, CPU: 1 / rps},
		}}
	}
	results := func() []result {
		return []result{
			did(direct, 300, 20), did("nginx", 90, 21), did("haproxy", 90, 21), did("caddy", 50, 23),
			did(stream, 100, 22), did(spill, 60, 22), did(ours, 100, 22),
		}
	}
	var cells []cell
	for _, b := range bars() {
		c := cell{Label: b.load.label + ", as it is called", Conns: b.load.conns, Body: b.load.body, Results: results()}
		if b.load.ofRates {
			c.Rate = 1000
		}
		cells = append(cells, c)
	}
	change(cells)
	return cells
}

func TestBars(t *testing.T) {
	mine := func(cells []cell, f func(r *result)) {
		for _, c := range cells {
			f(c.of(ours))
		}
	}
	for name, c := range map[string]struct {
		change func(cells []cell)
		missed []string
	}{
		"as good as a bare proxy": {func([]cell) {}, nil},
		"slower than a bare proxy": {func(cells []cell) {
			mine(cells, func(r *result) {
				for i := range r.Rounds {
					r.Rounds[i].RPS *= 0.84
				}
			})
		}, []string{"of go-stream", "of nginx", "of haproxy"}},
		"dearer": {func(cells []cell) {
			mine(cells, func(r *result) {
				for i := range r.Rounds {
					r.Rounds[i].CPU *= 1.31
				}
			})
		}, []string{"CPU per request"}},
		"larger":         {func(cells []cell) { mine(cells, func(r *result) { r.PeakRSS = 101 }) }, []string{"peak memory"}},
		"with a failure": {func(cells []cell) { mine(cells, func(r *result) { r.Status["200"]-- }) }, []string{"other than 200"}},
		"later": {func(cells []cell) {
			mine(cells, func(r *result) {
				for i := range r.Rounds {
					r.Rounds[i].P50 *= 1.05
				}
			})
		}, []string{"added p50"}},
		"without the peers": {func(cells []cell) {
			for i := range cells {
				cells[i].Results = cells[i].Results[6:]
			}
		}, []string{"of go-stream", "of nginx", "not measured"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.Equal(t, len(c.missed) == 0, report(&out, run(c.change)), out.String())
			lines := strings.Split(out.String(), "\n")
			for _, word := range c.missed {
				found := false
				for _, line := range lines {
					found = found || strings.Contains(line, word) && strings.Contains(line, "MISSED")
				}
				require.True(t, found, "%s in\n%s", word, out.String())
			}
		})
	}
	require.False(t, report(&bytes.Buffer{}, nil), "what was not measured does not hold")
}

func TestFiguresOfARun(t *testing.T) {
	dir := t.TempDir()
	_, err := readCells([]string{dir})
	require.ErrorContains(t, err, "no figures")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "01.json"), []byte(`{"label": "matrix", "conns": 16, "body_bytes": 2048, "results": [
		{"name": "ocr-proxy", "requests": 7, "status": {"200": 7}, "peak_rss_mb": 40.5, "rounds": [{"rps": 1, "p50_ms": 2, "cpu_s_per_1000": 3}]}]}`), 0o600))
	cells, err := readCells([]string{dir})
	require.NoError(t, err)
	require.Equal(t, []cell{{Label: "matrix", Conns: 16, Body: 2048, Results: []result{
		{Name: ours, Requests: 7, Status: map[string]int{"200": 7}, PeakRSS: 40.5, Rounds: []round{{RPS: 1, P50: 2, CPU: 3}}},
	}}}, cells)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "02.json"), []byte(`{`), 0o600))
	_, err = readCells([]string{dir})
	require.ErrorContains(t, err, "02.json")
}
