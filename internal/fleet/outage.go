package main

import "time"

// outage is a minute in which the provider is gone, under the first scenario's load.
func outage() scenario {
	a := overload()
	a.outages = []window{{60 * time.Second, 120 * time.Second}}
	return scenario{
		name: "outage", title: "A 60 s outage (503 in 50 ms, calls in flight break) after a minute of the first scenario",
		head: []string{"makespan / ideal", "goodput / ideal", "calls / doc", "throttled", "503", "dead-lettered", "p50 s", "p99 s", "first second after / quota", "peak calls/s after / quota", "first accepted after, s"},
		cells: func(r *result) []string {
			end, accepted, _ := r.recovery()
			resumed := time.Duration(-1)
			if accepted >= 0 {
				resumed = accepted - end
			}
			return []string{
				ratio(r.late()), fraction(r.goodput()), ratio(r.callsPerDocument()), percent(r.throttled()), percent(r.failed()), lost(r.dead()),
				seconds(r.latency(0.5)), seconds(r.latency(0.99)), ratio(r.rush()), ratio(r.peak()), seconds(resumed),
			}
		},
		rows: []row{
			{name: "paced", title: "ocr-proxy, on_open: wait", trial: trial{
				account: a, workers: crowd, documents: a.documents(backlog), settings: settings{paced: true, hold: true},
			}},
			{name: "unpaced", title: "pacing.adaptive: false, on_open: reject, 100 s of work", trial: trial{
				account: a, workers: crowd, documents: a.documents(short),
			}},
		},
		bars: func(f *fleet, of func(string) found) {
			f.demand(bar{scenario: "outage", what: "dead-lettered"}, of("paced"), deadLetters)
			f.demand(bar{scenario: "outage", what: "calls in the first second after / quota", limit: 1.2}, of("paced"), (*result).rush)
		},
	}
}
