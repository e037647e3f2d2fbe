package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// provider is the upstream of a scenario: one account, no more of it than the model needs, so that the cores are left to what is measured.
type provider struct {
	account account
	scale   scale
	server  *http.Server
	addr    string

	mu        sync.Mutex
	began     time.Time // zero: nobody has called yet
	quota     bucket
	random    *rand.Rand
	calls     []time.Duration // when each came, in the provider's time
	throttled int
	failed    int
	accepted  []time.Duration // when each accepted call came
	answers   []time.Duration // when each answered call was
	services  []time.Duration // how long it took
	times     map[int]int     // by document: how often it was answered
}

func newProvider(ctx context.Context, a account, s scale, seed uint64) (*provider, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &provider{
		account: a, scale: s, addr: l.Addr().String(), quota: newBucket(a.burst),
		random: rand.New(rand.NewPCG(seed, 0)), times: map[int]int{},
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

func (p *provider) close() { _ = p.server.Close() }

// begin starts the account's time: outages and changes of the quota count from here.
func (p *provider) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = time.Now()
}

// verdict is what one call gets.
type verdict struct {
	status int
	after  time.Duration // on the clock
}

// judge decides about a call at the moment it comes.
func (p *provider) judge() verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.scale.told(time.Since(p.began))
	p.calls = append(p.calls, now)
	out, next := p.account.gone(now)
	if out {
		p.failed++
		return verdict{http.StatusServiceUnavailable, p.scale.real(refusal)}
	}
	if !p.quota.take(now, p.account.quotaAt(now)) {
		p.throttled++
		return verdict{http.StatusTooManyRequests, p.scale.real(refusal)}
	}
	service := time.Duration(float64(serviceMean) * math.Exp(p.random.NormFloat64()*serviceSigma-serviceSigma*serviceSigma/2))
	if next-now < service { // an outage breaks what is in flight
		p.failed++
		return verdict{http.StatusServiceUnavailable, p.scale.real(next - now)}
	}
	p.accepted = append(p.accepted, now)
	return verdict{http.StatusOK, p.scale.real(service)}
}

// answered notes that a document's call has run its course.
func (p *provider) answered(document int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times[document]++
	p.answers = append(p.answers, p.scale.told(time.Since(p.began)))
	p.services = append(p.services, p.scale.told(took))
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	document, err := documentOf(text)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	v := p.judge()
	timer := time.NewTimer(v.after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done(): // hung up: nobody waits for it
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch v.status {
	case http.StatusOK:
		p.answered(document, time.Since(began))
		_, _ = fmt.Fprintf(w, `{"document":%d,"text":"page"}`, document)
	case http.StatusTooManyRequests:
		if p.account.hints {
			// In whole seconds Retry-After cannot be scaled down.
			w.Header().Set("Retry-After-Ms", strconv.FormatInt(max(1, p.scale.real(hint).Milliseconds()), 10))
		}
		w.WriteHeader(v.status)
		_, _ = io.WriteString(w, `{"error":{"code":"rate_limited","message":"too many requests"}}`)
	default:
		w.WriteHeader(v.status)
		_, _ = io.WriteString(w, `{"error":{"code":"unavailable","message":"out of service"}}`)
	}
}

// counts are what happened, once nobody calls any more.
type counts struct {
	calls, accepted   []time.Duration // when they came; sorted, in the provider's time
	answers           []time.Duration // sorted
	services          []time.Duration // sorted
	throttled, failed int
	times             map[int]int
}

func (p *provider) counts() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	sorted := func(v []time.Duration) []time.Duration { return slices.Sorted(slices.Values(v)) }
	return counts{sorted(p.calls), sorted(p.accepted), sorted(p.answers), sorted(p.services), p.throttled, p.failed, p.times}
}

// documentBytes is the size of each document.
const documentBytes = 1 << 10

// document makes the one of that number.
func document(n int) []byte {
	b := append(strconv.AppendInt(nil, int64(n), 10), '\n')
	for i := len(b); i < documentBytes; i++ {
		b = append(b, byte(i*7)|1)
	}
	return b
}

var errNoDocument = errors.New("this is none of the documents")

// documentOf reads a document's number, if it came whole.
func documentOf(text []byte) (int, error) {
	i := slices.Index(text, '\n')
	if i < 0 || len(text) != documentBytes {
		return 0, errNoDocument
	}
	return strconv.Atoi(string(text[:i]))
}
