package pace

// Paced reports whether a rate holds calls back at present, so that their costs count.
func (q *Queue) Paced() bool { return q.Snapshot().Rate > 0 }
