package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// evidence is all that is known when everything has ended: what the workers were told, what the provider did, what lies in the store.
type evidence struct {
	entries  map[string]entry
	record   record
	letters  map[string]letter // By id.
	fulls    []window          // When there was no room for letters.
	restarts []window          // When the proxy ended and started.
	hangUps  int               // Workers that hung up on a call and made it once more.
}

// letter is a dead letter as it was found on disk, read without the program's own code.
type letter struct {
	document  string   // Its document_id.
	state     string   // The folder it lies in.
	sum       [32]byte // Of its payload, as found.
	payload   error    // Why the payload is not what the letter says.
	aboutPoll bool     // It is about asking for a job's result, which can be asked for again.
	aboutJob  bool     // It is about a job that failed, not about its start.
	result    string   // What a replay brought back; empty: none did.
	byReplay  bool     // A replay has resolved it.
}

// tally is the ledger's sum.
type tally struct {
	documents int
	answered  int
	lettered  int
	replayed  int // Of the letters, those that a replay has resolved.
	refused   int
	unkept    int // Failed while the disk was full.

	billed      int // Readings by the provider.
	lostAnswers int // Of these, those whose answer did not arrive.
	repaid      int // Readings beyond a document's first, after a lost answer.
	acrossEnd   int // Readings beyond the first of documents that were under way when the proxy was restarted.
	hungUp      int // Readings beyond the first of documents on which their worker hung up, after an answer that arrived.
	renewed     int // Jobs that the replay of a failed job's letter started anew.
	strict      int // Documents under "ambiguous: never".
	starts      int // Job starts under a token that the provider took.

	lost       []string
	duplicated []string
	wrong      []string
}

func (t tally) clean() bool { return len(t.lost)+len(t.duplicated)+len(t.wrong) == 0 }

// The proxy keeps an answer for a worker that hangs up on it, unless it was already on its way to that worker: then the next call is a new one. That
// is a matter of milliseconds, and may happen to one in so many.
const (
	hangUpShare = 20
	fewHangUps  = 5
)

// settle holds everything against everything: each document must have been told of once, truly, and paid for once.
func (e evidence) settle() tally {
	var t tally
	byRequest, aboutDocument := map[string][]string{}, map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(e.letters)) {
		l := e.letters[id]
		byRequest[l.document] = append(byRequest[l.document], id)
		if !l.aboutPoll {
			aboutDocument[l.document]++
		}
	}
	requests := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(e.entries)) {
		d := e.entries[name]
		t.documents++
		e.told(&t, name, d, byRequest[d.request])
		e.paid(&t, name, d)
		if ids := byRequest[d.request]; aboutDocument[d.request] > 1 && !requests[d.request] {
			t.duplicated = append(t.duplicated, fmt.Sprintf("%s has %d letters: %v", d.request, len(ids), ids))
		}
		requests[d.request] = true
	}
	for _, id := range slices.Sorted(maps.Keys(e.letters)) {
		if l := e.letters[id]; !requests[l.document] {
			t.wrong = append(t.wrong, fmt.Sprintf("letter %s is about %q, which nobody sent", id, l.document))
		}
	}
	if most := max(fewHangUps, e.hangUps/hangUpShare); t.hungUp > most {
		t.duplicated = append(t.duplicated, fmt.Sprintf("%d readings were repeated for workers that hung up %d times, and at most %d may be", t.hungUp, e.hangUps, most))
	}
	for _, name := range slices.Sorted(maps.Keys(e.record.works)) {
		if _, ok := e.entries[name]; !ok {
			t.wrong = append(t.wrong, "the provider read "+name+", which nobody sent")
		}
	}
	return t
}

