package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
	"github.com/ocr-proxy/ocr-proxy/internal/sim"
)

// whims are what goes wrong at random with the calls of a provider, beside the faults of its simulator: shares of all calls.
type whims struct {
	Reset float64 // The connection is reset before the call is read.
	Break float64 // The work is done and the answer breaks off in the middle.
	Slow  float64 // The work is done and the answer comes later than anybody waits for it.
	// Late is how long that is.
	Late time.Duration
}

// orders are what the provider is told to do.
type orders struct {
	Faults sim.Faults
	Whims  whims
}

// provider is one simulated provider and writes down what it does.
type provider struct {
	account string
	run     string // The number of this process, which makes its calls' names unique.
	sim     *sim.Server
	journal *journal
	calls   *atomic.Int64

	mu     sync.Mutex
	random *rand.Rand
	whims  whims
}

// providerSpec is what the child process is started with.
type providerSpec struct {
	Run     string
	Seed    uint64
	Journal string
	Control string            // Address where it takes orders.
	Listen  map[string]string // Addresses by kind.
	Orders  orders
}

// serveProviders is the life of the child process: all providers, each at an address of its own, until it is killed.
func serveProviders(spec providerSpec) error {
	j, err := openJournal(spec.Journal)
	if err != nil {
		return err
	}
	var (
		calls  atomic.Int64
		all    []*provider
		failed = make(chan error)
	)
	listen := func(addr string, h http.Handler) error {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
		if err != nil {
			return err
		}
		s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols)}
		s.Protocols.SetHTTP1(true)
		s.Protocols.SetUnencryptedHTTP2(true)
		go func() { failed <- s.Serve(l) }()
		return nil
	}
	for kind, addr := range spec.Listen {
		p := &provider{
			account: kind, run: spec.Run, journal: j, calls: &calls, whims: spec.Orders.Whims,
			random: rand.New(rand.NewPCG(spec.Seed, uint64(len(all)))),
		}
		p.sim, err = sim.New(sim.Options{Kind: sim.Kind(kind), Faults: spec.Orders.Faults, Seed: spec.Seed, Engine: reader{journal: j, name: named()}})
		if err != nil {
			return err
		}
		all = append(all, p)
		if err := listen(addr, p); err != nil {
			return err
		}
	}
	err = listen(spec.Control, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o orders
		err := json.NewDecoder(r.Body).Decode(&o)
		for _, p := range all {
			err = errors.Join(err, p.obey(o))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	if err != nil {
		return err
	}
	if _, err := io.WriteString(os.Stderr, child.Ready); err != nil {
		return err
	}
	return <-failed
}

func (p *provider) obey(o orders) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whims = o.Whims
	return p.sim.SetFaults(o.Faults)
}

// fate draws what happens to one call.
func (p *provider) fate() (w whims, reset, broken, slow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	luck := p.random.Float64()
	w = p.whims
	return w, luck < w.Reset, luck >= w.Reset && luck < w.Reset+w.Break, luck >= w.Reset+w.Break && luck < w.Reset+w.Break+w.Slow
}

// ServeHTTP lets the simulator serve the call, then decides what of its answer arrives. "answered" is written down when the kernel has all of it
// and whoever asked was still there: what the provider did and did not write that behind may have been lost on the way.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w2, reset, broken, slow := p.fate()
	if reset {
		p.fault("reset")
		hangUp(w, true)
		return
	}
	call := &served{id: p.run + "-" + strconv.FormatInt(p.calls.Add(1), 10), account: p.account, journal: p.journal}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	told, lost := p.serve(r.WithContext(context.WithValue(r.Context(), callKey{}, call)))
	p.noteStart(call, r.Header.Get("X-Amz-Target"), body, told.body.Bytes())
	switch {
	case lost:
		if call.any() {
			p.fault("answer lost")
		} else {
			p.fault("no answer")
		}
		hangUp(w, !call.any())
		return
	case told.status == http.StatusTooManyRequests || strings.Contains(told.body.String(), "ThrottlingException") || strings.Contains(told.body.String(), "ProvisionedThroughput"):
		p.fault("throttled")
	case told.status >= http.StatusInternalServerError:
		p.fault("server error " + strconv.Itoa(told.status))
	case told.status >= http.StatusBadRequest:
		p.fault("refused document or job")
	}
	if slow && call.any() {
		p.fault("answer too late")
		select {
		case <-r.Context().Done():
		case <-time.After(w2.Late):
		}
	}
	p.pass(w, r, call, told, broken && call.any())
}

// serve catches the simulator's way to lose an answer.
func (p *provider) serve(r *http.Request) (told *recorder, lost bool) {
	told = &recorder{header: http.Header{}, status: http.StatusOK}
	defer func() {
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler { //nolint:errorlint // It is thrown as it is.
				panic(v)
			}
			lost = true
		}
	}()
	p.sim.ServeHTTP(told, r)
	return told, false
}

func (p *provider) pass(w http.ResponseWriter, r *http.Request, call *served, told *recorder, broken bool) {
	trailers := http.Header{}
	for name, values := range told.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			trailers[name] = values
		} else {
			w.Header()[name] = values
		}
	}
	isGRPC := r.ProtoMajor >= 2
	if !isGRPC {
		w.Header().Set("Content-Length", strconv.Itoa(told.body.Len()))
	}
	w.WriteHeader(told.status)
	if broken {
		p.fault("answer broken off")
		_, _ = w.Write(told.body.Bytes()[:told.body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, err := w.Write(told.body.Bytes())
	err = errors.Join(err, http.NewResponseController(w).Flush())
	maps.Copy(w.Header(), trailers)
	if err == nil && r.Context().Err() == nil {
		p.journal.note("answered", call.id)
	}
}

// noteStart writes a job start down. Who repeats one that was lost has to do it under the same token.
func (p *provider) noteStart(call *served, target string, asked, answer []byte) {
	if !strings.Contains(target, "Textract.Start") {
		return
	}
	var in struct{ ClientRequestToken string }
	var out struct{ JobId string } //nolint:revive // It is the provider's spelling.
	_ = json.Unmarshal(answer, &out)
	document := named().Find(asked)
	if json.Unmarshal(asked, &in) != nil || document == nil {
		return
	}
	if len(answer) > 0 && out.JobId == "" {
		return // Refused or throttled: nothing was started.
	}
	if out.JobId != "" {
		call.worked(string(document))
	}
	p.journal.note("started", call.id, string(document), in.ClientRequestToken, out.JobId, p.run)
}

func (p *provider) fault(what string) { p.journal.note("fault", p.account, what) }

// hangUp ends the connection without an answer, with a reset where it is asked for.
func hangUp(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 resets the stream.
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// recorder keeps an answer.
type recorder struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// order tells the running providers what to do from now on.
func order(ctx context.Context, control string, o orders) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+control+"/", bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("the providers refuse their orders: %s", said)
	}
	return nil
}
