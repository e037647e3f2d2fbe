package proxy

import (
	"errors"
	"slices"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/breaker"
	"github.com/ocr-proxy/ocr-proxy/internal/classify"
	"github.com/ocr-proxy/ocr-proxy/internal/pace"
	"github.com/ocr-proxy/ocr-proxy/internal/provider"
	"github.com/ocr-proxy/ocr-proxy/internal/retry"
)

// pass waits for all that lies before an attempt, in this order: the request's own wait, its turn among the calls of the account's operation,
// the circuit. What it gives must be handed back with settle.
func (x *exchange) pass(p *pause) (*permit, retry.Stop) {
	own := *p
	*p = pause{source: own.source, again: own.again, over: own.over}
	if stop := x.waitOwn(p, own.length); stop != retry.Continue {
		return nil, stop
	}
	if own.crowded {
		if stop := x.waitPlace(p); stop != retry.Continue {
			return nil, stop
		}
	}
	var held time.Duration // by the circuit of a credential
	for {
		permit := &permit{}
		if stop := x.takeTurn(&permit.turn, p); stop != retry.Continue {
			return nil, stop
		}
		changed, err := x.circuit.acquire(permit, x.account.HoldOpen)
		open, refused := errors.AsType[*breaker.OpenError](err)
		if !refused {
			if stop := x.leaveCrowd(permit, &held); stop != retry.Continue {
				return nil, stop
			}
			x.waitedFor(p, held, fromGate)
			return permit, retry.Continue
		}
		permit.turn.Leave()
		if stop := x.hold(p, open, changed, &held); stop != retry.Continue {
			return nil, stop
		}
		p.again = true
	}
}

// waitOwn sleeps for the request's own wait, unless it is known now that what comes after it does not fit.
func (x *exchange) waitOwn(p *pause, length time.Duration) retry.Stop {
	if length <= 0 {
		return retry.Continue
	}
	if wait := max(length, x.queue().Remaining()); !x.fits(wait) {
		x.notBefore = later(x.notBefore, time.Now().Add(wait))
		return retry.HintTooLong
	}
	began := x.mark()
	stop := x.sleep(length, nil)
	x.wait(p.source, began)
	if stop != retry.Continue {
		return stop
	}
	x.waitedFor(p, length, p.source)
	return retry.Continue
}

// spend takes a place among the retries that the account may make at one time.
func (x *exchange) spend() (over func(), ok bool) {
	return x.listener.Purse.Take(x.policy.PurseRatio, x.policy.PurseFloor)
}

// waitPlace waits until there is a place for one more retry. It is for accounts that hold their requests through an outage: before their circuit
// has opened, which successes that are still coming in may delay, a crowd fails fast, and none of it is to be given up for that.
func (x *exchange) waitPlace(p *pause) retry.Stop {
	for !x.held() { // the circuit holds everybody anyway
		over, ok := x.spend()
		if ok {
			p.over = over
			return retry.Continue
		}
		wait := retry.Uniform(max(x.policy.Base, placePoll))
		if !x.fits(wait) {
			return retry.Crowded
		}
		began := x.mark()
		stop := x.sleep(wait, nil)
		x.wait(fromBackoff, began)
		if stop != retry.Continue {
			return stop
		}
		x.waitedFor(p, wait, fromBackoff)
	}
	return retry.Continue
}

// placePoll is the least, as the most of a random time, after which a crowded retry looks again for a place.
const placePoll = 50 * time.Millisecond

// waitedFor adds a deliberate wait to the pause before the next attempt, which is named by its longest part. It is the time that was decided
// on: what the machine took beyond that is not ours.
func (x *exchange) waitedFor(p *pause, length time.Duration, source string) {
	if length <= 0 {
		return
	}
	if length >= p.length {
		p.source = source
	}
	p.length += length
	x.waited += length
	x.account.Metrics.delay(source, length)
}

// queue is the one in which the calls of this operation wait.
func (x *exchange) queue() *pace.Queue { return x.account.Queues.For(x.op.Name) }

