package classify

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Row is one line of a decision table. Its zero fields match anything. Providers' tables and the rules that an operator writes into the
// configuration are made of the same rows.
type Row struct {
	Status    int    // exact HTTP status; 0: any
	Code      string // one of the codes that the answer carries, compared exactly; "": any
	Text      string // a part of the message, in lower case; "": any
	Operation string // the operation's name, or its beginning when it ends in '*'; "": any
	Class     Class
}

// Table is an ordered list of rows: the first that matches decides.
type Table []Row

func (r Row) matches(a Attempt, f Fault) bool {
	return (r.Status == 0 || r.Status == a.Status) &&
		(r.Code == "" || slices.Contains(f.Codes, r.Code)) &&
		(r.Text == "" || strings.Contains(strings.ToLower(f.Message), r.Text)) &&
		(r.Operation == "" || r.Operation == a.Operation || matchesPrefix(r.Operation, a.Operation))
}

func matchesPrefix(pattern, name string) bool {
	prefix, ok := strings.CutSuffix(pattern, "*")
	return ok && strings.HasPrefix(name, prefix)
}

// String names the row's conditions for people.
func (r Row) String() string {
	var parts []string
	if r.Status != 0 {
		parts = append(parts, fmt.Sprintf("status %d", r.Status))
	}
	if r.Code != "" {
		parts = append(parts, "code "+r.Code)
	}
	if r.Text != "" {
		parts = append(parts, fmt.Sprintf("message containing %q", r.Text))
	}
	if r.Operation != "" {
		parts = append(parts, "operation "+r.Operation)
	}
	if len(parts) == 0 {
		return "any answer"
	}
	return strings.Join(parts, ", ")
}

// farAway is the wait from which on a throttle is a quota that has run out: nobody queues for a day.
const farAway = 24 * time.Hour

// Decide classifies one attempt: the operator's rules first, then the provider's table, then what HTTP itself says. It is pure.
func Decide(a Attempt, f Fault, rules, table Table) Verdict {
	if !a.Answered() {
		return transport(a.Err)
	}
	v := decide(a, f, rules, table)
	v.Code, v.Message, v.Wait = f.Code(), f.Message, f.Wait
	if v.Class == Throttle && f.Wait >= farAway {
		v.Class, v.Reason = Quota, v.Reason+"; asks to wait "+f.Wait.Round(time.Second).String()
	}
	if v.Class == Success {
		v.Wait = 0 // a Retry-After on a success is the worker's polling interval, not ours
	}
	return v
}

func decide(a Attempt, f Fault, rules, table Table) Verdict {
	good := a.Status < 400 && a.Status != 0
	for _, r := range rules {
		if r.matches(a, f) {
			return Verdict{Class: r.Class, Reason: "configured rule: " + r.String()}
		}
	}
	if good && f.Job {
		return Verdict{Class: Permanent, Reason: "a finished job that failed"}
	}
	if !good || len(f.Codes) > 0 {
		for _, r := range table {
			if r.matches(a, f) {
				return Verdict{Class: r.Class, Reason: "provider's table: " + r.String()}
			}
		}
	}
	if good && len(f.Codes) > 0 {
		return Verdict{Class: Permanent, Reason: fmt.Sprintf("an error inside a %d", a.Status)}
	}
	return Verdict{Class: byStatus(a.Status), Reason: fmt.Sprintf("HTTP status %d", a.Status)}
}
