package spool

import (
	"slices"
	"sync"
)

const (
	ownSliceMax = 64 << 10  // a body of up to so many bytes is one slice of its own size
	chunkSize   = 128 << 10 // larger ones are lists of chunks
	bufferSize  = 256 << 10 // of the copy buffer of a body in a file: each piece costs two or three system calls
	spareBuffer = 8 << 10   // the copy buffer of a body that finds no better one
)

// memory is the budget of a pool and what of it waits for reuse. Unlike a sync.Pool its lists survive garbage collections, which a small heap has
// often.
type memory struct {
	total      int64
	maxBuffers int // of bufferSize: a quarter of the budget, so that slow uploads to files leave memory to small bodies

	mu      sync.Mutex
	used    int64 // bytes handed out
	buffers int   // handed out, of bufferSize
	chunks  [][]byte
	copies  [][]byte // of bufferSize
}

func newMemory(total int64) *memory {
	return &memory{total: total, maxBuffers: int(total / 4 / bufferSize)}
}

func (m *memory) inUse() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// slice returns fresh memory of n bytes that is never reused, or nil if the budget has no room.
func (m *memory) slice(n int64) []byte {
	m.mu.Lock()
	ok := m.used+n <= m.total
	if ok {
		m.used += n
		m.trim()
	}
	m.mu.Unlock()
	if !ok {
		return nil
	}
	return make([]byte, n)
}

// take appends n chunks with old content to a list, or none if the budget has no room for all of them beside the copy buffers: without those,
// the bodies that do not fit would be slow.
func (m *memory) take(list [][]byte, n int) [][]byte {
	before := len(list)
	m.mu.Lock()
	if m.used+int64(n)*chunkSize > m.total-int64(m.maxBuffers-m.buffers)*bufferSize {
		m.mu.Unlock()
		return list
	}
	list = slices.Grow(list, n)
	for range n {
		list = append(list, pop(&m.chunks))
	}
	m.used += int64(n) * chunkSize
	m.trim()
	m.mu.Unlock()
	for i, c := range list[before:] {
		if c == nil { // outside the lock: new pages are slow
			list[before+i] = make([]byte, chunkSize)
		}
	}
	return list
}

// buffer returns a buffer through which a body of n bytes, or an unknown number if negative, is copied to or from a file. It never fails: see
// Pool.
func (m *memory) buffer(n int64) []byte {
	size := int64(bufferSize)
	if n >= 0 && n < spareBuffer {
		size = n
	}
	m.mu.Lock()
	var b []byte
	if size == bufferSize {
		if m.buffers < m.maxBuffers && m.used+size <= m.total {
			m.buffers++
			b = pop(&m.copies)
		} else {
			size = spareBuffer
		}
	}
	m.used += size
	m.trim()
	m.mu.Unlock()
	if b == nil {
		b = make([]byte, size)
	}
	return b
}

// pop takes the last one from a list; nil: it is empty.
func pop(list *[][]byte) []byte {
	last := len(*list) - 1
	if last < 0 {
		return nil
	}
	b := (*list)[last]
	(*list)[last] = nil
	*list = (*list)[:last]
	return b
}

// giveBuffer takes back what buffer returned; nil is ignored.
func (m *memory) giveBuffer(b []byte) {
	if b == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= int64(cap(b))
	if cap(b) == bufferSize {
		m.buffers--
		m.copies = append(m.copies, b)
		m.trim()
	}
}

// give takes back the memory of a body. Without recycle it is left to the garbage collector, because somebody may still look at it.
func (m *memory) give(pieces [][]byte, recycle bool) {
	if len(pieces) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range pieces {
		m.put(b, recycle)
	}
}

// exchange takes back a chunk for a slice of n bytes, n at most chunkSize, that the caller has made already.
func (m *memory) exchange(chunk []byte, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += n
	m.put(chunk, true)
}

func (m *memory) put(b []byte, recycle bool) {
	m.used -= int64(cap(b))
	if recycle && cap(b) == chunkSize {
		m.chunks = append(m.chunks, b[:chunkSize])
		m.trim()
	}
}

// trim drops what waits for reuse until that and what is handed out fit in the budget.
func (m *memory) trim() {
	over := m.used + m.waiting() - m.total
	for ; over > 0 && len(m.chunks) > 0; over -= chunkSize {
		pop(&m.chunks)
	}
	for ; over > 0 && len(m.copies) > 0; over -= bufferSize {
		pop(&m.copies)
	}
}

// waiting is the size of what waits for reuse, in bytes.
func (m *memory) waiting() int64 {
	return int64(len(m.chunks))*chunkSize + int64(len(m.copies))*bufferSize
}
