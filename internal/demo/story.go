package demo

import (
	"context"
	"net/http"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/sim"
)

const (
	calmTime     = 2500 * time.Millisecond
	outageTime   = 5 * time.Second
	recoveryTime = 2500 * time.Millisecond
	throttleRate = 3 // calls per second
	throttleHint = 1 // seconds
)

// story is the batch and what happens to the providers meanwhile. Each part ends when its documents are back, however long the machine
// takes, so that the parts never run into each other.
type story struct {
	plan       plan
	crew       *crew
	simulators *simulators
	say        func(format string, args ...any)
	pace       float64
}

func (s *story) tell(ctx context.Context) error {
	if err := s.calm(ctx); err != nil {
		return err
	}
	if err := s.throttle(ctx); err != nil {
		return err
	}
	if err := s.outage(ctx); err != nil {
		return err
	}
	return s.recovery(ctx)
}

func (s *story) calm(ctx context.Context) error {
	s.say("all three providers are well, but azure answers its first two calls with 503")
	err := s.simulators.set(azure, func(f *sim.Faults) {
		// A 503 says that nothing was done, so that even a job start may be tried again.
		f.Script = []sim.Step{{Status: http.StatusServiceUnavailable}, {Status: http.StatusServiceUnavailable}}
	})
	if err != nil {
		return err
	}
	return s.crew.process(ctx, s.plan.calm, paced(calmTime, s.pace))
}

func (s *story) throttle(ctx context.Context) error {
	s.say("%s starts to throttle: %d calls/s, come back in %d s", textract, throttleRate, throttleHint)
	err := s.simulators.set(textract, func(f *sim.Faults) { f.Throttle, f.Burst, f.RetryAfter = throttleRate, 1, throttleHint })
	if err != nil {
		return err
	}
	if err := s.crew.process(ctx, s.plan.throttle, 0); err != nil {
		return err
	}
	s.say("%s stops throttling", textract)
	return s.simulators.set(textract, func(*sim.Faults) {})
}

func (s *story) outage(ctx context.Context) error {
	s.say("%s goes down: every call is answered 503", mistral)
	if err := s.simulators.set(mistral, func(f *sim.Faults) { f.Down = true }); err != nil {
		return err
	}
	if err := s.crew.process(ctx, s.plan.outage, paced(outageTime, s.pace)); err != nil {
		return err
	}
	// The last probe's failure should be told before its end.
	if err := pause(ctx, 2*watchEvery); err != nil {
		return err
	}
	s.say("%s is up again; the next document after the breaker's pause is its probe", mistral)
	return s.simulators.set(mistral, func(*sim.Faults) {})
}

// recovery sends one document ahead: while it probes the circuit, others for the same account would be turned away.
func (s *story) recovery(ctx context.Context) error {
	// The circuit opened for the last time before the outage ended, so the pause is over by then.
	if err := pause(ctx, paced(resetTimeout, s.pace)); err != nil {
		return err
	}
	if err := s.crew.process(ctx, []errand{s.plan.probe}, 0); err != nil {
		return err
	}
	return s.crew.process(ctx, s.plan.recovery, paced(recoveryTime, s.pace))
}
