package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/admin/client"
	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
)

// replayRun has a list of letters replayed, each once. One goroutine decides; the others only ask and report.
type replayRun struct {
	client    *replayClient
	rate      float64
	parallel  int
	ambiguous bool
	show      replayDisplay

	queues   []*accountQueue
	early    []earlyLetter // not before their own time
	next     time.Time     // when the rate lets the next letter go
	underWay int
	broken   error // the proxy no longer answers
	tally    replayTally
}

// accountQueue are the letters of one account, which wait for one circuit.
type accountQueue struct {
	provider string
	letters  []selectedLetter
	held     time.Time
}

type earlyLetter struct {
	letter selectedLetter
	at     time.Time
}

// replayReport is what came of one request for a replay.
type replayReport struct {
	letter selectedLetter
	reply  replayReply
	err    error
}

// elsewhere is how long a letter waits that another has in hand.
const elsewhere = time.Second

// all replays the letters until each has had its turn, the context ends or the proxy is gone.
func (r *replayRun) all(ctx context.Context, letters []selectedLetter) {
	r.tally.Selected = len(letters)
	for _, l := range letters {
		r.queue(l.provider).letters = append(r.queue(l.provider).letters, l)
	}
	reports := make(chan replayReport)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil && r.broken == nil {
		letter, wait := r.pick(time.Now())
		if letter != nil {
			r.underWay++
			go func() {
				reply, err := r.client.replay(ctx, letter.id, r.ambiguous)
				reports <- replayReport{*letter, reply, err}
			}()
			continue
		}
		if r.underWay == 0 && wait < 0 {
			return // each had its turn
		}
		if wait < 0 {
			wait = time.Hour // for a report
		}
		timer.Reset(wait)
		select {
		case report := <-reports:
			r.take(report)
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	for ; r.underWay > 0; r.tally.UnderWay++ {
		report := <-reports
		if report.err == nil {
			r.take(report)
			r.tally.UnderWay--
		} else {
			r.underWay--
		}
	}
}

func (r *replayRun) queue(provider string) *accountQueue {
	i := slices.IndexFunc(r.queues, func(q *accountQueue) bool { return q.provider == provider })
	if i < 0 {
		i = len(r.queues)
		r.queues = append(r.queues, &accountQueue{provider: provider})
	}
	return r.queues[i]
}

// pick takes the next letter that may go, or says how long until one may; less than 0: none is waiting, or all places are taken.
func (r *replayRun) pick(now time.Time) (*selectedLetter, time.Duration) {
	r.early = slices.DeleteFunc(r.early, func(e earlyLetter) bool {
		due := !e.at.After(now)
		if due {
			q := r.queue(e.letter.provider)
			q.letters = append(q.letters, e.letter)
		}
		return due
	})
	if r.underWay >= r.parallel {
		return nil, -1
	}
	wait := time.Duration(-1)
	until := func(at time.Time) {
		if d := at.Sub(now); wait < 0 || d < wait {
			wait = d
		}
	}
	for _, e := range r.early {
		until(e.at)
	}
	for i, q := range r.queues {
		switch {
		case len(q.letters) == 0:
		case q.held.After(now):
			until(q.held)
		case r.next.After(now):
			until(r.next)
		default:
			letter := q.letters[0]
			q.letters = q.letters[1:]
			r.queues = append(slices.Delete(r.queues, i, i+1), q) // the accounts take turns
			if r.rate > 0 {
				r.next = now.Add(time.Duration(float64(time.Second) / r.rate))
			}
			return &letter, 0
		}
	}
	return nil, wait
}

// take notes what came of a letter. It is the only place that decides what that means.
func (r *replayRun) take(report replayReport) {
	r.underWay--
	reply, letter := report.reply, report.letter
	if report.err != nil {
		r.broken = report.err
		r.tally.UnderWay++
		return
	}
	switch reply.status {
	case http.StatusOK:
		if reply.result.Status == dlq.StatusResolved {
			r.tally.Resolved++
			break
		}
		r.tally.fail(letter.id, fmt.Sprintf("%s %s: %s", reply.result.Outcome, reply.result.ErrorClass, reply.result.Diagnostic))
	case http.StatusServiceUnavailable:
		q := r.queue(letter.provider)
		q.letters = append(q.letters, letter)
		q.held = time.Now().Add(max(reply.retryAfter, time.Second))
		r.show.waits(letter.provider, q.held, reply.sentence)
		return
	case http.StatusTooEarly:
		at := time.Now().Add(max(reply.retryAfter, time.Second))
		r.early = append(r.early, earlyLetter{letter, at})
		r.show.waits("letter "+letter.id, at, reply.sentence)
		return
	case http.StatusConflict:
		r.early = append(r.early, earlyLetter{letter, time.Now().Add(elsewhere)})
		return
	case http.StatusNotFound:
		r.tally.Elsewhere++
	case http.StatusUnprocessableEntity:
		r.tally.refuse(letter.id, reply.sentence)
	default:
		r.tally.fail(letter.id, fmt.Sprintf("the proxy answered with status %d: %s", reply.status, reply.sentence))
	}
	r.show.progress(r.tally)
}

func denied(err error) bool {
	_, ok := errors.AsType[*deniedError](err)
	return ok
}

// verdict is the error of the command: nil when all that was asked for is done.
func (r *replayRun) verdict(ctx context.Context) error {
	t := r.tally
	switch left := t.left(); {
	case ctx.Err() != nil && left > 0:
		return fmt.Errorf("stopped; %d of the letters are not known to be done: run the command again", left)
	case denied(r.broken):
		return r.broken
	case ctx.Err() == nil && r.broken != nil && left == t.Selected && errors.Is(r.broken, client.ErrUnreachable):
		return fmt.Errorf("no proxy answers at %s: start it first, it is the proxy that replays: %w", r.client.Base(), r.broken)
	case ctx.Err() == nil && r.broken != nil:
		return fmt.Errorf("the proxy at %s no longer answers; %d of the letters are not known to be done: run the command again when it is back: %w", r.client.Base(), left, r.broken)
	case t.Failed+t.Refused > 0:
		return fmt.Errorf("%d of %d failed again or were refused and are still open: see above", t.Failed+t.Refused, t.Selected)
	}
	return nil
}
