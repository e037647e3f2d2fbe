package main

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const doc = "soak00000001"

// even is evidence that comes out even: one document of each fate, and one whose first answer was lost.
func even() evidence {
	at := time.Now()
	sum := sha256.Sum256([]byte("body"))
	e := evidence{
		entries: map[string]entry{}, letters: map[string]letter{},
		record: record{works: map[string][]work{}, starts: map[string][]start{}},
	}
	e.entries[doc] = entry{account: "mistral", request: doc, fate: answered, sends: 1, from: at, to: at}
	e.record.works[doc] = []work{{answered: true}}
	e.entries["soak00000002"] = entry{account: "mistral", request: "soak00000002", fate: lettered, letter: "L2", body: sum, sends: 1, from: at, to: at}
	e.letters["L2"] = letter{document: "soak00000002", state: "open", sum: sum}
	e.entries["soak00000003"] = entry{account: "mistral", request: "soak00000003", fate: refused, sends: 1, from: at, to: at}
	e.entries["soak00000004"] = entry{account: "mistral", request: "soak00000004", fate: answered, sends: 1, from: at, to: at}
	e.record.works["soak00000004"] = []work{{}, {answered: true}}
	e.entries["soak00000005"] = entry{account: "textract", request: "soak00000005", job: true, fate: answered, sends: 1, from: at, to: at}
	e.record.works["soak00000005"] = []work{{answered: true}}
	e.record.starts["soak00000005"] = []start{{"t", "", "1"}, {"t", "j", "1"}, {"t", "j2", "2"}}
	e.entries["soak00000006"] = entry{account: "mistral", request: "soak00000006", fate: lettered, letter: "L6", body: sum, sends: 1, from: at, to: at}
	e.letters["L6"] = letter{document: "soak00000006", state: "resolved", sum: sum, byReplay: true, result: "text of soak00000006"}
	e.record.works["soak00000006"] = []work{{answered: true}}
	return e
}

func TestAnEvenLedgerIsClean(t *testing.T) {
	got := even().settle()
	require.True(t, got.clean(), "%+v", got)
	require.Equal(t, 6, got.documents)
	require.Equal(t, 3, got.answered)
	require.Equal(t, 2, got.lettered)
	require.Equal(t, 1, got.replayed)
	require.Equal(t, 1, got.refused)
	require.Equal(t, 5, got.billed)
	require.Equal(t, 1, got.lostAnswers)
	require.Equal(t, 1, got.repaid)
	require.Equal(t, 2, got.starts)
}

