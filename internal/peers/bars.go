package main

import "fmt"

// The names of the proxies in the figures.
const (
	direct = "direct"
	ours   = "ocr-proxy"
	stream = "go-stream" // a bare ReverseProxy
	spill  = "go-spill"  // one that first writes a large body to a file
)

// bar is what a figure must be at least or, where more is worse, at most, or that it must be nothing.
type bar struct {
	load   load
	what   string
	figure func(cells []cell) (float64, bool) // false: it was not measured
	least  float64
	most   float64 // 0: least counts
	none   bool
}

func (b bar) holds(value float64) bool {
	switch {
	case b.none:
		return value == 0
	case b.most > 0:
		return value <= b.most
	}
	return value >= b.least
}

func (b bar) limit() string {
	switch {
	case b.none:
		return "none"
	case b.most > 0:
		return fmt.Sprintf("at most %.4g", b.most)
	}
	return fmt.Sprintf("at least %.4g", b.least)
}

func bars() []bar {
	small, page := closed("2 KB, 16 clients", 2<<10), closed("200 KB, 16 clients", 200<<10)
	scan, book := closed("5 MB, 16 clients", 5<<20), closed("25 MB, 16 clients", 25<<20)
	all := []bar{
		faster(small, stream, 0.90), faster(small, "caddy", 1),
		faster(page, stream, 0.90), faster(page, "nginx", 1), faster(page, "caddy", 1),
	}
	for _, l := range []load{scan, book} {
		all = append(all, faster(l, stream, 0.85), faster(l, spill, 1.2), faster(l, "nginx", 1), faster(l, "haproxy", 1),
			bar{load: l, what: "CPU per request, of " + stream, figure: cpu, most: 1.3})
	}
	open := load{name: "2 KB, 1000/s", label: "open loop", body: 2 << 10, conns: 256, ofRates: true}
	all = append(all,
		bar{load: open, what: "added p50, of " + stream + "'s", figure: added, most: 1.4},
		bar{load: load{name: "25 MB, 128 clients", label: "matrix", body: 25 << 20, conns: 128}, what: "peak memory, MB", figure: peak, most: 100},
		bar{load: load{name: "5 MB, 128 held 1.5 s", label: "128 documents held", body: 5 << 20, conns: 128}, what: "peak memory, MB", figure: peak, most: 100},
	)
	for _, l := range []load{small, page, scan} {
		l.label, l.name = "faults", l.name+", a fifth fails"
		all = append(all, bar{load: l, what: "answers other than 200, %", figure: failed, none: true})
	}
	return all
}

// closed is a load of 16 clients that ask as fast as they are answered.
func closed(name string, body int) load {
	return load{name: name, label: "matrix", body: body, conns: 16}
}

// faster is the bar of requests a second against another proxy.
func faster(l load, than string, least float64) bar {
	return bar{load: l, what: "requests/s, of " + than, least: least, figure: func(cells []cell) (float64, bool) {
		return across(cells, []string{ours, than}, func(r []round) float64 { return r[0].RPS / r[1].RPS })
	}}
}

func cpu(cells []cell) (float64, bool) {
	return across(cells, []string{ours, stream}, func(r []round) float64 { return r[0].CPU / r[1].CPU })
}

// added compares what the proxies add to a direct call's median.
func added(cells []cell) (float64, bool) {
	over := func(name string) (float64, bool) {
		return across(cells, []string{name, direct}, func(r []round) float64 { return r[0].P50 - r[1].P50 })
	}
	mine, measured := over(ours)
	bare, too := over(stream)
	if !measured || !too || bare <= 0 {
		return 0, false
	}
	return mine / bare, true
}

func peak(cells []cell) (most float64, measured bool) {
	for _, c := range cells {
		if r := c.of(ours); r != nil && r.PeakRSS > 0 {
			most, measured = max(most, r.PeakRSS), true
		}
	}
	return most, measured
}

func failed(cells []cell) (float64, bool) {
	bad, all := 0, 0
	for _, c := range cells {
		if r := c.of(ours); r != nil {
			bad, all = bad+r.Requests-r.Status["200"], all+r.Requests
		}
	}
	if all == 0 {
		return 0, false
	}
	return 100 * float64(bad) / float64(all), true
}
