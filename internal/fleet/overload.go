package main

import (
	"math"
	"time"
)

// short is the backlog of the rows that only show what is gained: a table's shares do not need more.
const short = backlog / 3

// overloads are three: with hints and a burst, without either, and with a quota that changes.
func overloads() []scenario {
	normal := overload()
	strict := normal
	strict.burst, strict.hints = 1, false
	changing := normal
	changing.steps = []step{{backlog / 3, normal.quota / 2}, {backlog * 2 / 3, normal.quota}}
	shorter := changing
	shorter.steps = []step{{short / 3, normal.quota / 2}, {short * 2 / 3, normal.quota}}
	return []scenario{
		steady("overload", "Three-fold overload, 100 workers, quota 22.2/s, burst 22, Retry-After 1 s", normal, 1.05),
		// A bucket of one call forgives a call 45 ms, and on a faster clock less than what everybody is late by now and then.
		inRealTime(steady("strict", "The first without Retry-After and with a burst of one call, in real time beside the others", strict, 1.10)),
		{
			name: "changing", title: "The first with a quota that halves after 100 s and doubles again after 200 s (after a third and two thirds of the shorter rows)",
			head: steadyHead(), cells: steadyCells,
			rows: []row{pacedRow(changing), unpacedRow(shorter)},
			bars: func(f *fleet, of func(string) found) {
				f.demand(bar{scenario: "changing", what: "goodput / ideal", limit: 0.92, atLeast: true}, of("paced"), (*result).goodput)
			},
		},
	}
}

// inRealTime lets a scenario's clock run like the provider's, because it is about times that no clock makes shorter. So slow it is done beside the
// others.
func inRealTime(s scenario) scenario {
	s.aside = true
	for i := range s.rows {
		s.rows[i].trial.clock = 1
	}
	return s
}

func pacedRow(a account) row {
	return row{name: "paced", title: "ocr-proxy", trial: trial{account: a, workers: crowd, documents: documents(a, backlog), settings: settings{paced: true}}}
}

func unpacedRow(a account) row {
	return row{name: "unpaced", title: "pacing.adaptive: false, 100 s of work", trial: trial{account: a, workers: crowd, documents: documents(a, short)}}
}

// documents is the work of that much time, changes of the quota reckoned with.
func documents(a account, d time.Duration) int { return int(math.Floor(a.capacity(d))) }

func steady(name, title string, a account, latest float64) scenario {
	return scenario{
		name: name, title: title, head: steadyHead(), cells: steadyCells,
		rows: []row{
			pacedRow(a),
			unpacedRow(a),
			{name: "control", title: "no proxy, workers that know the quota, 100 s of work", trial: trial{account: a, workers: crowd, documents: documents(a, short), direct: true}},
		},
		bars: func(f *fleet, of func(string) found) {
			f.demand(bar{scenario: name, what: "makespan / ideal", limit: latest}, of("paced"), (*result).late)
			f.demand(bar{scenario: name, what: "throttled calls", limit: 2, unit: " %"}, of("paced"), inPercent((*result).throttled))
			f.demand(bar{scenario: name, what: "dead-lettered"}, of("paced"), deadLetters)
		},
	}
}

func inPercent(value func(*result) float64) func(*result) float64 {
	return func(r *result) float64 { return 100 * value(r) }
}

func deadLetters(r *result) float64 { return float64(r.backlog.dead) }

func steadyHead() []string {
	return []string{"makespan / ideal", "goodput / ideal", "calls / doc", "throttled", "dead-lettered", "p50 s", "p99 s"}
}

func steadyCells(r *result) []string {
	return []string{
		ratio(r.late()), fraction(r.goodput()), ratio(r.callsPerDocument()), percent(r.throttled()), lost(r.dead()),
		seconds(r.latency(0.5)), seconds(r.latency(0.99)),
	}
}
