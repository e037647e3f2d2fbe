package dlq

// numbers finds a number by a hash of what it stands for, in 4 bytes for each
// place: open addressing, never more than three quarters full.
type numbers struct {
	places []uint32 // The number plus one; 0 is free. The length is a power of two.
	count  int
}

// leastPlaces is how many places the first number makes.
const leastPlaces = 64

// seek gives the first number of that hash that is the one.
func (h *numbers) seek(hash uint64, is func(n uint32) bool) (n uint32, ok bool) {
	if h.count == 0 {
		return 0, false
	}
	mask := h.mask()
	for i := hash & mask; h.places[i] != 0; i = (i + 1) & mask {
		if n := h.places[i] - 1; is(n) {
			return n, true
		}
	}
	return 0, false
}

// mask makes a place of a hash. There is at least one place.
func (h *numbers) mask() uint64 { return uint64(len(h.places)) - 1 }

// add puts a number in, which must not be in already. The function gives the hash of any number that is.
func (h *numbers) add(hash uint64, n uint32, hashOf func(n uint32) uint64) {
	if 4*(h.count+1) > 3*len(h.places) {
		h.grow(hashOf)
	}
	h.count++
	h.put(hash, n)
}

// reserve makes places for so many numbers, where there are none yet.
func (h *numbers) reserve(n int) {
	places := leastPlaces
	for 3*places < 4*n {
		places *= 2
	}
	h.places = make([]uint32, places)
}

func (h *numbers) put(hash uint64, n uint32) {
	mask := h.mask()
	i := hash & mask
	for h.places[i] != 0 {
		i = (i + 1) & mask
	}
	h.places[i] = n + 1
}

func (h *numbers) grow(hashOf func(n uint32) uint64) {
	old := h.places
	h.places = make([]uint32, max(leastPlaces, 2*len(old)))
	for _, place := range old {
		if place != 0 {
			h.put(hashOf(place-1), place-1)
		}
	}
}

// remove takes a number out and closes the gap, so that whatever had to give
// way to it is still found.
func (h *numbers) remove(hash uint64, n uint32, hashOf func(n uint32) uint64) {
	if h.count == 0 {
		return
	}
	mask := h.mask()
	gap := hash & mask
	for h.places[gap] != n+1 {
		if h.places[gap] == 0 {
			return
		}
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; h.places[i] != 0; i = (i + 1) & mask {
		home := hashOf(h.places[i]-1) & mask
		if (i-home)&mask >= (i-gap)&mask {
			h.places[gap], gap = h.places[i], i
		}
	}
	h.places[gap] = 0
	h.count--
}
