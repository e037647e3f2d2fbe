package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ocr-proxy/ocr-proxy/internal/child"
)

const waitingName = "waiting"

// observed is how long the processor time of a process is observed while everybody waits; settling is the time before, for what is left to do when
// the last request has come.
const (
	settling = 4 * time.Second
	observed = 10 * time.Second
)

// endless is the settings of a proxy whose queue moves, but hardly: one call a second.
const endless = `retry: {total_budget: 24h, attempt_timeout: 1m}
pacing: {adaptive: false, rate: 1}
`

// held is what a proxy takes while requests wait in it.
type held struct {
	requests    int
	idle, full  int64   // resident bytes before the first request, and while they wait
	busy        float64 // share of one core
	description string
}

func (h held) each() float64 { return float64(h.full-h.idle) / float64(h.requests) }

// wait measures the last scenario: requests in the queue of the program against blocked calls in a bare reverse proxy.
func (f *fleet) wait(ctx context.Context, n int) error {
	began := time.Now()
	t := table{head: []string{"", "requests", "RSS before, MB", "RSS while they wait, MB", "a request, KB", "of one core"}}
	var queue, bare held
	queue, err := f.queue(ctx, n)
	if err == nil {
		bare, err = f.bare(ctx, n)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.say("  %s: %s\n", waitingName, time.Since(began).Round(100*time.Millisecond))
	got := found{result: &result{}}
	var notes []string
	if err != nil {
		got.why = err.Error()
		notes = append(notes, "not measured: "+got.why)
	}
	for _, h := range []held{queue, bare} {
		if h.requests > 0 {
			const mb = 1 << 20
			t.rows = append(t.rows, []string{
				h.description, strconv.Itoa(h.requests), fmt.Sprintf("%.1f", float64(h.idle)/mb), fmt.Sprintf("%.1f", float64(h.full)/mb),
				fmt.Sprintf("%.1f", h.each()/1024), percent(h.busy),
			})
		}
	}
	f.show(fmt.Sprintf("%d requests of 1 KiB that wait", n), t, notes)
	f.demand(bar{scenario: waitingName, what: "memory a request / bare ReverseProxy's", limit: 1.7}, got, func(*result) float64 { return queue.each() / bare.each() })
	f.demand(bar{scenario: waitingName, what: "of one core while they wait", limit: 5, unit: " %"}, got, func(*result) float64 { return 100 * queue.busy })
	return nil
}

// queue fills the queue of the program.
func (f *fleet) queue(ctx context.Context, n int) (held, error) {
	up, err := newProvider(ctx, account{quota: 1e6, burst: 1e6}, f.scale, 1)
	if err != nil {
		return held{}, err
	}
	defer up.close()
	up.begin()
	x, err := f.place.proxy(ctx, up.addr, endless)
	if err != nil {
		return held{}, err
	}
	defer x.Kill() // as many would have to be let go
	return x.fill(ctx, "ocr-proxy, in the queue", n, func(ctx context.Context) (int, error) {
		depth, ok, err := x.metric(ctx, "ocrproxy_queue_depth")
		if err == nil && !ok {
			err = errors.New("there is no metric ocrproxy_queue_depth")
		}
		return int(depth), err
	})
}

// bare blocks calls in a reverse proxy without any feature. It needs two files for each, so that the limit of open files may leave room for fewer.
func (f *fleet) bare(ctx context.Context, n int) (held, error) {
	if limit := openFiles(); limit > 0 {
		n = min(n, (limit-100)/2)
	}
	blocked, err := f.place.child(ctx, "blocked", "")
	if err != nil {
		return held{}, err
	}
	defer blocked.Kill()
	x, err := f.place.child(ctx, "bare", "http://"+blocked.addr)
	if err != nil {
		return held{}, err
	}
	defer x.Kill()
	return x.fill(ctx, "httputil.ReverseProxy, upstream blocked", n, func(ctx context.Context) (int, error) { return blockedCalls(ctx, blocked.addr) })
}

// fill sends that many requests, waits until nearly all of them (those apart that have been let go on the way) wait, and observes the process.
func (x *process) fill(ctx context.Context, description string, n int, waiting func(context.Context) (int, error)) (h held, err error) {
	h.description = description
	if h.idle, err = x.Resident(); err != nil {
		return h, err
	}
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range n {
		c, err := (&net.Dialer{Timeout: 20 * time.Second}).DialContext(ctx, "tcp", x.addr)
		if err != nil {
			return h, fmt.Errorf("connection %d: %w", i+1, err)
		}
		conns = append(conns, c)
		head := fmt.Appendf(nil, "POST /ocr HTTP/1.1\r\nHost: %s\r\nContent-Type: application/pdf\r\nContent-Length: %d\r\n\r\n", x.addr, documentBytes)
		if _, err := c.Write(append(head, document(i)...)); err != nil {
			return h, fmt.Errorf("request %d: %w", i+1, err)
		}
	}
	count := 0
	for range 120 {
		if count, err = waiting(ctx); err != nil {
			return h, err
		}
		if count >= n-n/100 {
			break
		}
		pause(ctx, 250*time.Millisecond)
	}
	if count < n-n/100 {
		return h, fmt.Errorf("%s: of %d requests only %d wait", description, n, count)
	}
	pause(ctx, settling)
	before, err := x.Processor()
	if err != nil {
		return h, err
	}
	began := time.Now()
	pause(ctx, observed)
	after, err := x.Processor()
	if err != nil {
		return h, err
	}
	h.busy = (after - before).Seconds() / time.Since(began).Seconds()
	if h.full, err = x.Resident(); err != nil {
		return h, err
	}
	h.requests, err = waiting(ctx)
	return h, err
}

// openFiles is how many files a process may have open; 0: not known.
func openFiles() int {
	text, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			if fields := strings.Fields(rest); len(fields) > 1 {
				n, _ := strconv.Atoi(fields[1])
				return n
			}
		}
	}
	return 0
}

// blockedCalls asks the blocking upstream how many it holds.
func blockedCalls(ctx context.Context, addr string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// child starts this program in a role.
func (p place) child(ctx context.Context, role, upstream string) (*process, error) {
	x := &process{}
	return x, x.start(ctx, role, child.Command{Name: role, Path: p.self, Args: []string{"-role", role, "-upstream", upstream}})
}

// holder is an upstream that answers no POST; a GET tells how many it holds.
type holder struct {
	mu   sync.Mutex
	held int
}

func (h *holder) add(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held += n
	return h.held
}

func (h *holder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, strconv.Itoa(h.add(0)))
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	h.add(1)
	defer h.add(-1)
	<-r.Context().Done()
}
