package main

// sidecars are ten proxies in front of one account, ten workers each.
func sidecars() scenario {
	a := overload()
	ten := trial{account: a, workers: crowd, documents: a.documents(backlog), sidecars: 10, settings: settings{paced: true}}
	one, shared, flickering := ten, ten, ten
	one.sidecars = 1
	shared.shared = true
	flickering.shared, flickering.flicker = true, true
	// What processes tell each other takes as long as it takes, some tenths of a second, and so does the time for which they reserve.
	return inRealTime(scenario{
		name: "sidecars", title: "Ten sidecars of ten workers, one account, three-fold overload, in real time beside the others",
		head: append(steadyHead(), "least / most served sidecar"),
		cells: func(r *result) []string {
			return append(steadyCells(r), ratio(r.luck()))
		},
		rows: []row{
			{name: "one", title: "one process, 100 workers", trial: one},
			{name: "own", title: "ten, each for itself", trial: ten},
			{name: "redis", title: "ten, state.url", trial: shared},
			{name: "killed", title: "ten, state.url, Redis killed and started again", trial: flickering},
		},
		bars: func(f *fleet, of func(string) found) {
			if one := of("one"); one.result != nil {
				f.demand(bar{scenario: "sidecars", what: "with Redis: makespan / one process's", limit: 1.05}, of("redis"), func(r *result) float64 { return r.late() / one.result.late() })
				f.demand(bar{scenario: "sidecars", what: "with Redis: goodput / one process's", limit: 0.95, atLeast: true}, of("redis"), func(r *result) float64 { return r.goodput() / one.result.goodput() })
			}
			f.demand(bar{scenario: "sidecars", what: "with Redis: throttled calls", limit: 3, unit: " %"}, of("redis"), inPercent((*result).throttled))
			f.demand(bar{scenario: "sidecars", what: "Redis killed: requests that failed"}, of("killed"), func(r *result) float64 {
				return float64(r.trial.documents - len(r.backlog.answered))
			})
			f.demand(bar{scenario: "sidecars", what: "Redis killed: proxies that did not rejoin"}, of("killed"), func(r *result) float64 { return float64(r.alone) })
		},
	})
}
