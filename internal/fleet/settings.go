package main

import (
	"fmt"
	"strings"
	"time"
)

// settings are those of a proxy that are not at their default, in the provider's time.
type settings struct {
	paced  bool          // adaptive pacing; else only the pauses that the provider asks for
	hold   bool          // breaker.on_open: wait
	budget time.Duration // 0: 90 s
	state  string        // state.url
}

// text writes the settings down, all times and rates scaled: the ones that are at their default as well, because the default is for a clock that
// runs like the provider's.
func (s settings) text(by scale) string {
	budget := s.budget
	if budget == 0 {
		budget = 90 * time.Second
	}
	var b strings.Builder
	fmt.Fprintf(&b, "retry: {total_budget: %s, base_delay: %s, cap_delay: %s, attempt_timeout: %s}\n",
		by.real(budget), by.real(time.Second), by.real(30*time.Second), by.real(60*time.Second))
	if s.hold {
		// While somebody waits it is probed every 2 s. That is a constant of the program, but no longer than the reset timeout, which so scales it.
		fmt.Fprintf(&b, "breaker: {on_open: wait, reset_timeout: %s, window: %s}\n", by.real(2*time.Second), by.real(60*time.Second))
	} else {
		fmt.Fprintf(&b, "breaker: {reset_timeout: %s, window: %s}\n", by.real(60*time.Second), by.real(60*time.Second))
	}
	if s.paced {
		fmt.Fprintf(&b, "pacing: {adaptive: true, start_rate: %g, recovery: %s}\n", 2*float64(by), by.real(10*time.Second))
	} else {
		b.WriteString("pacing: {adaptive: false}\n")
	}
	if s.state != "" {
		fmt.Fprintf(&b, "state: {url: %q}\n", s.state)
	}
	return b.String()
}
