package retry

import "sync/atomic"

// Purse bounds how many transient retries sleep or run at one time on one account, in proportion to the requests in progress: in an outage
// most requests then fail fast instead of doubling the load. The zero value is ready; it is safe for concurrent use.
type Purse struct {
	requests atomic.Int64
	retries  atomic.Int64
}

// Enter counts a request in progress; the function it returns ends it.
func (p *Purse) Enter() (leave func()) {
	p.requests.Add(1)
	return func() { p.requests.Add(-1) }
}

// InProgress is the number of requests in progress.
func (p *Purse) InProgress() int64 { return p.requests.Load() }

// Take asks for one retry, of at most max(floor, ratio × requests in progress) at a time; a ratio of 0 or less lets every retry through.
// Where it reports true the retry is over when give is called, once.
func (p *Purse) Take(ratio float64, floor int) (give func(), ok bool) {
	n := p.retries.Add(1)
	if ratio > 0 && float64(n) > max(float64(floor), ratio*float64(p.requests.Load())) {
		p.retries.Add(-1)
		return nil, false
	}
	return func() { p.retries.Add(-1) }, true
}
