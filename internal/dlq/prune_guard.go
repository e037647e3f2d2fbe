package dlq

import (
	"encoding/hex"
	"sync"
)

// pruneGuard keeps a prune from removing payloads that letters come to need
// while it looks. A prune reads all letters first and removes payloads after.
// What it may have missed is a letter that was written or moved meanwhile;
// whoever does that to a letter notes its payload here.
type pruneGuard struct {
	mu     sync.Mutex
	writes *sync.WaitGroup      // Those that have begun since the last prune did.
	noted  map[hashKey]struct{} // Nil while there is no prune.
}

// enter is called before anything is written; the caller calls leave once it is in its place.
func (g *pruneGuard) enter() (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.writes == nil {
		g.writes = new(sync.WaitGroup)
	}
	writes := g.writes
	writes.Add(1)
	return writes.Done
}

// note says that a letter needs a payload.
func (g *pruneGuard) note(sum hashKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.noted != nil {
		g.noted[sum] = struct{}{}
	}
}

// noteLetter is note for all that a letter leads to.
func (g *pruneGuard) noteLetter(e *Envelope) {
	for _, sum := range sumsOf(e) {
		g.note(sum)
	}
}

// begin starts to keep notes and returns when everything that was being
// written before, and took none, is in its place. It is false while another
// prune is at it; else the caller calls end.
func (g *pruneGuard) begin() bool {
	g.mu.Lock()
	if g.noted != nil {
		g.mu.Unlock()
		return false
	}
	before := g.writes
	g.writes, g.noted = nil, map[hashKey]struct{}{}
	g.mu.Unlock()
	if before != nil {
		before.Wait()
	}
	return true
}

func (g *pruneGuard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.noted = nil
}

// needed tells whether a payload was noted since begin.
func (g *pruneGuard) needed(sum hashKey) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, noted := g.noted[sum]
	return noted
}

// sumsOf are the payloads that a letter leads to.
func sumsOf(e *Envelope) (all []hashKey) {
	if sum, ok := payloadSum(e.RawPayloadRef); ok {
		all = append(all, sumKey(sum))
	}
	if e.Job != nil && e.Job.Start != nil && len(e.Job.Start.BodySHA256) == 2*len(hashKey{}) {
		all = append(all, sumKey(e.Job.Start.BodySHA256))
	}
	return all
}

// sumKey is the key of a hash in hexadecimal; of anything else it is one that no payload has.
func sumKey(sum string) (key hashKey) {
	if n, err := hex.Decode(key[:], []byte(sum)); err != nil || n != len(key) {
		return hashKey{}
	}
	return key
}
