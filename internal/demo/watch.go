package demo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// watchEvery is how often the proxy is asked what it is doing.
const watchEvery = 200 * time.Millisecond

// watcher turns the proxy's metrics into a line of status and into news.
type watcher struct {
	client  *http.Client
	admin   string
	display display
	done    atomic.Int64 // documents that are back

	mu      sync.Mutex
	letters []string // lines about dead letters that were not told yet
}

// hear takes in a document that is back. It is told with the next look, after what the breakers did.
func (w *watcher) hear(r result) {
	w.done.Add(1)
	if r.letter == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.letters = append(w.letters, fmt.Sprintf("%s: %s is a dead letter, outcome %s", r.account, r.document.Name, r.outcome))
}

func (w *watcher) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	letters := w.letters
	w.letters = nil
	return letters
}

// watch runs until the context ends.
func (w *watcher) watch(ctx context.Context) {
	var before scrape
	for pause(ctx, watchEvery) == nil {
		letters := w.take()
		now, err := readMetrics(ctx, w.client, w.admin)
		if err == nil { // the ledger is read later and with care; the status may miss a beat
			w.news(before, now)
			w.display.progress(int(w.done.Load()), status(now))
			before = now
		}
		for _, line := range letters {
			w.display.say("%s", line)
		}
	}
}

// news tells what the queues and the breakers did between two looks.
func (w *watcher) news(before, now scrape) {
	for _, account := range accounts() {
		if now.paced(account) && !before.paced(account) {
			w.display.say("%s: from now on its documents wait in a queue, which lets them go at %.1f calls/s to begin with", account, now.rate(account))
		}
		happened := func(from, to string) bool {
			by := labels{"provider": account, "from": from, "to": to}
			return now.sum("breaker_transitions_total", by) > before.sum("breaker_transitions_total", by)
		}
		if happened("closed", "open") {
			w.display.say("%s: the breaker opens; documents go to the dead letters, not to the provider", account)
		}
		if happened("half_open", "open") {
			w.display.say("%s: a probe failed; the breaker stays open", account)
		}
		if happened("half_open", "closed") {
			w.display.say("%s: the probe succeeded; the breaker is closed", account)
		}
	}
}

// status is one short line.
func status(s scrape) string {
	retries := int(s.observed("request_retries", nil)) // the histogram's sum is the number of retries
	var line strings.Builder
	fmt.Fprintf(&line, "retries %d, dead letters %d", retries, s.sum("dead_letters_written_total", nil))
	for _, account := range accounts() {
		if state := s.breaker(account); state != "closed" && state != "" {
			fmt.Fprintf(&line, ", %s %s", account, state)
		}
		waiting := s.sum("queue_depth", labels{"provider": account})
		switch paused := s.value("throttle_pause_seconds", labels{"provider": account}) > 0; {
		case s.paced(account) && waiting > 0 && paused:
			fmt.Fprintf(&line, ", %s paused (%d wait)", account, waiting)
		case s.paced(account) && waiting > 0:
			fmt.Fprintf(&line, ", %s %.1f/s (%d wait)", account, s.rate(account), waiting)
		case paused:
			fmt.Fprintf(&line, ", %s paused", account)
		}
	}
	return line.String()
}

// settled reads the metrics when they have caught up with the workers: the last counters follow the last answer by a moment. When they do
// not, they come as they are after a while, and the ledger shows it.
func settled(ctx context.Context, client *http.Client, admin string, requests int) (scrape, error) {
	for end := time.Now().Add(5 * time.Second); ; {
		now, err := readMetrics(ctx, client, admin)
		if err != nil {
			return nil, err
		}
		if now.sum("in_flight", nil) == 0 && now.sum("requests_total", nil) >= requests || time.Now().After(end) {
			return now, nil
		}
		if err := pause(ctx, watchEvery/4); err != nil {
			return nil, err
		}
	}
}
