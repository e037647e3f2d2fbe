package webhook

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
)

const (
	// An event is given up after so many attempts, about an hour of them, or at that age, whichever comes first. Each gets one attempt at least.
	maxAttempts = 20
	maxAge      = 72 * time.Hour

	baseDelay = time.Second
	capDelay  = 10 * time.Minute

	// diskDelay is how long the sender waits when the disk does not let it read.
	diskDelay = 5 * time.Second
)

// sender delivers the events of one queue, one at a time and in order.
type sender struct {
	outbox *Outbox
	queue  *queue
	log    *zap.Logger

	// failures counts the failed attempts since the last one that got an answer for good. The wait belongs to the receiver, not to the event:
	// giving up on one does not make a dead receiver well.
	failures int
	unsaved  bool // It was said that progress cannot be saved.
}

// run sends until the outbox stops. What can be sent at once is sent even then, as long as ctx lasts.
func (s *sender) run(ctx context.Context) {
	for {
		l, lost, ok, err := s.queue.next()
		if lost > 0 {
			s.outbox.drop(lost, errors.New("the outbox is damaged"))
		}
		switch {
		case err != nil:
			s.log.Error("the outbox cannot be read", zap.Error(err))
			if !s.sleep(diskDelay) {
				return
			}
		case ok:
			if !s.deliver(ctx, l) {
				return
			}
		default:
			select {
			case <-s.queue.arrived:
			case <-s.outbox.stopped:
				if s.queue.backlog() == 0 {
					return
				}
			}
		}
	}
}

// deliver sends one event until it is done with. It reports false when the sender must end; the event then stays.
func (s *sender) deliver(ctx context.Context, l line) bool {
	log := s.log.With(zap.String("event", l.id))
	for attempt := 1; ; attempt++ {
		receiver := s.outbox.receiver.Load()
		if ctx.Err() != nil || receiver.gone.Load() {
			return false
		}
		a := receiver.post(ctx, l)
		log := log.With(zap.String("webhook", receiver.shown()), zap.Int("attempt", attempt), zap.String("reason", a.reason))
		switch a.verdict {
		case accepted:
			if s.failures > 0 {
				s.log.Info("the webhook's receiver takes events again")
			}
			s.failures = 0
			s.finish(l, Delivered)
			return true
		case refused:
			s.failures = 0
			log.Error("webhook event refused by its receiver; it is not sent again")
			s.finish(l, Failed)
			return true
		case gone:
			ended, first := s.outbox.end(receiver)
			if !ended {
				continue
			}
			if first {
				log.Error("the webhook's receiver says that it is gone; nothing is sent until another is configured or the proxy starts anew, and events are kept for it")
			}
			return false
		case failed:
		}
		if ctx.Err() != nil {
			return false
		}
		s.failures++
		wait, _ := s.outbox.policy.Next(s.failures, 0, min(a.hint, maxAge))
		over := attempt >= maxAttempts || time.Since(l.at)+wait >= maxAge
		if over {
			log.Error("webhook event given up", zap.Duration("pause", wait))
			s.finish(l, Failed)
		} else {
			log.Warn("webhook delivery failed; it is tried again", zap.Duration("wait", wait))
		}
		if !s.sleep(wait) {
			return false
		}
		if over {
			return true
		}
	}
}

// finish takes an event out of the queue.
func (s *sender) finish(l line, result string) {
	s.outbox.metrics.deliveries.WithLabelValues(result).Inc()
	if err := s.queue.finish(l.number); err != nil && !s.unsaved {
		s.unsaved = true
		s.log.Error("it cannot be noted which webhook events were delivered; after a restart they are sent again", zap.Error(err))
	}
}

// sleep reports false when the outbox stops first.
func (s *sender) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.outbox.stopped:
		return false
	}
}
