package pace

// flowHeap orders flows by the tag of their heads. Each flow knows its place.
type flowHeap []*flow

func (h flowHeap) before(i, j int) bool {
	if h[i].tag != h[j].tag {
		return h[i].tag < h[j].tag
	}
	return h[i].order < h[j].order
}

func (h flowHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *flowHeap) add(f *flow) {
	f.place = len(*h)
	*h = append(*h, f)
	h.up(f.place)
}

func (h *flowHeap) remove(f *flow) {
	last := len(*h) - 1
	i := f.place
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	if i < last {
		h.fix(i)
	}
}

func (h flowHeap) fix(i int) {
	h.up(i)
	h.down(i)
}

func (h flowHeap) up(i int) {
	for i > 0 && h.before(i, (i-1)/2) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (h flowHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h.before(child+1, child) {
			child++
		}
		if !h.before(child, i) {
			return
		}
		h.swap(child, i)
		i = child
	}
}