// takeTurn waits until it is this call's turn.
func (x *exchange) takeTurn(turn *pace.Turn, p *pause) retry.Stop {
	queue := x.queue()
	if wait := x.holdTime(); wait > 0 && !x.fits(wait) {
		return x.refusedBy(wait)
	}
	deadline := x.start.Add(x.policy.Total - x.policy.leastAttempt()) // the account's share of the time, where another comes after it
	err := queue.Enter(turn, pace.Request{
		Tenant: x.ask.tenant, Priority: x.ask.priority, Cost: x.cost(queue), Again: p.again, Job: x.starts() && !x.heir, Deadline: deadline,
	})
	if err != nil {
		return x.turnedAway(queue, err)
	}
	ready := turn.Ready()
	if ready == nil {
		return retry.Continue
	}
	p.end() // what is held does not load the provider
	began := time.Now()
	stop := x.sleep(time.Until(deadline), ready)
	waited := time.Since(began)
	source := fromQueue
	if turn.Paused() {
		source = fromGate
		if p.source == fromHint {
			source = fromHint // its own: nobody else need have waited for it
		}
	}
	x.wait(source, began)
	if stop != retry.Continue {
		turn.Leave()
		x.waited += waited
		return stop
	}
	select {
	case <-ready:
		err = turn.Err()
	default:
		turn.Leave()
		err = &pace.TooLongError{}
	}
	if err != nil {
		x.waited += waited
		return x.turnedAway(queue, err)
	}
	x.waitedFor(p, waited, source)
	return retry.Continue
}

// turnedAway is why a call does not get its turn.
func (x *exchange) turnedAway(queue *pace.Queue, err error) retry.Stop {
	if full, ok := errors.AsType[*pace.FullError](err); ok {
		x.notBefore = later(x.notBefore, time.Now().Add(full.Wait))
		return retry.Full
	}
	if long, ok := errors.AsType[*pace.TooLongError](err); ok {
		x.notBefore = later(x.notBefore, time.Now().Add(long.Wait))
	}
	if x.held() {
		return x.refusedBy(x.holdTime())
	}
	if left := queue.Remaining(); left > 0 && !x.fits(left) {
		x.notBefore = later(x.notBefore, time.Now().Add(left))
		return retry.HintTooLong
	}
	x.queued = true
	return retry.Overflow
}

// cost is what a call takes of its quota: pages where those are what the provider counts, so that a call about many of them does not pass
// for one. It is read from the body only while the queue counts.
func (x *exchange) cost(queue *pace.Queue) int {
	kind := x.account.Provider
	if kind.QuotaPages == 0 || x.rpc != nil || !queue.Paced() {
		return 1
	}
	body, _ := x.open()
	defer func() { _ = body.Close() }()
	return min(max(1, kind.Charged(x.op.Name, body)), kind.QuotaPages)
}

// held reports whether the circuit of the account keeps requests waiting.
func (x *exchange) held() bool {
	if !x.account.HoldOpen {
		return false
	}
	_, held := x.circuit.account.Held()
	return held
}

// holdTime is how long the account's circuit is going to keep requests waiting at least; 0: it does not.
func (x *exchange) holdTime() time.Duration {
	if !x.account.HoldOpen {
		return 0
	}
	wait, _ := x.circuit.account.Held()
	return wait
}

// refusedBy ends a request at a circuit that stays open for that long.
func (x *exchange) refusedBy(wait time.Duration) retry.Stop {
	x.account.Breakers.Rejected()
	x.notBefore = later(x.notBefore, time.Now().Add(wait))
	return retry.Breaker
}

// hold waits for a circuit that has refused a call whose turn had come: that of its worker's credential, which the queue does not know.
func (x *exchange) hold(p *pause, open *breaker.OpenError, changed <-chan struct{}, held *time.Duration) retry.Stop {
	if !x.account.HoldOpen || !x.fits(open.Wait) {
		return x.refusedBy(open.Wait)
	}
	p.end()
	began := time.Now()
	stop := x.sleep(open.Wait, changed)
	x.wait(fromGate, began)
	*held += time.Since(began)
	return stop
}

