package pace

import (
	"fmt"
	"time"
)

// Priority is how urgent a request is among those that wait.
type Priority uint8

// The priorities, by which shares of the rate are weighted.
const (
	Normal Priority = iota
	High
	Low
)

// String is the priority's name in headers and metrics.
func (p Priority) String() string { return [...]string{"normal", "high", "low"}[p] }

// Priorities lists all of them.
func Priorities() []Priority { return []Priority{High, Normal, Low} }

// Request is what a queue needs to know of one call.
type Request struct {
	Tenant   string    // whose turn it is among tenants; "": nobody's in particular
	Priority Priority  // share among what waits
	Cost     int       // of the quota: 1, or the pages where those are what counts; below 1 counts as 1
	Again    bool      // the request has had its turn before: it goes to the head
	Job      bool      // the call starts a job and needs a permit
	Deadline time.Time // when the turn must have come; zero: it may take for ever
}

// TooLongError says that a request's turn would come after its deadline.
type TooLongError struct {
	Wait time.Duration // until its turn would have come
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the queue is %s long, which is more than the request has", e.Wait)
}

// FullError says that no more requests may wait.
type FullError struct {
	Wait time.Duration // until there will be room
}

func (e *FullError) Error() string { return "the queue is full" }

// Result is what became of a call.
type Result uint8

// The results.
const (
	Other     Result = iota // says nothing about the rate
	Accepted                // the provider took it
	Throttled               // it was too much
)

// CircuitState is what a queue needs to know of the account's breaker.
type CircuitState uint8

// The states.
const (
	Closed  CircuitState = iota
	Holding              // nobody leaves but a probe, once the wait is 0
	Passing              // everybody leaves at once, to be told
)

// Circuit tells the state of an account's breaker and, while it holds, how long until a probe may leave.
type Circuit func() (CircuitState, time.Duration)

// Turn is one request's place in a queue, and then its leave to make one call. The zero value is ready for Enter.
type Turn struct {
	queue *Queue
}

// Ready is closed when the turn has come or cannot come any more; nil: it has come already.
func (t *Turn) Ready() <-chan struct{} { return nil }

// Err is why the turn cannot come; nil: it has come. It is asked after Ready was closed.
func (t *Turn) Err() error { return nil }

// Paused reports whether it was a pause that the turn waited for, rather than the rate.
func (t *Turn) Paused() bool { return false }

// Seed tells the calls per second that the provider has named, before Done(Throttled).
func (t *Turn) Seed(rate float64) { _ = rate }

// Leave gives the turn, or the place in the queue, back: no call was made.
func (t *Turn) Leave() { t.queue = nil }

// Done tells what became of the call. Only the first of Leave and Done counts.
func (t *Turn) Done(r Result) { _, t.queue = r, nil }

// Snapshot is a queue at one moment.
type Snapshot struct {
	Waiting  map[Priority]int
	InFlight int
	Rate     float64       // calls, or pages, per second; 0: nothing limits it
	Paused   time.Duration // left
	Held     bool          // by an open circuit
	Oldest   time.Duration // that somebody has waited
}

// Queue is where the calls of one operation of one account wait for their turn.
type Queue struct{}

// Enter asks for a turn. Without an error the turn has come, or Ready will tell. The error is a *TooLongError or a *FullError.
func (q *Queue) Enter(t *Turn, r Request) error {
	_ = r
	t.queue = q
	return nil
}

// Full reports whether a request that came now would find no place, and how long until there will be one.
func (q *Queue) Full() (wait time.Duration, full bool) { return 0, false }

// Pause lets nobody go until then, or until MaxPause from now if that is sooner.
func (q *Queue) Pause(until time.Time) { _ = until }

// Remaining returns how much of the present pause is left.
func (q *Queue) Remaining() time.Duration { return 0 }

// Snapshot tells how the queue stands.
func (q *Queue) Snapshot() Snapshot { return Snapshot{} }

// Queues are those of one account, one for each scope. The scopes are fixed at the start, so that no traffic can add to them.
type Queues struct {
	account string
	scopes  map[string]*Queue
}

// QueueSettings says how the queues of an account let calls go. It does not check its values; whoever reads the configuration does.
type QueueSettings struct {
	Rate        float64 // calls per second and scope; 0: none is fixed
	Burst       int     // calls that may go at once above a fixed rate; below 1 counts as 1
	MaxInFlight int     // calls that may run at one time; 0: any number
	Adaptive    bool    // learn the rate from throttles
	StartRate   float64 // calls per second that learning starts from
	Recovery    time.Duration
	MaxWaiting  int
	MaxPause    time.Duration // longest pause that one hint may cause; 0: any
	Smear       time.Duration // over which a crowd is let out after a pause where no rate paces it
}

// NewQueues returns queues for the declared scopes and for "other".
func NewQueues(account string, scopes []string, s QueueSettings, c Circuit, p *Permits) *Queues {
	_, _, _ = s, c, p
	q := &Queues{account: account, scopes: map[string]*Queue{otherScope: {}}}
	for _, scope := range scopes {
		q.scopes[scope] = &Queue{}
	}
	return q
}

// Account returns the name of the provider account.
func (q *Queues) Account() string { return q.account }

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

// CircuitChanged must be called after each change of the state that the circuit tells.
func (q *Queues) CircuitChanged() {}

// Update replaces the settings. What has been learned stays.
func (q *Queues) Update(s QueueSettings) { _ = s }

// Permits bound the jobs that an account has open at its provider.
type Permits struct{ limit int }

// NewPermits allows that many open jobs; 0: any number, until the provider says that it was too many. A job that nobody hears of again is
// taken to be over after lease.
func NewPermits(limit int, lease time.Duration) *Permits { _ = lease; return &Permits{limit: limit} }

// Started counts a job that the provider has accepted. To name one again changes nothing.
func (p *Permits) Started(id string) { _ = id }

// Ended gives back the place of a job, if it has one.
func (p *Permits) Ended(id string) { _ = id }

// Refused is told when the provider says that too many jobs are open.
func (p *Permits) Refused() {}

// Open is the number of jobs that are taken to be open, and the limit, 0 for none.
func (p *Permits) Open() (open, limit int) { return 0, p.limit }