// Each row breaks one promise; the ledger must say which.
func TestTheLedgerFindsWhatIsBroken(t *testing.T) {
	change := func(name string, f func(*entry)) func(*evidence) {
		return func(e *evidence) {
			d := e.entries[name]
			f(&d)
			e.entries[name] = d
		}
	}
	changeLetter := func(id string, f func(*letter)) func(*evidence) {
		return func(e *evidence) {
			l := e.letters[id]
			f(&l)
			e.letters[id] = l
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(*evidence)
		in    func(tally) []string
		says  string
	}{
		{"a worker is told nothing", change(doc, func(d *entry) { d.fate = untold }), lostOnes, "told nothing"},
		{"a worker drops a document from its ledger", func(e *evidence) { delete(e.entries, doc) }, wrongOnes, "nobody sent"},
		{"a letter is not there", func(e *evidence) { delete(e.letters, "L2") }, lostOnes, "is not there"},
		{"a letter is about another document", changeLetter("L2", func(l *letter) { l.document = doc }), lostOnes, "is about"},
		{"a letter is about nobody's document", changeLetter("L2", func(l *letter) { l.document = "x" }), wrongOnes, "nobody sent"},
		{"a payload is damaged", changeLetter("L2", func(l *letter) { l.payload = errors.New("short") }), lostOnes, "short"},
		{"a payload is another request's", changeLetter("L2", func(l *letter) { l.sum[0]++ }), lostOnes, "not what was sent"},
		{"a letter stays claimed", changeLetter("L2", func(l *letter) { l.state = "claimed" }), lostOnes, "claimed"},
		{"a replay brings another document", changeLetter("L6", func(l *letter) { l.result = "text of " + doc }), lostOnes, "not its text"},
		{"a failure without a letter while there is room", change("soak00000002", func(d *entry) { d.fate = unkept }), lostOnes, "there was room"},
		{"an answer from nowhere", func(e *evidence) { delete(e.record.works, doc) }, wrongOnes, "never read it"},
		{"refused and read", func(e *evidence) { e.record.works["soak00000003"] = []work{{answered: true}} }, wrongOnes, "was refused"},
		{"read again after an answer that arrived", func(e *evidence) { e.record.works[doc] = []work{{answered: true}, {answered: true}} }, doubles, "an answer that arrived"},
		{"repeated under never", change("soak00000004", func(d *entry) { d.account = "strict" }), doubles, "nothing may be repeated"},
		{"a start without a token repeated", change("soak00000004", func(d *entry) { d.account = "azure" }), doubles, "nothing may be repeated"},
		{"another token", func(e *evidence) {
			e.record.starts["soak00000005"] = append(e.record.starts["soak00000005"], start{"u", "", "1"})
		}, doubles, "2 tokens"},
		{"no token", func(e *evidence) { e.record.starts["soak00000005"] = []start{{"", "j", "1"}} }, doubles, "tokens"},
		{"two jobs", func(e *evidence) {
			e.record.starts["soak00000005"] = append(e.record.starts["soak00000005"], start{"t", "j3", "1"})
		}, doubles, "2 jobs"},
		{"more repeats for workers that hung up than there is reason for", func(e *evidence) {
			d := e.entries[doc]
			d.sends = 2
			e.entries[doc] = d
			e.record.works[doc] = make([]work, 0)
			for range fewHangUps + 2 {
				e.record.works[doc] = append(e.record.works[doc], work{answered: true})
			}
		}, doubles, "hung up"},
		{"two letters", func(e *evidence) { e.letters["L3"] = e.letters["L2"] }, doubles, "2 letters"},
		{"answered with an open letter", func(e *evidence) { e.letters["L3"] = letter{document: doc, state: "open"} }, doubles, "is open about it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := even()
			c.spoil(&e)
			got := e.settle()
			require.False(t, got.clean())
			require.Contains(t, strings.Join(c.in(got), "\n"), c.says)
		})
	}
}

func lostOnes(t tally) []string  { return t.lost }
func doubles(t tally) []string   { return t.duplicated }
func wrongOnes(t tally) []string { return t.wrong }

func TestTheDocumentedExceptionsAreCountedApart(t *testing.T) {
	e := even()
	at := e.entries[doc].from
	around := []window{{at.Add(-time.Second), at.Add(time.Second)}}
	e.restarts = around
	e.record.works[doc] = []work{{answered: true}, {answered: true}}
	got := e.settle()
	require.True(t, got.clean(), "%+v", got)
	require.Equal(t, 2, got.acrossEnd, "the one read twice, and the one whose answer was lost")

	e = even()
	e.fulls = around
	d := e.entries["soak00000002"]
	d.fate = unkept
	e.entries["soak00000002"] = d
	delete(e.letters, "L2")
	got = e.settle()
	require.True(t, got.clean(), "%+v", got)
	require.Equal(t, 1, got.unkept)

	// The job of a start that found no room has a letter, which does not know the document.
	e = even()
	l := e.letters["L2"]
	l.payload = errors.New("is a directory")
	e.letters["L2"] = l
	d = e.entries["soak00000002"]
	d.job = true
	e.entries["soak00000002"] = d
	require.Len(t, e.settle().lost, 1)
	e.fulls = around
	got = e.settle()
	require.True(t, got.clean(), "%+v", got)
	require.Equal(t, 1, got.unkept)
}

func TestAWorkersLedgerTellsOnce(t *testing.T) {
	l := newLedger()
	c := call{account: "mistral", documents: []string{doc}}
	l.sent(c)
	l.sent(c)
	l.told(c, answered, "")
	require.Empty(t, l.faults)
	require.Equal(t, 2, l.entries[doc].sends)
	l.told(c, lettered, "L")
	require.Len(t, l.faults, 1)
	l.told(call{documents: []string{"soak00000009"}}, answered, "")
	require.Len(t, l.faults, 2)
}