// told looks whether what the worker was told is so.
func (e evidence) told(t *tally, name string, d entry, letters []string) {
	lose := func(why string, args ...any) {
		t.lost = append(t.lost, name+" ("+d.account+"): "+fmt.Sprintf(why, args...))
	}
	switch d.fate {
	case answered:
		t.answered++
		if len(e.record.works[name]) == 0 {
			t.wrong = append(t.wrong, name+" was answered, and the provider never read it")
		}
		for _, id := range letters {
			if e.letters[id].state == "open" {
				t.duplicated = append(t.duplicated, fmt.Sprintf("%s was answered, and the letter %s is open about it", name, id))
			}
		}
	case lettered:
		l, ok := e.letters[d.letter]
		whole := ok && l.payload == nil && l.sum == d.body
		if d.job && ok && !whole && l.document == d.request && touched(d, e.fulls) {
			t.unkept++ // An accepted start that found no room is answered all the same, and a letter about its job does not have the document.
			return
		}
		t.lettered++
		switch {
		case !ok:
			lose("its letter %s is not there", d.letter)
		case l.document != d.request:
			lose("its letter %s is about %q", d.letter, l.document)
		case l.payload != nil:
			lose("the payload of its letter %s: %v", d.letter, l.payload)
		case l.sum != d.body:
			lose("the payload of its letter %s is not what was sent", d.letter)
		case l.state != "open" && l.state != "resolved":
			lose("its letter %s lies in %s", d.letter, l.state)
		}
		if ok && l.byReplay {
			t.replayed++
			if !d.job && !strings.Contains(l.result, name) { // The start of a job brings its id, and its text later.
				lose("the result of the replay of its letter %s is not its text", d.letter)
			}
		}
	case refused:
		t.refused++
		if d.sends == 1 && len(e.record.works[name]) > 0 {
			t.wrong = append(t.wrong, name+" was refused, and the provider read it")
		}
	case unkept:
		t.unkept++
		if !touched(d, e.fulls) {
			lose("it failed without a letter while there was room for one")
		}
	case untold:
		lose("its worker was told nothing")
	}
}

// paid looks whether the provider read the document once, or again only for a reason that the documentation names.
func (e evidence) paid(t *tally, name string, d entry) {
	works, whole := e.record.works[name], 0
	for _, w := range works {
		if w.answered {
			whole++
		}
	}
	t.billed += len(works)
	t.lostAnswers += len(works) - whole
	extra := max(0, len(works)-1)
	l, has := e.letters[d.letter]
	restarted := touched(d, e.restarts)
	twice := func(why string) {
		t.duplicated = append(t.duplicated, fmt.Sprintf("%s was read %d times, %d of them answered: %s", d.called(name), len(works), whole, why))
	}
	if d.account == "strict" {
		t.strict++
	}
	switch {
	case extra == 0:
	case has && l.aboutJob && l.byReplay && whole <= 2:
		t.renewed += extra
	case restarted:
		t.acrossEnd += extra
	case whole > 1 && d.sends > 1:
		t.hungUp += whole - 1
		t.repaid += len(works) - whole
	case whole > 1:
		twice("again after an answer that arrived")
	case d.sends == 1 && (d.account == "strict" || d.account == "azure"):
		twice("nothing may be repeated here, not even after a lost answer")
	default:
		t.repaid += extra
	}
	e.started(t, name, has && l.aboutJob && l.byReplay)
}

// started looks at a document's job starts: all under one token, and of each process of the provider, which remembers tokens only for its own
// life, at most one job.
func (e evidence) started(t *tally, name string, renewed bool) {
	tokens, jobs := map[string]bool{}, map[[2]string]map[string]bool{}
	for _, s := range e.record.starts[name] {
		tokens[s.token] = true
		if s.job == "" {
			continue
		}
		t.starts++
		at := [2]string{s.token, s.run}
		if jobs[at] == nil {
			jobs[at] = map[string]bool{}
		}
		jobs[at][s.job] = true
	}
	most := 1
	if renewed {
		most = 2
	}
	if len(tokens) > most || tokens[""] {
		t.duplicated = append(t.duplicated, fmt.Sprintf("%s: its job was started under %d tokens", name, len(tokens)))
	}
	for _, ids := range jobs {
		if len(ids) > 1 {
			t.duplicated = append(t.duplicated, fmt.Sprintf("%s: %d jobs were started under one token", name, len(ids)))
		}
	}
}
