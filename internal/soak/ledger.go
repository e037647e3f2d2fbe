package main

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// fate is what a worker was told of its document in the end.
type fate int

const (
	untold   fate = iota // Nothing, yet.
	answered             // Its text, or its job's result.
	lettered             // That it is a dead letter.
	refused              // That the proxy did not take it: nothing of it is kept and nothing was paid.
	unkept               // That it failed, without a letter: promised only while the disk is full.
)

// entry is one document, as its worker knows it.
type entry struct {
	account string
	request string            // The name under which its request travelled.
	job     bool              // The request started a job.
	fate    fate              // The last thing that was told.
	letter  string            // The id of its dead letter.
	body    [sha256.Size]byte // Of the request, where there is a letter.
	sends   int               // How often the worker sent it.
	from    time.Time         // Of the first send.
	to      time.Time         // When its fate was told.
}

// called is the document with what helps to find it in the proxy's log.
func (e entry) called(name string) string {
	const clock = "15:04:05.000"
	return fmt.Sprintf("%s (%s, request %s, %s to %s, sent %d times)", name, e.account, e.request, e.from.UTC().Format(clock), e.to.UTC().Format(clock), e.sends)
}

// window is a stretch of time in which something was done to the proxy.
type window struct{ from, to time.Time }

func (w window) touches(e entry) bool { return !e.from.After(w.to) && !e.to.Before(w.from) }

func touched(e entry, windows []window) bool {
	for _, w := range windows {
		if w.touches(e) {
			return true
		}
	}
	return false
}

// ledger is what the workers know. It is safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	entries map[string]*entry
	faults  []string
	counts  map[string]int
}

func newLedger() *ledger { return &ledger{entries: map[string]*entry{}, counts: map[string]int{}} }

// sent notes that a call's documents are on their way.
func (l *ledger) sent(c call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range c.documents {
		e := l.entries[d]
		if e == nil {
			e = &entry{account: c.account, request: c.documents[0], job: c.job != "", from: time.Now()}
			l.entries[d] = e
		}
		e.sends++
	}
}

// told notes the fate of a call's documents. A document has one fate only.
func (l *ledger) told(c call, f fate, letter string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum [sha256.Size]byte
	if f == lettered {
		sum = sha256.Sum256(c.body)
	}
	for _, d := range c.documents {
		e := l.entries[d]
		if e == nil || e.fate != untold {
			l.faults = append(l.faults, d+": its worker was told twice, or of a document that it never sent")
			continue
		}
		e.fate, e.letter, e.body, e.to = f, letter, sum, time.Now()
	}
}

// wrong notes what must not be, whatever the rest of the ledger says.
func (l *ledger) wrong(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, what)
}

func (l *ledger) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[what]++
}
