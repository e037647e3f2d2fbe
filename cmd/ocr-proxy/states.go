package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ocr-proxy/ocr-proxy/internal/admin"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/watch"
)

// states shows the accounts to the admin listener.
func (s *server) states() []admin.Account {
	accounts := s.current()
	all := make([]admin.Account, 0, len(accounts))
	for _, a := range accounts {
		circuit := a.Breakers.Snapshot()
		paused, waiting := map[string]float64{}, map[string]admin.Queue{}
		for _, scope := range a.Queues.Scopes() {
			q, shown := queueState(a.Queues.For(scope).Snapshot())
			if q.PausedSeconds > 0 {
				paused[scope] = q.PausedSeconds
			}
			if shown {
				waiting[scope] = q
			}
		}
		open, limit := a.Permits.Open()
		all = append(all, admin.Account{
			Name: a.Name, Kind: a.Provider.Name, Upstream: a.Upstream.Redacted(), Observes: a.Observe != nil, InFlight: a.Purse.InProgress(),
			Breaker: admin.Breaker{State: circuit.State.String(), Reason: string(circuit.Reason), OpenSeconds: circuit.OpenFor.Seconds()},
			Paused:  paused, Queue: waiting, Jobs: admin.Jobs{Open: open, Limit: limit}, LastHour: lastHour(a.Watch.Hour()), Minutes: a.Watch.Minutes(),
		})
	}
	return all
}

// queueState shows a queue, or says that there is nothing to show: nobody has come, and nothing was learned. That a circuit is open, or was, is
// told of the account; here it matters to those that wait.
func queueState(s pace.Snapshot) (q admin.Queue, shown bool) {
	q = admin.Queue{
		Waiting:  admin.Waiting{High: s.Waiting[pace.High], Normal: s.Waiting[pace.Normal], Low: s.Waiting[pace.Low]},
		InFlight: s.InFlight, Rate: s.Rate, Learned: s.Learned,
		PausedSeconds: s.Paused.Seconds(), Held: s.Held, OldestWaitSeconds: s.Oldest.Seconds(),
	}
	return q, q.Waiting.All() > 0 || q.InFlight > 0 || q.Learned || q.PausedSeconds > 0
}

func lastHour(m watch.Minute) admin.Hour {
	h := admin.Hour{Requests: m.Requests, DeadLettered: m.DeadLettered, Attempts: map[string]int{}}
	for _, class := range classify.Classes() {
		if n := m.Of(class); n > 0 {
			h.Attempts[class.String()] = n
		}
	}
	return h
}

// loads shows how the configuration was last read.
type loads struct{ successful, at, pending prometheus.Gauge }

// taken notes that the configuration was taken, but for so many settings that wait for a restart.
func (l loads) taken(pending int) {
	l.successful.Set(1)
	l.at.SetToCurrentTime()
	l.pending.Set(float64(pending))
}

// registerProcessMetrics registers what is true of the process as a whole.
func registerProcessMetrics(reg prometheus.Registerer) loads {
	b := thisBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ocrproxy_build_info", Help: "1, with version, commit and Go version as labels.",
		ConstLabels: prometheus.Labels{"version": b.version, "commit": b.commit, "go_version": b.goVersion},
	})
	loaded := prometheus.NewGauge(prometheus.GaugeOpts{Name: "ocrproxy_config_last_reload_successful", Help: "1 if the configuration was last read without a problem."})
	at := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ocrproxy_config_last_reload_success_timestamp_seconds", Help: "When the configuration in effect was read.",
	})
	pending := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ocrproxy_config_restart_pending", Help: "Settings of the configuration that were changed and wait for a restart.",
	})
	reg.MustRegister(info, loaded, at, pending)
	info.Set(1)
	l := loads{loaded, at, pending}
	l.taken(0)
	return l
}
