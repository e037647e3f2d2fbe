package replay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/proxy"
)

// Auto says how an account's letters are replayed without anybody's asking.
type Auto struct {
	// Account is its name.
	Account string
	// MaxAge is how long ago a letter's first attempt may be.
	MaxAge time.Duration
	// Rate is in letters per second. More than 0.
	Rate float64
	// Recovered tells that the account's circuit has closed.
	Recovered <-chan struct{}
}

// autoUnderWay bounds the replays of one account at one time.
const autoUnderWay = 32

// Auto replays the letters of one account that say nothing against their documents (exhausted, circuit_open), at once and again each time that
// the circuit has closed, until the context ends. A round takes each letter once and stops when the circuit opens; letters that are not to be
// sent before a time of their own come when it has come. It returns when everything that it began is over.
func (r *Replayer) Auto(ctx context.Context, a Auto) {
	var early []earlyLetter
	for {
		early = r.round(ctx, a, r.recovered(a))
		for len(early) > 0 && r.until(ctx, a, early[0].at) {
			due := slices.IndexFunc(early, func(e earlyLetter) bool { return e.at.After(time.Now()) })
			if due < 0 {
				due = len(early)
			}
			ids := make([]string, 0, due)
			for _, e := range early[:due] {
				ids = append(ids, e.id)
			}
			early = append(early[due:], r.round(ctx, a, ids)...)
			slices.SortFunc(early, byTime)
		}
		if len(early) == 0 {
			select {
			case <-a.Recovered:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// earlyLetter is one that is not to be sent before its time.
type earlyLetter struct {
	id string
	at time.Time
}

func byTime(a, b earlyLetter) int { return a.at.Compare(b.at) }

// until waits; false: the circuit has closed, or the context has ended, before.
func (r *Replayer) until(ctx context.Context, a Auto, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.Recovered:
	case <-ctx.Done():
	}
	return false
}

// recovered lists the letters to replay, oldest first.
func (r *Replayer) recovered(a Auto) (ids []string) {
	oldest := time.Now().Add(-a.MaxAge)
	for letter, err := range r.letters.List(dlq.Filter{Provider: a.Account}) {
		if err != nil {
			r.log.Warn("a dead letter cannot be read for its replay", zap.Error(err))
			continue
		}
		transient := letter.Outcome == string(proxy.Exhausted) || letter.Outcome == string(proxy.CircuitOpen)
		if transient && letter.FirstAttemptAt.After(oldest) {
			ids = append(ids, letter.ID)
		}
	}
	slices.Reverse(ids)
	return ids
}

// round replays letters until each had its turn or the circuit is open, and gives those that were too early.
func (r *Replayer) round(ctx context.Context, a Auto, ids []string) (early []earlyLetter) {
	if len(ids) == 0 {
		return nil
	}
	var (
		mu       sync.Mutex // guards early and counts
		resolved int
		underWay sync.WaitGroup
	)
	open, stop := context.WithCancel(ctx)
	defer stop()
	places := make(chan struct{}, autoUnderWay)
	gap := time.NewTicker(max(1, time.Duration(float64(time.Second)/a.Rate)))
	defer gap.Stop()
	for _, id := range ids {
		select {
		case places <- struct{}{}:
		case <-open.Done():
		}
		if open.Err() != nil {
			break
		}
		underWay.Go(func() {
			defer func() { <-places }()
			result, err := r.Replay(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			later, tooEarly := errors.AsType[*LaterError](err)
			switch {
			case tooEarly && later.Own:
				early = append(early, earlyLetter{id, later.At})
			case tooEarly:
				stop()
			case err == nil && result.Status == dlq.StatusResolved:
				resolved++
			}
		})
		select {
		case <-gap.C:
		case <-open.Done():
		}
	}
	underWay.Wait()
	r.log.Info("dead letters replayed after their provider's recovery", zap.String("provider", a.Account), zap.Int("selected", len(ids)), zap.Int("resolved", resolved),
		zap.Bool("stopped", open.Err() != nil))
	slices.SortFunc(early, byTime)
	return early
}
