package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// fate is what became of a document.
type fate struct {
	replied bool
	reply   reply
	err     error         // why no answer came
	took    time.Duration // on the clock, from when it was due to its answer
	target  int           // which proxy had it
}

// ledger has the fate of each document by its number. Each number is written by one worker only.
type ledger []fate

// note writes down a document's fate.
func (l ledger) note(n int, f fate) { l[n] = f }

// tally is what a part of a ledger says, held against what the provider and the dead letters know.
type tally struct {
	answered  []time.Duration // sorted, on the clock
	perTarget []int           // answered, by proxy
	dead      int
	late      int      // had no answer when the trial was broken off
	paidTwice int      // documents that the provider answered more than once
	faults    []string // of documents that are neither answered nor dead-lettered
}

// settle finds out for each of the documents [first, last) whether it was answered or dead-lettered. It must be one of them. Times is how often
// the provider answered each document, letters are the ids in the folders.
func (l ledger) settle(first, last int, times map[int]int, letters map[string]bool, targets int) tally {
	t := tally{perTarget: make([]int, targets)}
	for n := first; n < last; n++ {
		f := l[n]
		if times[n] > 1 {
			t.paidTwice++
		}
		fault := ""
		switch {
		case !f.replied && (f.err == nil || errors.Is(f.err, os.ErrDeadlineExceeded) || errors.Is(f.err, context.DeadlineExceeded)):
			t.late++ // whoever waits for an answer has lost nothing yet
		case !f.replied:
			fault = "has no answer: " + f.err.Error()
		case f.reply.status == http.StatusOK && times[n] == 0:
			fault = "was answered, but not by the provider"
		case f.reply.status == http.StatusOK:
			t.answered = append(t.answered, f.took)
			t.perTarget[f.target]++
		case f.reply.letter == "":
			fault = fmt.Sprintf("got a %d (%s) without a dead letter", f.reply.status, f.reply.outcome)
		case !letters[f.reply.letter]:
			fault = fmt.Sprintf("has dead letter %s, which is not in the folder", f.reply.letter)
		default:
			t.dead++
		}
		if fault != "" {
			t.faults = append(t.faults, fmt.Sprintf("document %d %s", n, fault))
		}
	}
	slices.Sort(t.answered)
	return t
}

// strangers are the faults of letters: each must be named by one document, and by one only.
func (l ledger) strangers(letters map[string]bool) (faults []string) {
	named := map[string]int{}
	for _, f := range l {
		if f.reply.letter != "" {
			named[f.reply.letter]++
		}
	}
	for id, n := range named {
		if n > 1 {
			faults = append(faults, fmt.Sprintf("dead letter %s was named to %d documents", id, n))
		}
	}
	for id := range letters {
		if named[id] == 0 {
			faults = append(faults, fmt.Sprintf("dead letter %s was named to nobody", id))
		}
	}
	return faults
}

// openLetters are the ids in the folder of open letters.
func openLetters(dirs ...string) (map[string]bool, error) {
	ids := map[string]bool{}
	for _, dir := range dirs {
		files, err := os.ReadDir(filepath.Join(dir, "open"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, f := range files {
			if id, ok := strings.CutSuffix(f.Name(), ".json"); ok {
				ids[id] = true
			}
		}
	}
	return ids, nil
}
