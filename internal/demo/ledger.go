package demo

import (
	"fmt"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/sim"
)

// ledger holds the same story as four parties tell it, none of whom has asked another.
type ledger struct {
	documents []Document
	results   []result             // the workers
	metrics   scrape               // the proxy
	letters   []dlq.Letter         // the dead-letter folder
	simulated map[string]sim.Stats // the providers
}

// audit names every sum that does not come out.
func (l *ledger) audit() []string {
	a := &audit{}
	l.auditDocuments(a)
	l.auditLetters(a)
	l.auditDamaged(a)
	for _, account := range accounts() {
		l.auditAccount(a, account)
	}
	l.auditBreaker(a)
	a.need(l.metrics.sum("retry_outcomes_total", labels{"outcome": "succeeded"}) > 0, "no retry succeeded")
	return a.problems
}

type audit struct{ problems []string }

func (a *audit) need(ok bool, format string, args ...any) {
	if !ok {
		a.problems = append(a.problems, fmt.Sprintf(format, args...))
	}
}

func (a *audit) equal(where, one string, n int, other string, m int) {
	a.need(n == m, "%s: %s %d, but %s %d", where, one, n, other, m)
}

// auditDocuments: every document came back once, answered or dead-lettered.
func (l *ledger) auditDocuments(a *audit) {
	back := map[string]int{}
	for _, r := range l.results {
		back[r.document.Name]++
		a.need(r.err == nil, "%s: the worker's call to the proxy failed: %v", r.document.Name, r.err)
		a.need(r.answered() != (r.letter != ""), "%s: outcome %q and dead letter %q; want an answer about it or a letter, and not both",
			r.document.Name, r.outcome, r.letter)
	}
	for _, d := range l.documents {
		a.need(back[d.Name] == 1, "%s: came back %d times", d.Name, back[d.Name])
	}
	a.equal("documents", "in the batch", len(l.documents), "back", len(l.results))
}

// auditLetters: the folder holds what the workers were told of and what the proxy counted, each failure once.
func (l *ledger) auditLetters(a *audit) {
	told := map[string]string{}
	for _, r := range l.results {
		if r.letter != "" {
			told[r.letter] = r.document.Name
		}
	}
	type kind struct{ provider, outcome, class string }
	kinds := map[kind]int{}
	for _, letter := range l.letters {
		kinds[kind{letter.Provider, letter.Outcome, letter.ErrorClass}]++
		a.need(told[letter.ID] == letter.DocumentID, "dead letter %s: is about %q, but the worker was told of it for %q", letter.ID, letter.DocumentID, told[letter.ID])
		a.equal("dead letter "+letter.ID, "occurrences", letter.Occurrences, "documents", 1)
		delete(told, letter.ID)
	}
	for id, name := range told {
		a.need(false, "dead letter %s: a worker was told of it for %s, but it is not in the folder", id, name)
	}
	for k, n := range kinds {
		counted := l.metrics.sum("dead_letters_written_total", labels{"provider": k.provider, "outcome": k.outcome, "class": k.class})
		a.equal(fmt.Sprintf("dead letters of %s (%s, %s)", k.provider, k.outcome, k.class), "in the folder", n, "dead_letters_written_total", counted)
	}
	a.equal("dead letters", "in the folder", len(l.letters), "dead_letters_written_total", l.metrics.sum("dead_letters_written_total", nil))
}

// auditDamaged: the file that nobody can read was tried once and has its letter.
func (l *ledger) auditDamaged(a *audit) {
	letter, ok := l.damaged()
	if !ok {
		a.need(false, "the damaged file has no dead letter")
		return
	}
	a.need(letter.Outcome == "permanent" && letter.ErrorClass == "permanent", "the damaged file: outcome %s and class %s, want permanent", letter.Outcome, letter.ErrorClass)
	a.equal("the damaged file", "attempts", len(letter.Attempts), "wanted", 1)
}

func (l *ledger) damaged() (dlq.Letter, bool) {
	names := map[string]bool{}
	for _, d := range l.documents {
		names[d.Name] = d.Corrupt
	}
	for _, letter := range l.letters {
		if names[letter.DocumentID] {
			return letter, true
		}
	}
	return dlq.Letter{}, false
}

// auditAccount compares workers, proxy and provider for one account.
func (l *ledger) auditAccount(a *audit, account string) {
	by := labels{"provider": account}
	w, provider := l.workers(account), l.simulated[account]
	attempts := l.metrics.sum("attempts_total", by)
	a.equal(account+" requests", "sent by the workers", w.requests, "requests_total", l.metrics.sum("requests_total", by))
	a.equal(account+" attempts", "told to the workers", w.attempts, "attempts_total", attempts)
	a.equal(account+" attempts", "seen by the provider", provider.Requests, "attempts_total", attempts)
	a.equal(account+" throttles", "by the provider", provider.Throttled, "throttles_total", l.metrics.sum("throttles_total", by))
	a.equal(account+" pages", "charged by the provider", provider.Pages, "answered", w.answered)
	a.equal(account+" requests", "still in flight", l.metrics.sum("in_flight", by), "wanted", 0)
}

// auditBreaker: the outage opened the circuit, and its end closed it again.
func (l *ledger) auditBreaker(a *audit) {
	opened := l.metrics.sum("breaker_transitions_total", labels{"from": "closed", "to": "open"})
	a.need(opened > 0, "the breaker never opened")
	a.equal("breaker", "opened", opened, "closed again", l.metrics.sum("breaker_transitions_total", labels{"from": "half_open", "to": "closed"}))
}

// tally is what the workers know of one account, or of all.
type tally struct{ documents, answered, letters, requests, attempts int }

// workers adds up for one account; "" is all of them.
func (l *ledger) workers(account string) (t tally) {
	for _, r := range l.results {
		if account != "" && r.account != account {
			continue
		}
		t.documents++
		t.requests += r.requests
		t.attempts += r.attempts
		if r.answered() {
			t.answered++
		}
		if r.letter != "" {
			t.letters++
		}
	}
	return t
}
