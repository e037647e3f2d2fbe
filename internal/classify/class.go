// Package classify holds the vocabulary in which ocr-proxy thinks about one upstream attempt: the class of what happened, the table that
// says what follows from each class, and the pure functions that decide on a class. It performs no I/O and knows no provider by name.
package classify

import "fmt"

// Class says what one upstream attempt amounted to. Everything that happens next (retry, breaker, dead letter, metrics, the worker's
// answer) is a function of it. The zero value is Unknown, so that whatever nobody decided on fails closed.
type Class uint8

// The classes, as users see them in headers, metrics and dead letters.
const (
	Unknown   Class = iota // no rule names it: not retried unless the operator says so
	Success                // the provider did what it was asked to
	Throttle               // the account is calling too fast
	Transient              // the provider or the way to it faltered
	Permanent              // this document or request will never succeed
	Auth                   // the credentials were refused
	Quota                  // nothing left for hours or days: waiting in line is pointless
	Soft                   // a good answer that should be looked at by a person
)

// Health is what a class says about the provider as a whole: the circuit breaker's view.
type Health uint8

// The views of the breaker.
const (
	Neutral Health = iota // says nothing about the provider
	Healthy               // the provider answered as a well provider does
	Sick                  // the provider failed
)

// row is what follows from a class. This table is the only place where it is decided.
type row struct {
	name    string
	retry   bool
	health  Health
	failure string
}

func (c Class) row() row {
	switch c {
	case Success:
		return row{"success", false, Healthy, "success"}
	case Throttle:
		return row{"throttle", true, Neutral, "transient"}
	case Transient:
		return row{"transient", true, Sick, "transient"}
	case Permanent:
		return row{"permanent", false, Healthy, "fatal"}
	case Auth:
		return row{"auth", false, Neutral, "fatal"}
	case Quota:
		return row{"quota", false, Neutral, "fatal"}
	case Soft:
		return row{"soft", false, Healthy, "soft"}
	case Unknown:
	}
	return row{"unknown", false, Neutral, "fatal"}
}

// Classes lists every class, for metrics that are present from start-up and for tests that must not miss one.
func Classes() []Class {
	return []Class{Unknown, Success, Throttle, Transient, Permanent, Auth, Quota, Soft}
}

// String is the class as users see it, such as "throttle".
func (c Class) String() string { return c.row().name }

// Retryable reports whether another attempt may bring something else. Unknown is not: it has a limit of its own.
func (c Class) Retryable() bool { return c.row().retry }

// Good reports whether the provider did what it was asked to: its answer may still be one to look at.
func (c Class) Good() bool { return c == Success || c == Soft }

// Health is the breaker's view of the class.
func (c Class) Health() Health { return c.row().health }

// Failure is the failure class of a dead letter: "transient", "fatal" or "soft", and "success" for a success.
func (c Class) Failure() string { return c.row().failure }

// Parse finds the class with that name.
func Parse(name string) (Class, error) {
	for _, c := range Classes() {
		if c.String() == name {
			return c, nil
		}
	}
	return Unknown, fmt.Errorf("no class is called %q", name)
}

// String is the view as users see it: "success", "failure" or "neutral".
func (h Health) String() string {
	switch h {
	case Healthy:
		return "success"
	case Sick:
		return "failure"
	case Neutral:
	}
	return "neutral"
}