// leaveCrowd spreads those who were held by the circuit of a credential.
func (x *exchange) leaveCrowd(permit *permit, held *time.Duration) retry.Stop {
	if *held == 0 || permit.probes() {
		return retry.Continue
	}
	spread := retry.Uniform(min(Smear, time.Until(x.deadline())/2))
	began := x.mark()
	stop := x.sleep(spread, nil)
	x.wait(fromGate, began)
	*held += spread
	if stop != retry.Continue {
		permit.done(breaker.Neutral)
		permit.turn.Leave()
	}
	return stop
}

// goesAtOnce reports whether the n-th attempt was throttled and the next one goes to the head of the queue without a wait of its own: where
// the rate is learned, the queue knows better than any backoff when there is room. A second throttle in a row waits by itself, too, for one
// call must not find out for all.
func (x *exchange) goesAtOnce(n int) bool {
	throttled := func(i int) bool { return x.history[i].verdict.Class == classify.Throttle }
	return x.account.Adaptive && throttled(n-1) && (n-x.elsewhere < 2 || !throttled(n-2))
}

// holdOthers pauses the operation for the wait that was computed after a throttle, where nothing is learned from throttles and the provider
// has not said how long.
func (x *exchange) holdOthers(v classify.Verdict, wait time.Duration) {
	if v.Class == classify.Throttle && v.Wait <= 0 && !x.account.Adaptive && !x.account.TripOnThrottle {
		x.queue().Pause(time.Now().Add(wait))
	}
}

// endTurn tells the queue what became of a call.
func (x *exchange) endTurn(v classify.Verdict, rate float64, permit *permit) {
	a := x.account
	result := pace.Other
	switch {
	case v.Aside:
	case v.Class == classify.Throttle && a.TripOnThrottle:
	case v.Class == classify.Throttle:
		if v.Wait > 0 {
			x.queue().Pause(time.Now().Add(v.Wait)) // without this request's own jitter, and before anybody takes its place
		}
		if x.tooManyJobs(v.Code) {
			a.Permits.Refused()
			break // that says nothing about the rate
		}
		if x.throttledAlone() {
			break
		}
		permit.turn.Seed(rate)
		result = pace.Throttled
	case v.Class.Good(), v.Class == classify.Permanent:
		result = pace.Accepted
	}
	if v.Class.Good() && x.starts() && !x.last.streams {
		x.begun = permit // until its job is known, lest another start takes the place between the two
		return
	}
	permit.turn.Done(result)
}

// throttledAlone reports whether the call's last attempt was its third throttle in a row or a later one. It waits by itself by then, and the queue has slowed down
// for the first two: if the rate is still too high, the calls of others say so. A document that is always throttled, whatever the rate, says it of
// itself alone.
func (x *exchange) throttledAlone() bool {
	n, row := len(x.history), 0
	for n-row > x.elsewhere && x.history[n-row-1].verdict.Class == classify.Throttle {
		row++
	}
	return row > 2
}

// tooManyJobs reports whether a throttle is about the jobs that are open. Where nothing is learned, it is a throttle like others.
func (x *exchange) tooManyJobs(code string) bool {
	return x.account.Adaptive && x.starts() && slices.Contains(x.jobs().TooMany, code)
}

// jobBegun counts the job that an accepted start has begun, and ends the start's turn; "": its answer names none.
func (x *exchange) jobBegun(id string) {
	if id != "" {
		x.account.Permits.Started(id)
	}
	if x.begun != nil {
		x.begun.turn.Done(pace.Accepted)
		x.begun = nil
	}
}

// CircuitOf tells the queues of an account how its breaker stands.
func CircuitOf(breakers *breaker.Group, holdOpen bool) pace.Circuit {
	own := breakers.For("")
	return func() (pace.CircuitState, time.Duration) {
		wait, open := own.Held()
		switch {
		case !open:
			return pace.Closed, 0
		case holdOpen:
			return pace.Holding, wait
		}
		return pace.Passing, 0
	}
}

// JobsRun is how long an account's job is taken to be running when nobody hears of its end.
func JobsRun(kind *provider.Provider) time.Duration {
	if kind.Jobs == nil {
		return 0
	}
	return kind.Jobs.Runs
}
