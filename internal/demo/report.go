package demo

import (
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
)

// sheet writes lines and remembers the first error.
type sheet struct {
	w   io.Writer
	err error
}

func (s *sheet) line(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, format+"\n", args...)
	}
}

// row is a name and a number for each account and for all of them.
func (s *sheet) row(name string, value func(account string) string) {
	var b strings.Builder
	for _, account := range append(accounts(), "") {
		fmt.Fprintf(&b, "%10s", value(account))
	}
	s.line("  %-34s%s", name, b.String())
}

// report writes the closing table.
func (l *ledger) report(w io.Writer) error {
	s := &sheet{w: w}
	s.line("  %-34s%10s%10s%10s%10s", "", textract, azure, mistral, "all")
	number := func(count func(account string) int) func(string) string {
		return func(account string) string { return strconv.Itoa(count(account)) }
	}
	metric := func(name string, of labels) func(string) string {
		return number(func(account string) int { return l.metrics.sum(name, with(of, account)) })
	}
	s.row("documents", number(func(a string) int { return l.workers(a).documents }))
	s.row("  answered", number(func(a string) int { return l.workers(a).answered }))
	s.row("  dead letters", metric("dead_letters_written_total", nil))
	for _, k := range l.kinds() {
		s.row(fmt.Sprintf("    %s (class %s)", k.outcome, k.class), metric("dead_letters_written_total", labels{"outcome": k.outcome, "class": k.class}))
	}
	s.row("requests (azure polls its results)", metric("requests_total", nil))
	s.row("attempts at the provider", metric("attempts_total", nil))
	s.row("  retries", number(func(a string) int { return int(l.metrics.observed("request_retries", with(nil, a))) }))
	s.row("  throttled", metric("throttles_total", nil))
	s.row("requests saved by a retry", metric("retry_outcomes_total", labels{"outcome": "succeeded"}))
	waits := func(source string) func(string) string {
		return func(account string) string {
			by := with(labels{"source": source}, account)
			return fmt.Sprintf("%d: %.1fs", l.metrics.sum("retry_delay_seconds", by), l.metrics.observed("retry_delay_seconds", by))
		}
	}
	s.row("waits (number: time in all)", waits(""))
	s.row("  own backoff", waits("backoff"))
	s.row("  the provider's hint", waits("hint"))
	s.row("  held for a throttle or outage", waits("gate"))
	s.row("  their turn in the queue", waits("queue"))
	s.row("breaker opened", metric("breaker_transitions_total", labels{"from": "closed", "to": "open"}))
	s.row("  probes failed / succeeded", func(a string) string {
		failed := l.metrics.sum("breaker_transitions_total", with(labels{"from": "half_open", "to": "open"}, a))
		succeeded := l.metrics.sum("breaker_transitions_total", with(labels{"from": "half_open", "to": "closed"}, a))
		return fmt.Sprintf("%d / %d", failed, succeeded)
	})
	s.row("  requests turned away", metric("breaker_rejected_total", nil))
	s.row("pages charged", number(func(account string) int {
		pages := 0
		for name, stats := range l.simulated {
			if account == "" || account == name {
				pages += stats.Pages
			}
		}
		return pages
	}))
	return s.err
}

// with adds the account to the conditions; "" is all accounts.
func with(l labels, account string) labels {
	all := labels{"provider": account}
	maps.Copy(all, l)
	return all
}

type letterKind struct{ outcome, class string }

// kinds are the kinds of dead letters that were written, in the order in which they first were.
func (l *ledger) kinds() []letterKind {
	var kinds []letterKind
	seen := map[letterKind]bool{}
	for _, letter := range l.letters {
		k := letterKind{letter.Outcome, letter.ErrorClass}
		if !seen[k] {
			seen[k] = true
			kinds = append(kinds, k)
		}
	}
	return kinds
}
