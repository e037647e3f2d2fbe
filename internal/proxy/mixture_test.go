package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// document is what a worker sends: bytes that follow from its name.
type document struct {
	seed uint64
	size int
}

func (d document) name() string { return fmt.Sprintf("%d-%d", d.seed, d.size) }

func documentOf(name string) (d document) {
	_, _ = fmt.Sscanf(name, "%d-%d", &d.seed, &d.size)
	return d
}

func (d document) bytes() []byte {
	b := make([]byte, d.size)
	seed := [32]byte{}
	copy(seed[:], d.name())
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

// unkind is a provider that answers too early, breaks off and loses answers, and looks at each byte that it is given.
type unkind struct {
	foreign atomic.Pointer[string] // the first sign of another document's bytes
	whole   atomic.Int32
}

func (u *unkind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := documentOf(r.Header.Get("X-Document"))
	want := d.bytes()
	upTo := len(want)
	does := rand.IntN(8)
	if does < 3 {
		upTo = rand.IntN(upTo)
	}
	got := make([]byte, 0, len(want))
	buffer := make([]byte, 100_000)
	var err error
	for err == nil && len(got) < upTo {
		var n int
		n, err = r.Body.Read(buffer)
		got = append(got, buffer[:n]...)
	}
	if !bytes.HasPrefix(want, got) {
		sign := fmt.Sprintf("%s: %d bytes that are not its own", d.name(), len(got))
		u.foreign.CompareAndSwap(nil, &sign)
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return // the worker has gone
	case does == 0, does == 4:
		w.WriteHeader(http.StatusServiceUnavailable)
	case does == 1, does == 5:
		panic(http.ErrAbortHandler)
	case does == 2:
		w.WriteHeader(http.StatusBadRequest)
	default:
		if len(got) != len(want) {
			sign := fmt.Sprintf("%s: ends after %d bytes", d.name(), len(got))
			u.foreign.CompareAndSwap(nil, &sign)
		}
		u.whole.Add(1)
		_, _ = io.WriteString(w, d.name())
	}
}

// Memory and files go from body to body while connections break, attempts end early and workers leave: each provider sees, and each letter holds,
// the bytes of its own document and no others.
func TestNoDocumentGetsIntoAnother(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *httptest.Server){
		"plain": func(*httptest.Server) {}, "TLS": withTLS(false, new(tls.Config)), "HTTP/2": withTLS(true, new(tls.Config)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := new(unkind)
			upstream := provide(t, provider.ServeHTTP, change)
			transport := NewTransport(nil)
			if upstream.TLS != nil {
				transport = NewTransport(trust(upstream))
			}
			s := hasty()
			s.policy.MaxAttempts, s.policy.PurseFloor, s.policy.Ambiguous = 4, 1000, RepeatAlways
			s.breaker.FailureThreshold = 1_000_000
			s.bodies.MemoryPerBody, s.bodies.MemoryTotal = 256<<10, 2<<20
			e := newEdge(t, s, upstream.URL, transport)
			var wg sync.WaitGroup
			for worker := range 12 {
				wg.Go(func() {
					for i := range 8 {
						e.sendOne(document{seed: uint64(worker*1000 + i), size: 1 + rand.IntN(1<<(10+rand.IntN(12)))})
					}
				})
			}
			wg.Wait()
			if sign := provider.foreign.Load(); sign != nil {
				t.Error(*sign)
			}
			require.Positive(t, provider.whole.Load())
			require.NotEmpty(t, e.sink.letters)
			for i, letter := range e.sink.letters {
				d := documentOf(letter.DocumentID)
				require.Equal(t, sum(string(d.bytes())), sum(e.sink.bodies[i]), letter.DocumentID)
			}
		})
	}
}

// sendOne sends a document, in one piece or in several, and sometimes leaves before the end.
func (e *edge) sendOne(d document) {
	ctx, leave := context.WithCancel(e.t.Context())
	defer leave()
	content := d.bytes()
	var body io.Reader = bytes.NewReader(content)
	switch rand.IntN(4) {
	case 0:
		body = &hesitant{Reader: body}
	case 1:
		body = &hesitant{Reader: body, leave: leave, after: rand.IntN(d.size + 1)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/ocr", body)
	if err != nil {
		e.t.Error(err)
		return
	}
	req.ContentLength = int64(d.size)
	req.Header.Set("X-Document", d.name())
	req.Header.Set("Ocr-Proxy-Document-Id", d.name())
	resp, err := e.worker.Do(req)
	if err != nil {
		return // it has left, or the answer broke off
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode == http.StatusOK && string(answer) != d.name() {
		e.t.Errorf("%s got the answer %q", d.name(), answer)
	}
}

// hesitant reads with pauses, and leaves after so many bytes.
type hesitant struct {
	io.Reader
	leave func()
	after int
}

func (s *hesitant) Read(p []byte) (int, error) {
	time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond) // an upload takes time; nothing depends on how much
	n, err := s.Reader.Read(p[:min(len(p), 1+rand.IntN(100_000))])
	if s.after -= n; s.leave != nil && s.after <= 0 {
		s.leave()
	}
	return n, err
}
