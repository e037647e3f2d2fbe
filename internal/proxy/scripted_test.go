package proxy

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/dlq"
	"github.com/ocr-proxy/ocr-proxy/internal/memnet"
)

// step is what the provider does with one attempt.
type step struct {
	status  int           // 0: 200
	header  string        // lines "K: V", separated by |
	body    string        // of the answer
	after   time.Duration // it takes that long to answer
	lost    bool          // it does the work, then the connection closes without an answer
	hang    bool          // it never answers
	refuse  bool          // the connection is refused
	missing int           // so many bytes of the announced body are never sent
	handle  http.HandlerFunc
}

// seen is one attempt as the provider saw it.
type seen struct {
	at       time.Time
	method   string
	target   string
	host     string
	header   http.Header
	body     string
	length   int64
	encoding []string
	refused  bool // never got further than the dial
}

// scripted is a provider that does one step for each attempt. An attempt beyond the script fails the test.
type scripted struct {
	t       *testing.T
	network *memnet.Network
	// early sees a request before its body has come, and reports whether it has answered it. Nil: everything waits for the body.
	early func(w http.ResponseWriter, r *http.Request) bool

	mu    sync.Mutex
	steps []step
	seen  []seen
}

// next takes the next step of the script.
func (s *scripted) next(what seen) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	what.at = time.Now()
	s.seen = append(s.seen, what)
	if len(s.steps) == 0 {
		s.t.Errorf("attempt %d is one too many", len(s.seen))
		return step{status: 599}
	}
	now := s.steps[0]
	s.steps = s.steps[1:]
	return now
}

// refuses reports whether the next attempt must not get a connection.
func (s *scripted) refuses() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.steps) > 0 && s.steps[0].refuse
}

// script adds steps.
func (s *scripted) script(steps ...step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, steps...)
}

// attempts are those seen so far.
func (s *scripted) attempts() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.seen...)
}

// gaps are the times from each attempt's arrival to the next one's.
func (s *scripted) gaps() []time.Duration {
	var gaps []time.Duration
	all := s.attempts()
	for i := 1; i < len(all); i++ {
		gaps = append(gaps, all[i].at.Sub(all[i-1].at))
	}
	return gaps
}

func (s *scripted) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.refuses() {
		s.next(seen{refused: true})
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return s.network.DialContext(ctx, network, address)
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.early != nil && s.early(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the proxy gave up while it sent
	}
	now := s.next(seen{
		method: r.Method, target: r.RequestURI, host: r.Host, header: r.Header, body: string(body), length: r.ContentLength, encoding: r.TransferEncoding,
	})
	switch {
	case now.handle != nil:
		now.handle(w, r)
		return
	case now.hang:
		<-r.Context().Done()
		return
	case now.lost:
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
		return
	}
	select {
	case <-time.After(now.after):
	case <-r.Context().Done():
		return
	}
	if s.refuses() {
		w.Header().Set("Connection", "close") // the next attempt has to dial
	}
	maps.Copy(w.Header(), headerOf(now.header))
	if now.missing > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(now.body)+now.missing))
	}
	if now.status == 0 {
		now.status = http.StatusOK
	}
	w.WriteHeader(now.status)
	_, _ = io.WriteString(w, now.body)
	if now.missing > 0 {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// graveyard keeps the dead letters that it is given.
type graveyard struct {
	mu      sync.Mutex
	letters []*dlq.Envelope
	bodies  []string
	err     error         // what Put fails with
	takes   time.Duration // how long Put takes
}

// Put takes a letter as a store does: when it returns, letter and body are safe.
func (g *graveyard) Put(ctx context.Context, e *dlq.Envelope, body io.Reader) (string, error) {
	var data []byte
	if body != nil { // as in the store, nil is a request without one
		var err error
		if data, err = io.ReadAll(body); err != nil {
			return "", err
		}
	}
	select {
	case <-time.After(g.takes):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return "", g.err
	}
	g.letters = append(g.letters, e)
	g.bodies = append(g.bodies, string(data))
	return fmt.Sprintf("letter-%d", len(g.letters)), nil
}

func (g *graveyard) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.letters)
}
