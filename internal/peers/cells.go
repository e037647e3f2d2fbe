package main

import "slices"

// cell is what was measured under one load, of all proxies.
type cell struct {
	Label   string   `json:"label"`
	Conns   int      `json:"conns"`
	Body    int      `json:"body_bytes"`
	Rate    float64  `json:"rate"` // requests a second; 0: as fast as they are answered
	Results []result `json:"results"`
}

// result is what was measured of one proxy.
type result struct {
	Name     string         `json:"name"`
	Requests int            `json:"requests"`
	Status   map[string]int `json:"status"`
	PeakRSS  float64        `json:"peak_rss_mb"`
	Rounds   []round        `json:"rounds"`
}

// round is one block of a proxy's.
type round struct {
	RPS float64 `json:"rps"`
	P50 float64 `json:"p50_ms"`
	CPU float64 `json:"cpu_s_per_1000"`
}

// load tells the cells that belong together.
type load struct {
	name    string
	label   string // the beginning of the cell's own
	body    int    // bytes
	conns   int
	ofRates bool // an open loop
}

func pick(cells []cell, l load) []cell {
	var found []cell
	for _, c := range cells {
		if len(c.Label) >= len(l.label) && c.Label[:len(l.label)] == l.label && c.Body == l.body && c.Conns == l.conns && (c.Rate > 0) == l.ofRates {
			found = append(found, c)
		}
	}
	return found
}

// of is what was measured of a proxy; nil: nothing was.
func (c cell) of(name string) *result {
	if i := slices.IndexFunc(c.Results, func(r result) bool { return r.Name == name }); i >= 0 {
		return &c.Results[i]
	}
	return nil
}

// across is the median, over the rounds of all cells, of what those proxies did in the same round; false: one of them is in no cell.
func across(cells []cell, names []string, figure func(r []round) float64) (float64, bool) {
	var all []float64
	for _, c := range cells {
		var results []*result
		n := 0
		for _, name := range names {
			r := c.of(name)
			if r == nil || len(r.Rounds) == 0 {
				return 0, false
			}
			if len(results) == 0 || len(r.Rounds) < n {
				n = len(r.Rounds)
			}
			results = append(results, r)
		}
		for i := range n {
			var same []round
			for _, r := range results {
				same = append(same, r.Rounds[i])
			}
			all = append(all, figure(same))
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return median(all), true
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
