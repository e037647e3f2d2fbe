package config

import (
	"strings"
	"time"
)

// Retry says how often, how long and what is tried again.
type Retry struct {
	MaxAttempts         int                      `mapstructure:"max_attempts" doc:"Attempts in all, the first and throttled ones included. At least 1; 1: no retries."`
	TotalBudget         time.Duration            `mapstructure:"total_budget" doc:"Wall clock for the whole request from its first header byte: body, queue, waits and attempts. More than 0s."`
	BaseDelay           time.Duration            `mapstructure:"base_delay" doc:"Ceiling of the first wait, doubled per attempt; the wait is drawn evenly from 0 to the ceiling. More than 0s."`
	CapDelay            time.Duration            `mapstructure:"cap_delay" doc:"Highest ceiling of a computed wait. More than 0s."`
	AttemptTimeout      time.Duration            `mapstructure:"attempt_timeout" doc:"Time for one attempt. More than 0s."`
	AttemptTimeoutPerMB time.Duration            `mapstructure:"attempt_timeout_per_mb" doc:"Added to attempt_timeout for each MiB of the request body. 0s to 1h."`
	UnknownRetries      int                      `mapstructure:"unknown_retries" doc:"Retries of answers that no rule knows. 0: none."`
	Ambiguous           string                   `mapstructure:"ambiguous" doc:"Repeat an attempt that may have been done already: safe (synchronous analysis, and job starts only under a token), never or always."`
	Budget              RetryBudget              `mapstructure:"budget"`
	Operations          map[string]RetryOverride `mapstructure:"operations" doc:"Overrides of these keys, budget aside, by operation name. Names are compared without case."`
}

// RetryBudget keeps retries from becoming a storm: at one time at most max(floor, ratio * requests in progress) of an
// account's transient retries sleep or run.
type RetryBudget struct {
	Ratio float64 `mapstructure:"ratio" doc:"Share of the requests in progress that may be retrying, 0 to 1. 0: no shared budget."`
	Floor int     `mapstructure:"floor" doc:"Retries that are always allowed. 0 or more."`
}

// RetryOverride changes some keys of Retry for one operation. A nil field leaves the account's value.
type RetryOverride struct {
	MaxAttempts         *int           `mapstructure:"max_attempts"`
	TotalBudget         *time.Duration `mapstructure:"total_budget"`
	BaseDelay           *time.Duration `mapstructure:"base_delay"`
	CapDelay            *time.Duration `mapstructure:"cap_delay"`
	AttemptTimeout      *time.Duration `mapstructure:"attempt_timeout"`
	AttemptTimeoutPerMB *time.Duration `mapstructure:"attempt_timeout_per_mb"`
	UnknownRetries      *int           `mapstructure:"unknown_retries"`
	Ambiguous           *string        `mapstructure:"ambiguous"`
}

// For returns the settings for one operation: r with the operation's override applied. The result has no Operations
// left, so asking it again changes nothing. Names are compared without case because loading folds them to lower case.
func (r Retry) For(operation string) Retry {
	operations := r.Operations
	r.Operations = nil
	for name, o := range operations {
		if !strings.EqualFold(name, operation) {
			continue
		}
		override(&r.MaxAttempts, o.MaxAttempts)
		override(&r.TotalBudget, o.TotalBudget)
		override(&r.BaseDelay, o.BaseDelay)
		override(&r.CapDelay, o.CapDelay)
		override(&r.AttemptTimeout, o.AttemptTimeout)
		override(&r.AttemptTimeoutPerMB, o.AttemptTimeoutPerMB)
		override(&r.UnknownRetries, o.UnknownRetries)
		override(&r.Ambiguous, o.Ambiguous)
		break
	}
	return r
}

func override[T any](target, value *T) {
	if value != nil {
		*target = *value
	}
}

// Breaker says when an account is given a rest.
type Breaker struct {
	FailureThreshold int           `mapstructure:"failure_threshold" doc:"Consecutive failed attempts that open the circuit. At least 1; one request adds at most one less, 1 aside."`
	FailureRatio     float64       `mapstructure:"failure_ratio" doc:"Share of failed attempts in the window that opens it too, 0 to 1. 0: off."`
	MinRequests      int           `mapstructure:"min_requests" doc:"Attempts the window must hold before a ratio counts. At least 1."`
	Window           time.Duration `mapstructure:"window" doc:"Window of the ratios. More than 0s."`
	ResetTimeout     time.Duration `mapstructure:"reset_timeout" doc:"Time an open circuit waits before it lets a probe through. More than 0s."`
	HalfOpenProbes   int           `mapstructure:"half_open_probes" doc:"Probes at one time, all of which must succeed. At least 1."`
	OnOpen           string        `mapstructure:"on_open" doc:"reject dead-letters at once; wait holds the request in the queue while its budget allows."`
	OnThrottle       string        `mapstructure:"on_throttle" doc:"pause holds the account's operation and lets it go on at the pace of its queue; trip counts throttles as failures."`
	OnSustained      string        `mapstructure:"on_sustained" doc:"When open longer than two reset timeouts: alert tells people; review leaves the refused documents to them; fallback asks the accounts of fallback for an open circuit only from then on."`
	FatalRatio       float64       `mapstructure:"fatal_ratio" doc:"Share of permanent answers in the window that opens it too, 0 to 1. 0: off."`
	AuthThreshold    int           `mapstructure:"auth_threshold" doc:"Consecutive auth answers that hold the account instead of burying every document. 0: off."`
}
