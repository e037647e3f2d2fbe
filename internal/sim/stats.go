package sim

import (
	"maps"
	"net/http"
	"sync"
)

// outcome is what became of one request; each request has exactly one.
type outcome string

const (
	outcomeAccepted  outcome = "accepted"
	outcomeRejected  outcome = "rejected"
	outcomeThrottled outcome = "throttled"
	outcomeFailed    outcome = "failed"
	outcomeLost      outcome = "lost"
)

// outcomeOf reads the outcome from the status of an answer that was not provoked.
func outcomeOf(status int) outcome {
	switch {
	case status == http.StatusTooManyRequests:
		return outcomeThrottled
	case status >= http.StatusInternalServerError:
		return outcomeFailed
	case status >= http.StatusBadRequest:
		return outcomeRejected
	default:
		return outcomeAccepted
	}
}

// Counts tells what became of requests. Requests is always the sum of the five outcomes behind it.
type Counts struct {
	// Requests is the number of requests that came to an end, however they ended.
	Requests int `json:"requests"`
	// Accepted were answered with success.
	Accepted int `json:"accepted"`
	// Rejected got an error that was their own fault: a bad document, an unknown operation.
	Rejected int `json:"rejected"`
	// Throttled came too fast.
	Throttled int `json:"throttled"`
	// Failed got a server error.
	Failed int `json:"failed"`
	// Lost ended without an answer, whether the simulator or the client hung up.
	Lost int `json:"lost"`
	// Pages is how many pages a real provider would have charged for, those behind lost answers included.
	Pages int `json:"pages"`
	// Jobs is how many asynchronous jobs were started. A repeat under the same client token starts none.
	Jobs int `json:"jobs"`
}

// Stats is the state of a simulator's counters.
type Stats struct {
	// Kind is the provider played.
	Kind Kind `json:"kind"`
	Counts
	// Operations has the same counts by operation. Requests for anything unknown are under "other".
	Operations map[string]Counts `json:"operations"`
}

type counters struct {
	mu   sync.Mutex
	live Stats
}

func newCounters(kind Kind) *counters {
	return &counters{live: Stats{Kind: kind, Operations: map[string]Counts{}}}
}

func (c *counters) add(op string, o outcome, rep reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live.add(o, rep)
	counts := c.live.Operations[op]
	counts.add(o, rep)
	c.live.Operations[op] = counts
}

func (c *Counts) add(o outcome, rep reply) {
	c.Requests++
	c.Pages += rep.pages
	c.Jobs += rep.jobs
	switch o {
	case outcomeAccepted:
		c.Accepted++
	case outcomeRejected:
		c.Rejected++
	case outcomeThrottled:
		c.Throttled++
	case outcomeFailed:
		c.Failed++
	case outcomeLost:
		c.Lost++
	}
}

func (c *counters) snapshot() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.live
	s.Operations = maps.Clone(c.live.Operations)
	return s
}
