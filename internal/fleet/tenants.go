package main

import "time"

// bulk is how many documents one tenant has outstanding at a time.
const bulk = 5000

// tenants are a backfill and somebody who waits.
func tenants() scenario {
	a := overload()
	both := func(name, title string, bulk, realtime sender, documents int) row {
		return row{name: name, title: title, trial: trial{
			account: a, workers: documents, documents: documents, stream: time.Second, bulk: bulk, realtime: realtime,
			settings: settings{paced: true, budget: 600 * time.Second},
		}}
	}
	return scenario{
		name: "tenants", title: "A bulk tenant with 5,000 documents outstanding and a real-time tenant of 1 document/s, quota 22.2/s, budget 600 s",
		head: []string{"real-time p50 s", "real-time p99 s", "max s", "real-time documents", "real-time dead", "makespan / ideal", "dead-lettered", "throttled", "provider p99 s"},
		cells: func(r *result) []string {
			return []string{
				seconds(r.streamLatency(0.5)), seconds(r.streamLatency(0.99)), seconds(r.streamLatency(1)),
				number(float64(r.sent() - r.trial.documents)), number(float64(r.stream.dead)), ratio(r.late()), lost(r.dead()), percent(r.throttled()),
				seconds(quantile(r.counts.services, 0.99)),
			}
		},
		rows: []row{
			both("fair", "ocr-proxy, two tenants", sender{tenant: "backfill"}, sender{tenant: "counter"}, bulk),
			both("fifo", "ocr-proxy, nobody told apart", sender{}, sender{}, bulk),
		},
		bars: func(f *fleet, of func(string) found) {
			p99 := func(r *result) float64 { return r.streamLatency(0.99).Seconds() }
			const what = "real-time p99 "
			fair, fifo := of("fair"), of("fifo")
			if fair.result != nil {
				f.demand(bar{
					scenario: "tenants", what: what + "(limit: the provider's own p99 and one service)", unit: " s",
					limit: (quantile(fair.result.counts.services, 0.99) + serviceMean).Seconds(),
				}, fair, p99)
				if fifo.result != nil {
					f.demand(bar{scenario: "tenants", what: what + "/ that of one FIFO", limit: 1. / 20}, fair, func(r *result) float64 { return p99(r) / p99(fifo.result) })
				}
			}
			for _, x := range []found{fair, fifo} {
				if x.why != "" {
					f.demand(bar{scenario: "tenants", what: what + "in both rows", unit: " s"}, x, p99)
				}
			}
		},
	}
}
