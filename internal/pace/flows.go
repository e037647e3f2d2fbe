package pace

import "time"

// maxFlows bounds the tenants that are told apart while they wait, per priority; those beyond share one flow.
const maxFlows = 1024

// weight is a priority's share: of what waits, high goes four times as fast as normal and normal four times as fast as low.
func (p Priority) weight() float64 { return [...]float64{4, 16, 1}[p] }

// flowKey names a flow. Crowd is the one that tenants share for whom there was no flow left.
type flowKey struct {
	tenant   string
	priority Priority
	job      bool
	crowd    bool
}

// flow is what one tenant has waiting with one priority: first those who have had a turn before, then the others, each in order of arrival. A
// retry does not overtake other tenants: a crowd that was let go and thrown back would hold everybody else up.
type flow struct {
	key   flowKey
	again turnList
	fresh turnList
	start float64 // the virtual time from which its head is counted
	tag   float64 // the virtual time at which its head is due
	order uint64  // of its arrival, where tags are equal
	place int     // in the heap
}

func (f *flow) head() *Turn {
	if f.again.head != nil {
		return f.again.head
	}
	return f.fresh.head
}

func (f *flow) list(t *Turn) *turnList {
	if t.again {
		return &f.again
	}
	return &f.fresh
}

func (f *flow) due() { f.tag = f.start + float64(f.head().cost)/f.key.priority.weight() }

// turnList is a list of waiting turns, linked through them so that one can leave from the middle.
type turnList struct {
	head, tail *Turn
	cost       int
}

func (l *turnList) push(t *Turn) {
	t.before, t.after = l.tail, nil
	if l.tail == nil {
		l.head = t
	} else {
		l.tail.after = t
	}
	l.tail = t
	l.cost += t.cost
}

func (l *turnList) remove(t *Turn) {
	if t.before == nil {
		l.head = t.after
	} else {
		t.before.after = t.after
	}
	if t.after == nil {
		l.tail = t.before
	} else {
		t.after.before = t.before
	}
	t.before, t.after = nil, nil
	l.cost -= t.cost
}

// flows hold all that waits in one queue and tell who is next: self-clocked fair queueing. Each flow's head is due at a virtual time that is a
// call's cost, divided by the flow's weight, after the one before it; the virtual time is that of the turn served last. A flow that was empty
// starts at the present, so that nobody saves up a claim and nobody who comes late waits for what came before him.
type flows struct {
	others  flowHeap // of calls that need no job permit
	jobs    flowHeap // of calls that do: lack of permits holds only them
	flows   map[flowKey]*flow
	virtual float64
	weight  float64 // of all flows that have something waiting
	arrived uint64
	waiting [3]int // by priority
	cost    int    // of all that waits
	count   int
}

func (f *flows) heap(job bool) *flowHeap {
	if job {
		return &f.jobs
	}
	return &f.others
}

// add puts a turn at the end of its part of its flow.
func (f *flows) add(t *Turn) {
	f.waiting[t.priority]++
	f.cost += t.cost
	f.count++
	w := f.find(t)
	t.flow = w
	was := w.head()
	w.list(t).push(t)
	switch w.head() {
	case was: // behind others
	case t:
		heap := f.heap(t.job)
		if was == nil {
			w.start = f.virtual
			w.due()
			heap.add(w)
			return
		}
		w.due()
		heap.fix(w.place)
	}
}

// find returns the flow that a turn belongs to.
func (f *flows) find(t *Turn) *flow {
	key := flowKey{tenant: t.tenant, priority: t.priority, job: t.job}
	if w, ok := f.flows[key]; ok {
		return w
	}
	if len(f.flows) >= maxFlows {
		key.tenant, key.crowd = "", true
		if w, ok := f.flows[key]; ok {
			return w
		}
	}
	if f.flows == nil {
		f.flows = make(map[flowKey]*flow)
	}
	f.arrived++
	w := &flow{key: key, order: f.arrived}
	f.flows[key] = w
	f.weight += key.priority.weight()
	return w
}

// next returns whose turn it is, without those who need a permit unless there is one; nil: nobody's.
func (f *flows) next(permit bool) *Turn {
	switch {
	case permit && len(f.jobs) > 0 && (len(f.others) == 0 || f.jobs[0].tag < f.others[0].tag):
		return f.jobs[0].head()
	case len(f.others) > 0:
		return f.others[0].head()
	}
	return nil
}

// serve removes a turn whose turn has come, and lets the virtual time go on.
func (f *flows) serve(t *Turn) {
	f.virtual = max(f.virtual, t.flow.tag)
	f.remove(t)
}

// remove takes a turn out, wherever it stands.
func (f *flows) remove(t *Turn) {
	f.waiting[t.priority]--
	f.cost -= t.cost
	f.count--
	w := t.flow
	t.flow = nil
	head := w.head() == t
	w.list(t).remove(t)
	switch {
	case w.head() == nil:
		f.heap(t.job).remove(w)
		delete(f.flows, w.key)
		f.weight -= w.key.priority.weight()
		if f.count == 0 {
			f.virtual, f.weight = 0, 0 // no error of rounding lives longer than a busy time
		}
	case head:
		w.start = max(w.start, f.virtual)
		w.due()
		f.heap(t.job).fix(w.place)
	}
}

// each calls do for every waiting turn; do may remove the turn it is given.
func (f *flows) each(do func(*Turn)) {
	for _, w := range f.flows {
		all(w.again.head, do)
		all(w.fresh.head, do)
	}
}

func all(t *Turn, do func(*Turn)) {
	for t != nil {
		after := t.after
		do(t)
		t = after
	}
}

// oldest returns when the one who has waited longest came. Each list is in order of arrival.
func (f *flows) oldest() (first time.Time) {
	for _, w := range f.flows {
		for _, t := range []*Turn{w.again.head, w.fresh.head} {
			if t != nil && (first.IsZero() || t.entered.Before(first)) {
				first = t.entered
			}
		}
	}
	return first
}
