package pace

// Paced reports whether a rate holds calls back at present, so that their costs count.
func (q *Queue) Paced() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	rate := q.pacer.Rate()
	return rate.limit(q.settings.tuning()) > 0
}

// otherScope is the scope of everything that was not declared.
const otherScope = "other"
