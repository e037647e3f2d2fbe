package demo

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/sim"
)

// books is a ledger that comes out: textract read one page after a throttle and refused the damaged one, mistral read one and lost one to
// the outage.
func books() *ledger {
	return &ledger{
		documents: []Document{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "bad", Corrupt: true}},
		results: []result{
			{document: Document{Name: "a"}, account: textract, requests: 1, attempts: 2, outcome: "success", own: true},
			{document: Document{Name: "bad"}, account: textract, requests: 1, attempts: 1, outcome: "permanent", letter: "L1"},
			{document: Document{Name: "b"}, account: mistral, requests: 1, attempts: 1, outcome: "success", own: true},
			{document: Document{Name: "c"}, account: mistral, requests: 1, attempts: 3, outcome: "circuit_open", letter: "L2"},
		},
		letters: []dlq.Letter{
			{Envelope: &dlq.Envelope{
				ID: "L1", DocumentID: "bad", Provider: textract, Outcome: "permanent", ErrorClass: "permanent", Occurrences: 1, Attempts: make([]dlq.Attempt, 1),
			}},
			{Envelope: &dlq.Envelope{
				ID: "L2", DocumentID: "c", Provider: mistral, Outcome: "circuit_open", ErrorClass: "transient", Occurrences: 1, Attempts: make([]dlq.Attempt, 3),
			}},
		},
		simulated: map[string]sim.Stats{
			textract: {Counts: sim.Counts{Requests: 3, Accepted: 1, Rejected: 1, Throttled: 1, Pages: 1}},
			azure:    {},
			mistral:  {Counts: sim.Counts{Requests: 4, Accepted: 1, Failed: 3, Pages: 1}},
		},
	}
}

const told = `
ocrproxy_requests_total{provider="textract",outcome="success"} 1
ocrproxy_requests_total{provider="textract",outcome="permanent"} 1
ocrproxy_requests_total{provider="mistral",outcome="success"} 1
ocrproxy_requests_total{provider="mistral",outcome="circuit_open"} 1
ocrproxy_attempts_total{provider="textract",class="success"} 1
ocrproxy_attempts_total{provider="textract",class="throttle"} 1
ocrproxy_attempts_total{provider="textract",class="permanent"} 1
ocrproxy_attempts_total{provider="mistral",class="success"} 1
ocrproxy_attempts_total{provider="mistral",class="transient"} 3
ocrproxy_throttles_total{provider="textract"} 1
ocrproxy_retry_outcomes_total{provider="textract",outcome="succeeded"} 1
ocrproxy_dead_letters_written_total{provider="textract",outcome="permanent",class="permanent"} 1
ocrproxy_dead_letters_written_total{provider="mistral",outcome="circuit_open",class="transient"} 1
ocrproxy_breaker_transitions_total{provider="mistral",from="closed",to="open"} 1
ocrproxy_breaker_transitions_total{provider="mistral",from="half_open",to="closed"} 1
ocrproxy_in_flight{provider="mistral"} 0
`

func parse(t *testing.T, text string) scrape {
	t.Helper()
	var typed strings.Builder
	seen := map[string]bool{}
	for line := range strings.Lines(strings.TrimPrefix(text, "\n")) {
		if name, _, _ := strings.Cut(line, "{"); !seen[name] {
			seen[name] = true
			typed.WriteString("# TYPE " + name + " counter\n")
		}
		typed.WriteString(line)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(typed.String()))
	require.NoError(t, err)
	return families
}

func TestLedgerThatComesOut(t *testing.T) {
	l := books()
	l.metrics = parse(t, told)
	require.Empty(t, l.audit())

	var out bytes.Buffer
	require.NoError(t, l.report(&out))
	require.Regexp(t, `documents +2 +0 +2 +4\n`, out.String())
	require.Regexp(t, `attempts at the provider +3 +0 +4 +7\n`, out.String())
	require.Regexp(t, `circuit_open \(class transient\) +0 +0 +1 +1\n`, out.String())
}

// TestREADMEShowsTheLinesOfTheReport compares the names of the lines; the numbers are those of one run.
func TestREADMEShowsTheLinesOfTheReport(t *testing.T) {
	l := books()
	l.metrics = parse(t, told)
	l.letters = nil
	for _, k := range []letterKind{{"circuit_open", "transient"}, {"exhausted", "transient"}, {"permanent", "permanent"}} {
		l.letters = append(l.letters, dlq.Letter{Envelope: &dlq.Envelope{Outcome: k.outcome, ErrorClass: k.class}})
	}
	var out strings.Builder
	require.NoError(t, l.report(&out))
	heading, _, _ := strings.Cut(out.String(), "\n")

	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(readme), heading+"\n")
	require.True(t, found, "README.md has lost the demo's table: %s", heading)
	table, _, _ = strings.Cut(table, "\n\n")
	require.Equal(t, names(out.String()), names(heading+"\n"+table+"\n"), "README.md is out of date: run the demo and paste its table")
}

