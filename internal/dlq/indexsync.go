package dlq

import (
	"context"
)

// load reads the log that earlier processes left. What this one has noted
// meanwhile is newer, and stays. It gives the size of the store that the log
// tells, -1 when it tells none, of how many segments it is, and whether one of them is torn.
func (x *index) load(ctx context.Context) (size int64, segments int, torn bool, err error) {
	size = -1
	s, err := openSegments(x.log.folder)
	if err != nil {
		return size, 0, false, err
	}
	defer s.close()
	count := 0
	err = s.each(func(_ uint32, r *record) error {
		if r.sized {
			size = r.bytes
			return nil
		}
		if count++; count%folderStep == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if e := x.table.get(r.id); e != nil && e.round != 0 {
			return nil
		}
		if r.gone {
			x.table.drop(r.id)
		} else {
			x.table.put(&r.facts, 0)
		}
		return nil
	})
	x.log.mu.Lock()
	x.log.records += count
	x.log.mu.Unlock()
	return size, len(s.files), s.torn, err
}

// know says that the index can tell a repeat from a new request.
func (x *index) know() { x.knownOnce.Do(func() { close(x.known) }) }

func (x *index) isKnown() bool {
	select {
	case <-x.known:
		return true
	default:
		return false
	}
}

// beginRound begins a comparison with the folder: what is in the index and is
// neither seen nor written from now on is not in the folder.
func (x *index) beginRound() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.round++; x.round == 0 {
		x.round = 1
	}
}

// see notes that the folder has the letter, and gives the stamp of the file
// that the index knows it by; known is false when it does not know it.
func (x *index) see(id uid) (stamp uint32, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.table.get(id)
	if e == nil {
		return 0, false
	}
	e.round = x.round
	return e.stamp, true
}

// correct notes what a letter's file says, unless the index has learned
// something else since see gave that stamp. It tells whether it did.
func (x *index) correct(f *facts, stamp uint32, known bool) bool {
	x.log.mu.Lock()
	defer x.log.mu.Unlock()
	x.mu.Lock()
	e := x.table.get(f.id)
	same := known == (e != nil) && (e == nil || e.stamp == stamp)
	x.mu.Unlock()
	if same {
		x.write(f)
	}
	return same
}

// unseen lists what the comparison has not seen.
func (x *index) unseen() (ids []uid) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.each(func(e *entry) {
		if e.round != x.round {
			ids = append(ids, e.id)
		}
	})
	return ids
}

// removeUnseen removes the letter unless it was written again since.
func (x *index) removeUnseen(id uid) {
	x.removeWhere(id, func(e *entry) bool { return e.round != x.round })
}

// removeStamped removes the letter unless it was written again since see gave that stamp.
func (x *index) removeStamped(id uid, stamp uint32) {
	x.removeWhere(id, func(e *entry) bool { return e.stamp == stamp })
}

// restart leaves the segments of a folder that is no longer there: what they
// said is noted anew as it is found.
func (x *index) restart() {
	x.log.mu.Lock()
	defer x.log.mu.Unlock()
	x.log.restart()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.behind = true
	x.table.each(func(e *entry) { e.stamp = 0 })
}

// catchUp tells whether the log lacks something, and takes the mark away.
func (x *index) catchUp() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	behind := x.behind
	x.behind = false
	return behind
}

// compact rewrites the log when most of it is dead.
func (x *index) compact(size int64, always bool) error {
	if !always && !x.log.wasteful(x.count()) {
		return nil
	}
	n, of := x.places()
	return x.log.compact(n, of, size)
}
