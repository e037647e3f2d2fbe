package spool

import (
	"slices"
	"sync"
)

const (
	ownSliceMax = 64 << 10  // a body of up to so many bytes is one slice of its own size
	chunkSize   = 128 << 10 // larger ones are lists of chunks; also the size of a copy buffer
	spareBuffer = 8 << 10   // the copy buffer of a body that finds no chunk for it
)

// memory is the budget of a pool and its list of chunks for reuse. Unlike a
// sync.Pool the list survives garbage collections, which a small heap has often.
type memory struct {
	total      int64
	maxBuffers int // of chunkSize: slow uploads must not take all memory from small bodies

	mu      sync.Mutex
	used    int64 // bytes handed out
	buffers int   // chunks handed out as copy buffers
	free    [][]byte
}

func newMemory(total int64) *memory {
	return &memory{total: total, maxBuffers: max(1, int(total/4/chunkSize))}
}

func (m *memory) inUse() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// slice returns fresh memory of n bytes that is never reused, or nil if the budget
// has no room.
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

// chunks appends n chunks with old content to a list, or none if the budget has no room for all of them.
func (m *memory) chunks(list [][]byte, n int) [][]byte {
	before := len(list)
	m.mu.Lock()
	if m.used+int64(n)*chunkSize > m.total {
		m.mu.Unlock()
		return list
	}
	list = slices.Grow(list, n)
	for range n {
		c, _ := m.take() // the free ones and the used ones are within the budget together
		list = append(list, c)
	}
	m.mu.Unlock()
	for i := range list[before:] {
		list[before+i] = orFresh(list[before+i], true)
	}
	return list
}

// buffer returns a buffer through which a body of n bytes, or an unknown number if
// negative, is copied to or from a file. It never fails: see Pool.
func (m *memory) buffer(n int64) []byte {
	spare := int64(spareBuffer)
	if n >= 0 {
		spare = min(n, spare)
	}
	m.mu.Lock()
	var c []byte
	ok := false
	if spare == spareBuffer && m.buffers < m.maxBuffers {
		if c, ok = m.take(); ok {
			m.buffers++
		}
	}
	if !ok {
		m.used += spare
		m.trim()
	}
	m.mu.Unlock()
	if !ok {
		return make([]byte, spare)
	}
	return orFresh(c, ok)
}

// take returns a chunk of the list, or nil and true for the right to make one.
func (m *memory) take() (c []byte, ok bool) {
	if last := len(m.free) - 1; last >= 0 {
		c, m.free[last] = m.free[last], nil
		m.free = m.free[:last]
	} else if m.used+chunkSize > m.total {
		return nil, false
	}
	m.used += chunkSize
	return c, true
}

// orFresh makes the chunk that take allowed, outside the lock: new pages are slow.
func orFresh(c []byte, ok bool) []byte {
	if ok && c == nil {
		return make([]byte, chunkSize)
	}
	return c
}

// giveBuffer takes back what buffer returned; nil is ignored.
func (m *memory) giveBuffer(b []byte) {
	if b == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if cap(b) == chunkSize {
		m.buffers--
	}
	m.put(b, true)
}

// give takes back the memory of a body. Without recycle it is left to the garbage
// collector, because somebody may still look at it.
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

// exchange takes back a chunk for a slice of n bytes, n at most chunkSize, that the
// caller has made already.
func (m *memory) exchange(chunk []byte, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += n
	m.put(chunk, true)
}

func (m *memory) put(b []byte, recycle bool) {
	m.used -= int64(cap(b))
	if recycle && cap(b) == chunkSize {
		m.free = append(m.free, b[:chunkSize])
		m.trim()
	}
}

// trim drops chunks that wait for reuse until they and what is handed out fit in
// the budget.
func (m *memory) trim() {
	for last := len(m.free) - 1; last >= 0 && m.used+int64(len(m.free))*chunkSize > m.total; last-- {
		m.free[last] = nil
		m.free = m.free[:last]
	}
}
