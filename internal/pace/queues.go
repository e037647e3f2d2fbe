package pace

import "time"

// otherScope is the scope of everything that was not declared.
const otherScope = "other"

// Settings says how the queues of an account let calls go. It does not check its values; whoever reads the configuration does.
type Settings struct {
	Rate        float64 // calls per second and scope; 0: none is fixed
	Burst       int     // calls that may go at once above a fixed rate; below 1 counts as 1
	MaxInFlight int     // calls that may run at one time; 0: any number
	Adaptive    bool    // learn the rate from throttles
	StartRate   float64 // calls per second that learning starts from
	Recovery    time.Duration
	MaxWaiting  int           // requests that may wait; 0: any number
	MaxPause    time.Duration // longest pause that one hint may cause; 0: any
	Smear       time.Duration // over which a crowd is let out after a pause where no rate paces it
}

func (s *Settings) tuning() Tuning {
	return Tuning{Rate: s.Rate, Burst: s.Burst, Adaptive: s.Adaptive, StartRate: s.StartRate, Recovery: s.Recovery}
}

// Queues are those of one account, one for each scope. The scopes are fixed at the start, so that no traffic can add to them.
type Queues struct {
	account string
	scopes  map[string]*Queue
}

// NewQueues returns queues for the declared scopes and for "other". The circuit may be nil: always closed. So may the permits: any number of jobs.
func NewQueues(account string, scopes []string, s Settings, c Circuit, p *Permits) *Queues {
	q := &Queues{account: account, scopes: make(map[string]*Queue)}
	for _, scope := range append([]string{otherScope}, scopes...) {
		if q.scopes[scope] == nil {
			q.scopes[scope] = newQueue(s, c, p)
		}
	}
	if p != nil {
		p.mu.Lock()
		for _, queue := range q.scopes {
			p.queues = append(p.queues, queue)
		}
		p.mu.Unlock()
	}
	return q
}

// For returns the queue of a scope. Scopes that were not declared share the queue "other".
func (q *Queues) For(scope string) *Queue {
	if queue, ok := q.scopes[scope]; ok {
		return queue
	}
	return q.scopes[otherScope]
}

// Scopes lists the names of the queues.
func (q *Queues) Scopes() []string {
	names := make([]string, 0, len(q.scopes))
	for name := range q.scopes {
		names = append(names, name)
	}
	return names
}

// Share has the queues get their slots elsewhere than from rates of their own. For each scope it calls pacer with what is to be called when there
// is news for the queue, never from within a Pacer's method. It is called before the first request.
func (q *Queues) Share(pacer func(scope string, t Tuning, wake func()) Pacer) {
	for scope, queue := range q.scopes {
		queue.mu.Lock()
		queue.pacer = pacer(scope, queue.settings.tuning(), queue.wake)
		queue.mu.Unlock()
	}
}

// CircuitChanged must be called after each change of the state that the circuit tells, and by nobody whom the circuit's function would wait for.
func (q *Queues) CircuitChanged() {
	for _, queue := range q.scopes {
		queue.look()
	}
}

// Update replaces the settings. What has been learned stays.
func (q *Queues) Update(s Settings) {
	for _, queue := range q.scopes {
		queue.update(s)
	}
}