// names are the first columns of a report.
func names(report string) (all []string) {
	for line := range strings.Lines(report) {
		all = append(all, strings.TrimRight(line[:min(len(line), 36)], " \n"))
	}
	return all
}

func TestLedgerNamesTheSumThatIsOff(t *testing.T) {
	stats := func(account string, change func(*sim.Stats)) func(*ledger) {
		return func(l *ledger) {
			s := l.simulated[account]
			change(&s)
			l.simulated[account] = s
		}
	}
	for name, c := range map[string]struct {
		change   func(*ledger)
		from, to string // in the metrics
		problem  string
	}{
		"a document that never came back":   {change: func(l *ledger) { l.results = l.results[1:] }, problem: "a: came back 0 times"},
		"a document that came back twice":   {change: func(l *ledger) { l.results = append(l.results, l.results[0]) }, problem: "a: came back 2 times"},
		"an answer about something else":    {change: func(l *ledger) { l.results[0].own = false }, problem: "a: outcome"},
		"an answer and a letter":            {change: func(l *ledger) { l.results[0].letter = "L2" }, problem: "a: outcome"},
		"neither answer nor letter":         {change: func(l *ledger) { l.results[3].letter = "" }, problem: "c: outcome"},
		"a worker's call that failed":       {change: func(l *ledger) { l.results[2].err = errors.New("reset") }, problem: "b: the worker's call"},
		"a letter that is missing":          {change: func(l *ledger) { l.letters = l.letters[:1] }, problem: "L2: a worker was told"},
		"a letter that nobody was told of":  {change: func(l *ledger) { l.results[3].letter = "L9" }, problem: "dead letter L2"},
		"a letter about another document":   {change: func(l *ledger) { l.letters[1].DocumentID = "b" }, problem: "dead letter L2"},
		"a letter raised":                   {change: func(l *ledger) { l.letters[1].Occurrences = 2 }, problem: "occurrences 2"},
		"a letter of another class":         {change: func(l *ledger) { l.letters[1].ErrorClass = "throttle" }, problem: "(circuit_open, throttle)"},
		"a letter that was not counted":     {from: `outcome="circuit_open",class="transient"} 1`, to: `outcome="circuit_open",class="transient"} 0`, problem: "in the folder 1"},
		"the damaged file without letter":   {change: func(l *ledger) { l.letters = l.letters[1:] }, problem: "the damaged file has no dead letter"},
		"the damaged file tried again":      {change: func(l *ledger) { l.letters[0].Attempts = make([]dlq.Attempt, 2) }, problem: "the damaged file: attempts 2"},
		"the damaged file of another kind":  {change: func(l *ledger) { l.letters[0].Outcome = "exhausted" }, problem: "the damaged file: outcome exhausted"},
		"a call that the proxy hid":         {change: stats(textract, func(s *sim.Stats) { s.Requests++ }), problem: "textract attempts: seen by the provider 4"},
		"a call that never arrived":         {change: stats(mistral, func(s *sim.Stats) { s.Requests-- }), problem: "mistral attempts: seen by the provider 3"},
		"a page paid for twice":             {change: stats(mistral, func(s *sim.Stats) { s.Pages++ }), problem: "mistral pages: charged by the provider 2"},
		"a throttle that was not seen":      {change: stats(textract, func(s *sim.Stats) { s.Throttled++ }), problem: "textract throttles"},
		"an attempt that was not told":      {change: func(l *ledger) { l.results[0].attempts-- }, problem: "textract attempts: told to the workers 2"},
		"a request that was not counted":    {from: `requests_total{provider="mistral",outcome="success"} 1`, to: `requests_total{provider="mistral",outcome="success"} 0`, problem: "mistral requests"},
		"a request that never ended":        {from: `in_flight{provider="mistral"} 0`, to: `in_flight{provider="mistral"} 1`, problem: "still in flight 1"},
		"a breaker that never opened":       {from: `from="closed",to="open"} 1`, to: `from="closed",to="open"} 0`, problem: "the breaker never opened"},
		"a breaker that stayed open":        {from: `from="half_open",to="closed"} 1`, to: `from="half_open",to="closed"} 0`, problem: "closed again 0"},
		"retries that were of no use":       {from: `outcome="succeeded"} 1`, to: `outcome="succeeded"} 0`, problem: "no retry succeeded"},
		"metrics of an account nobody used": {from: "\nocrproxy_in_flight", to: "\nocrproxy_attempts_total{provider=\"azure\",class=\"success\"} 1\nocrproxy_in_flight", problem: "azure attempts"},
	} {
		t.Run(name, func(t *testing.T) {
			l := books()
			l.simulated, l.letters = maps.Clone(l.simulated), slices.Clone(l.letters)
			text := told
			if c.from != "" {
				require.Contains(t, text, c.from)
				text = strings.Replace(text, c.from, c.to, 1)
			}
			l.metrics = parse(t, text)
			if c.change != nil {
				c.change(l)
			}
			require.Contains(t, strings.Join(l.audit(), "\n"), c.problem)
		})
	}
}
